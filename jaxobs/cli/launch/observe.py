"""Attaches to a process before its script runs, and prints a summary at its end.

Loaded before the script, so at its top it imports only modules that Python's own start has imported.
"""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False  # as `typing` has it, without importing that
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

NOTHING = "jaxobs: no summary: JAX compiled nothing in this process; where it starts ranks, put `jaxobs run` before each"

_failed: list[str] = []
"""Why this process is not observed, where attaching to JAX has not come to its end."""


def observe(
    settings: dict[str, object],
    when_imported: Callable[[str, Callable[[ModuleType], None]], None],
    *,
    prints: bool,
) -> None:
    """Make this process observed from its first JAX backend on; `when_imported` is `probe.import_hook`'s.

    `prints`: it says where it is seen, and a summary at the end.

    Starts nothing, and imports neither JAX nor most of jaxobs before the script itself imports JAX: what a
    script does at its beginning (patching the standard library, say) it does in a process as fresh as ever.
    """
    # Exit functions run last in, first out: this one after the observer's, which takes the last snapshot.
    if prints:
        atexit.register(_report, os.getpid())
    when_imported("jax", lambda _: _attach(settings, prints=prints))


def _attach(settings: dict[str, object], *, prints: bool) -> None:
    _failed.append("JAX could not be observed; the log says why")
    if (file := _instead_of_ours()) is not None:
        atexit.unregister(_report)
        print(f"jaxobs: the script runs unobserved: {file} hides a package of jaxobs", file=sys.stderr)
        return
    from jaxobs.instrument import attach

    attach(tell_address=_say_address if prints else None, **settings)
    _failed.clear()


def _instead_of_ours() -> str | None:
    """A file of the script's own that an import of ours would find or has found, and run; None if there is none."""
    root = os.path.abspath(__file__)  # noqa: PTH100  # not pathlib: the fewer imports
    for _ in range(4):
        root = os.path.dirname(root)  # noqa: PTH120
    for name in ("jaxobs", "jaxobs_plugins"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if name not in sys.modules:
            specs = (finder.find_spec(name, None) for finder in sys.meta_path if hasattr(finder, "find_spec"))
            file = next((spec.origin for spec in specs if spec is not None), None)
        ours = [os.path.join(root, *above, name) for above in ((), ("plugins",))]  # noqa: PTH118
        if file and os.path.realpath(os.path.dirname(file)) not in map(os.path.realpath, ours):  # noqa: PTH120
            return str(file)
    return None


def _say_address(url: str, summary_file: str | None) -> None:
    """Print the address, but only to a terminal: a captured standard error is the script's own until the summary."""
    try:
        if sys.stderr.isatty():
            sys.stderr.write(f"jaxobs: live page {url.removesuffix('metrics')}, metrics {url}\n")
            if summary_file is not None:
                sys.stderr.write(f"jaxobs: if the job is killed its last summary is in {summary_file}\n")
            sys.stderr.flush()
    except Exception:  # noqa: BLE001, S110  # closed, or replaced by something of the script's
        pass


def _report(launched: int) -> None:
    # A fork of the script ends with `exit` too. Where `-m` still stands, Python found no such module, and has said so.
    if os.getpid() != launched or sys.argv[:1] == ["-m"] or sys.stderr is None:
        return
    try:
        try:
            text = closing_text()
        except Exception as error:  # noqa: BLE001  # an error of ours, which is reported
            text = f"jaxobs: no summary could be made: {type(error).__name__}: {error}"
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (Exception, KeyboardInterrupt):  # noqa: BLE001, S110  # it is closed; nothing may change the exit status
        pass
    _die_as_interrupted()


def _die_as_interrupted() -> None:
    """Let a script that Ctrl-C ended still die of SIGINT after the summary, as a shell expects.

    Python remembers an uncaught KeyboardInterrupt until source text is run again, as happens when a module with
    dataclasses or named tuples is imported. Running source text that raises one restores it.
    """
    if issubclass(getattr(sys, "last_type", None) or Exception, KeyboardInterrupt):
        try:  # noqa: SIM105  # contextlib may not be loaded
            exec("raise KeyboardInterrupt")  # noqa: S102  # only text that is run by `exec` is remembered
        except KeyboardInterrupt:
            pass


def closing_text() -> str:
    """The summary of what was observed, or the one line that says why there is none."""
    instrument = sys.modules.get("jaxobs.instrument")
    observer = instrument.current() if instrument else None
    # An observer that has started takes one as it shuts down, whatever the agent answers.
    if observer is None or observer.final_snapshot is None:
        why = (observer.why_nothing() if observer else "") or "".join(_failed)
        return f"jaxobs: no summary: {why}" if why else NOTHING

    from jaxobs.cli.terminal import look_of
    from jaxobs.report.runs import SUMMARY
    from jaxobs.report.summary import render

    document, file = observer.final_snapshot.to_dict(), observer.summary_file or ""
    text = render(document, **look_of(sys.stderr))
    if document.get("process") is None and file.endswith(f"/{SUMMARY}"):
        text += f"; `jaxobs show {file.removesuffix(f'/{SUMMARY}')}` prints what it has recorded"
    return text
