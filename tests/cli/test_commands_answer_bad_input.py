"""Bad input is answered with one line that says what was wrong and what to do, and exit status 2."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.cli.launched import command, outcome

BAD_INPUT = {
    "no command": ([], "jaxobs --help"),
    "unknown command": (["rum"], "did you mean run?"),
    "misspelt help": (["--halp"], "did you mean --help?"),
    "no script": (["run"], "no script given"),
    "no module": (["run", "--", "-m"], "no script given"),
    "missing script": (["run", "absent.py"], "no such script: absent.py"),
    "an interpreter": (
        ["run", "--", sys.executable, "train.py"],
        "is no Python script: name yours alone, as in jaxobs run -- train.py",
    ),
    "a program": (["run", "--", "python", "train.py"], "python is no Python script: name yours alone"),
    "a shell": (["run", "--", "sh", "train.sh"], "sh is no Python script: name yours alone"),
    "directory": (["run", "."], "is a directory without __main__.py"),
    "unknown option": (["run", "--intervall", "3", "script.py"], "did you mean --interval?"),
    "short option": (["run", "-x", "script.py"], "unknown option -x"),
    "option without value": (["run", "--interval"], "--interval needs a value"),
    "wrong value": (["run", "--interval", "soon", "script.py"], "interval='soon'"),
    "value out of range": (["run", "--interval=0", "script.py"], "must be a number from 0.05 to 60"),
    "no JSON": (["run", "--peak-flops", "many", "script.py"], "is not JSON"),
    "check": (["check", "--jsonn"], "did you mean --json?"),
    "plugins": (["plugins", "all"], "unknown argument 'all'"),
    "mistyped": (["plugins", "--jsno"], "did you mean --json?"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_one_line_and_status_2(tmp_path: Path, case: str) -> None:
    (tmp_path / "script.py").write_text("print('the script ran')\n")
    arguments, message = BAD_INPUT[case]
    answered = command(*arguments, folder=tmp_path)
    assert (answered.status, answered.stdout) == (2, "")
    assert message in answered.stderr
    assert answered.stderr.count("\n") == 1
    assert answered.stderr.startswith("jaxobs")


def test_a_wrong_variable_is_named_before_the_script_starts(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('the script ran')\n")
    answered = command("run", "script.py", folder=tmp_path, JAXOBS_INTERVAL="soon")
    assert (answered.status, answered.stdout) == (2, "")
    assert "JAXOBS_INTERVAL='soon'" in answered.stderr


def test_a_python_that_ignores_the_environment_is_told(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('the script ran')\n")
    code = (
        "import sys; sys.path[:0] = sys.argv.pop().split(':'); from jaxobs.cli import main; sys.exit(main())"
    )
    root = str(Path(__file__).parents[2])
    answered = outcome([sys.executable, "-E", "-c", code, "run", "script.py", root], tmp_path)
    assert (answered.status, answered.stdout) == (2, "")
    assert "-E, -I or -S" in answered.stderr


def test_the_help_of_run_has_a_line_for_every_setting(tmp_path: Path) -> None:
    from jaxobs.config import SETTINGS

    text = command("run", "--help", folder=tmp_path).stdout
    options = {
        line.split()[0].removeprefix("--[no-]").removeprefix("--")
        for line in text.splitlines()
        if "--" in line
    }
    assert options >= {name.replace("_", "-") for name in SETTINGS}
    assert re.search(r"--interval X +1\.0  seconds between", text)
    assert re.search(r"--metrics-port X +9464  port", text)  # what it is where nothing else is said
    assert re.search(r"--metrics-host X +localhost  address", text)
    assert len(text.splitlines()) < len(SETTINGS) + 10
    assert max(map(len, text.splitlines())) <= 100


def test_version(tmp_path: Path) -> None:
    assert command("--version", folder=tmp_path).stdout.startswith("jaxobs ")
