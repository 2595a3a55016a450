"""`jaxobs run [options] -- script.py args…`: run a script as Python would, observed.

The process becomes the very `python script.py args…` that the user would have typed, by exec: same process,
same interpreter options, nothing of ours on its stack. Tracebacks, the lines that warnings name, `sys.argv`,
`sys.path`, `__main__`, exit status and signals are then Python's own. What observes gets in before the script
through `launch/sitecustomize.py`, which takes back the environment variables that brought it.
"""

from __future__ import annotations

import json
import marshal
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, get_origin

from jaxobs.cli.terminal import terminal_width
from jaxobs.config import PREFIX, SETTINGS, load_settings
from jaxobs.identity import is_first
from jaxobs.plugin.settings import meant
from jaxobs.report.text_table import cut
from jaxobs.vocabulary import InputError

SUMMARY = "run a script or module, observed, without a change to it"

USAGE = """usage: jaxobs run [options] [--] script.py [arguments]
       jaxobs run [options] [--] -m module [arguments]"""

VARIABLES = f"""Each is a variable too: {PREFIX}INTERVAL=2 is `--interval 2`. `jaxobs check` shows what is set.
More on each: https://github.com/jaxobs/jaxobs/blob/main/docs/reference/settings.md"""


def run(arguments: list[str]) -> int:
    """Replace this process by the script; returns only for --help. Raises InputError if it cannot be run."""
    settings, rest = _settings_of(arguments)
    if rest[:1] == ["--help"] or arguments[:1] == ["-h"]:  # options after the script are its own
        print(f"{USAGE}\n\noptions:\n{options_help(terminal_width(sys.stdout))}\n\n{VARIABLES}")
        return 0
    program = _program_of(rest)
    environment = dict(os.environ)
    # Python sets LC_CTYPE as it starts in the locale C (PEP 538), and the script's Python is to find that locale too.
    if sys.flags.utf8_mode and environment.get("LC_CTYPE") == "C.UTF-8" and not environment.get("LC_ALL"):
        environment["LC_CTYPE"] = "C"
    if load_settings(**settings).enabled:
        if sys.flags.ignore_environment or sys.flags.no_site:
            raise InputError("-E, -I or -S would keep jaxobs out of this Python; start it without")
        environment = launch_environment(environment, settings)
    try:
        command = [sys.executable, *interpreter_options(), *program]
        os.execve(sys.executable, command, environment)  # noqa: S606  # no shell is wanted
    except OSError as error:
        raise InputError(f"cannot start {sys.executable}: {error.strerror}") from None


def _settings_of(arguments: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The settings among the arguments, and what follows them. Raises InputError for an unknown option."""
    settings: dict[str, Any] = {}
    while arguments and arguments[0].startswith("--") and arguments[0] not in {"--", "--help"}:
        name, value, arguments = read_option(arguments)
        settings[name] = value
    return settings, arguments


def _program_of(arguments: list[str]) -> list[str]:
    """The script or `-m module` with its arguments. Raises InputError if there is none that Python could run."""
    program = arguments[1:] if arguments[:1] == ["--"] else arguments
    if not program or program == ["-m"]:
        raise InputError("no script given: jaxobs run [options] -- script.py [args], or -m module [args]")
    if program[0] in {"-", "-m"}:  # a missing module is Python's to report
        return program
    if program[0].startswith("-"):
        hint = "options of jaxobs begin with --, `jaxobs run --help` lists them"
        raise InputError(f"unknown option {program[0]}; {hint}")
    check_script(Path(program[0]))
    return program


def check_script(script: Path) -> None:
    """Raises InputError for a script that Python could not run."""
    if script.is_dir() and not (script / "__main__.py").is_file():
        raise InputError(f"{script} is a directory without __main__.py; name a script, or -m for a package")
    is_program = shutil.which(script) if not script.exists() else re.fullmatch(r"python[\d.]*", script.name)
    if is_program and not script.is_dir():
        raise InputError(f"{script} is no Python script: name yours alone, as in jaxobs run -- train.py")
    if not script.exists():
        raise InputError(f"no such script: {script} (working directory {Path.cwd()})")
    if not os.access(script, os.R_OK):
        raise InputError(f"the script {script} cannot be read; check its permissions")


def launch_environment(environment: dict[str, str], settings: dict[str, Any]) -> dict[str, str]:
    """The environment in which Python imports our sitecustomize, which then restores `environment`."""
    folder = str(Path(__file__).with_name("launch"))
    pythonpath = environment.get("PYTHONPATH")
    # Not JSON: Python's start has imported marshal, and the script is to find nothing imported that it would not.
    # Of several processes that a launcher starts together only the first prints.
    prints = is_first(environment)
    launch = marshal.dumps({"pythonpath": pythonpath, "settings": settings, "prints": prints}).hex()
    path = folder + os.pathsep + pythonpath if pythonpath else folder
    return {**environment, "PYTHONPATH": path, "JAXOBS_LAUNCH": launch}


def interpreter_options() -> list[str]:
    """The options of Python itself (`-W error`, `-X dev`, …) with which this process was started."""
    options = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv)]
    started_as_module = getattr(sys.modules["__main__"], "__spec__", None) is not None
    if started_as_module and options and options[-1].startswith("-") and options[-1].endswith("m"):
        without = options.pop()[:-1]  # `-m jaxobs`, or joined to others as in `-um jaxobs`
        options += [without] if without != "-" else []
    return options


def options_by_name() -> dict[str, tuple[str, bool | None]]:
    """The setting of each option, and what the option alone sets it to (None: a value follows it)."""
    found: dict[str, tuple[str, bool | None]] = {}
    for name, field in SETTINGS.items():
        option = name.replace("_", "-")
        found[f"--{option}"] = name, True if field.type is bool else None
        if field.type is bool:
            found[f"--no-{option}"] = name, False
    return found


def read_option(arguments: list[str]) -> tuple[str, Any, list[str]]:
    """The setting that the first argument names, its value, and the remaining arguments.

    Raises InputError for an option that does not exist, has no value, or one that is not the JSON it must be.
    """
    option, equals, inline = arguments[0].partition("=")
    options = options_by_name()
    name, alone = options.get(option, ("", None))
    if not name or (equals and alone is False):
        raise InputError(f"unknown option {option}{meant(option, options, '{}')}; `--help` lists the options")
    if alone is not None and not equals:
        return name, alone, arguments[1:]
    field = SETTINGS[name]
    rest = arguments[1:] if equals else arguments[2:]
    if not equals and len(arguments) < 2:
        raise InputError(f"option {option} needs a value: {field.description}")
    value = inline if equals else arguments[1]
    if get_origin(field.type) is not dict:
        return name, value, rest
    try:
        return name, json.loads(value), rest
    except ValueError as error:
        raise InputError(f"option {option} {value!r} is not JSON ({error}): {field.description}") from None


def options_help(width: int) -> str:
    """A line of this width for each setting, so that all are seen at once: its option, default, and what it is for."""
    lines = []
    for name, field in SETTINGS.items():
        option = f"--[no-]{name}" if field.type is bool else f"--{name} X"
        words = re.split(" [(]|; |: ", field.description)[0]
        default = field.stands_for or ("–" if field.default in (None, {}) else str(field.default))
        lines.append(cut(f"  {option.replace('_', '-'):27} {default:>9}  {words}", width))
    return "\n".join([f"  {'option':27} {'default':>9}", *lines])
