"""`jaxobs memory`: runs a script as far as one of its functions, and tells what that holds of a device's memory."""

from __future__ import annotations

import argparse
import os
import re
import runpy
import signal
import sys
import threading
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NoReturn

from jaxobs.cli.console import Parser, print_found
from jaxobs.cli.run import check_script
from jaxobs.config import PREFIX
from jaxobs.jax_compat.compiling import PHASES, new_executable
from jaxobs.probe.import_hook import when_imported
from jaxobs.report.peak_memory import Memory, parts
from jaxobs.vocabulary import InputError

SUMMARY = "tell what a function of a script holds of a device's memory at its peak, by line"

_EPILOG = (
    "The script runs, unobserved, until it first calls the function. That is compiled, but not run, and the script ends "
    "there as by sys.exit(). So a step that does not fit can be asked about on a machine where its arguments do."
)


class Reached(SystemExit):
    """Ends the script where the function was compiled, as by `sys.exit()`: its `finally` blocks run."""


def run(arguments: list[str]) -> int:
    """Run the script, print what is known. Raises InputError where it does not come as far as the function."""
    parser = Parser("memory", SUMMARY, _EPILOG)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "-m", action="store_true", dest="module", help="a module, not a file: -m package.train:train_step"
    )
    parser.add_argument("where", metavar="SCRIPT:FUNCTION", help="such as train.py:train_step")
    parser.add_argument("arguments", metavar="…", nargs=argparse.REMAINDER, help="the script's own arguments")
    options = parser.parse_args(arguments)
    script, _, function = options.where.rpartition(":")
    if not script or not function:
        raise InputError(f"{options.where}: give a script and a function of it, such as train.py:train_step")
    if not options.module:
        check_script(Path(script))
    sys.argv = [script, *options.arguments]
    os.environ[f"{PREFIX}ENABLED"] = "false"  # of a script that calls `instrument()` too
    found = memory_at_first_call(script, function, module=options.module).to_dict()
    print_found(found, parts(found), as_json=options.json)
    return 0


def memory_at_first_call(script: str, function: str, *, module: bool) -> Memory:
    """Run a script or module, with the arguments in `sys.argv`, until JAX compiles the function of this name.

    What it prints goes to standard error, the traceback of what it raises too. Raises InputError then, and where the
    function is not compiled or its memory is not told.
    """
    known: list[Memory | ValueError] = []
    names: dict[str, None] = {}

    def compiled(event: str, *_: Any, **__: Any) -> None:
        if known or PHASES.get(event) != "backend":
            return
        executable = new_executable(sys._getframe(1))  # noqa: SLF001  # the public way to a frame
        if executable is None:
            return
        from jaxobs.measure.on_demand import memory_held

        name = re.sub(r"^(jit|pmap)_+", "", executable.hlo_modules()[0].name).rstrip("_")
        names[name] = None
        if name in _names_of(function):
            try:
                known.append(memory_held(executable, function))
            except ValueError as error:
                known.append(error)
            _end_script()

    when_imported("jax", lambda jax: jax.monitoring.register_event_duration_secs_listener(compiled))
    try:
        with redirect_stdout(sys.stderr):
            how = _run(script, module=module)
    except KeyboardInterrupt:
        if not known:
            raise
    if not known:
        raise InputError(
            f"{script} {how} and did not compile {function}; it compiled {', '.join(names) or 'nothing'}"
        )
    if isinstance(known[0], ValueError):
        raise InputError(str(known[0]))
    return known[0]


def _names_of(function: str) -> set[str]:
    """What JAX may call it: `train_step = jax.jit(update)` is known by both of its names."""
    defined = getattr(getattr(sys.modules["__main__"], function, None), "__name__", function)
    return {re.sub(r"\W", "_", name).strip("_") for name in (function, defined)} - {"lambda"}


def _end_script() -> NoReturn:
    """End the script, whichever thread of it is here."""
    if threading.current_thread() is not (main := threading.main_thread()):
        signal.pthread_kill(main.ident or 0, signal.SIGINT)  # wakes it up, which interrupt_main() does not
    raise Reached(0)


def _run(script: str, *, module: bool) -> str:
    """Run it to its end; in words how it ended."""
    try:
        if module:
            sys.path[0] = ""
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(script).resolve().parent)
            runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        return f"ended by sys.exit({ended.code or 0!r})"
    except Exception:  # noqa: BLE001  # the script's own
        traceback.print_exc()
        return "failed"
    return "ended"
