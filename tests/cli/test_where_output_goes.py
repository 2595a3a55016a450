"""Commands write to terminals, files and pipes of every kind, and end in good order where they cannot, or on Ctrl-C."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from jaxobs.cli.terminal import is_styled, terminal_width
from jaxobs.report.text_table import PLAIN_WIDTH
from tests.cli.launched import JAXOBS, environment, jaxobs, outcome

PATH = environment()["PYTHONPATH"]


def shell(line: str, folder: Path) -> tuple[int, str]:
    """Exit status and standard error of the command, put in the place of `{}`."""
    done = subprocess.run(
        ["bash", "-c", line.format(shlex.join(JAXOBS))],
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr


def test_where_there_is_no_room_one_line_says_so(tmp_path: Path) -> None:
    status, said = shell("{} plugins --json > /dev/full", tmp_path)
    assert status == 1
    assert (
        said == "jaxobs plugins: the output could not be written: No space left on device; make room there\n"
    )


@pytest.mark.parametrize("command", ["plugins", "plugins --json", "--help"])
def test_a_reader_that_leaves_is_no_error_to_speak_of(tmp_path: Path, command: str) -> None:
    status, said = shell(f"{{}} {command} | true; exit ${{{{PIPESTATUS[0]}}}}", tmp_path)
    assert status in (0, 1)  # 0 where everything was in the pipe before it closed
    assert said == ""


@pytest.mark.parametrize("command", ["plugins", "--version"])
def test_without_standard_output_nothing_is_shown(tmp_path: Path, command: str) -> None:
    assert shell(f"{{}} {command} >&-", tmp_path) == (0, "")


def test_ctrl_c_is_one_line(tmp_path: Path) -> None:
    code = (
        "import signal, sys; from jaxobs.cli import main, plugins; "
        "plugins.find_plugins = lambda: signal.raise_signal(signal.SIGINT); sys.exit(main(['plugins']))"
    )
    answered = outcome([sys.executable, "-c", code], tmp_path)
    assert (answered.status, answered.stdout, answered.stderr) == (130, "", "jaxobs plugins: interrupted\n")


def test_help_is_there_behind_other_options_and_the_scripts_own_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import sys; print(sys.argv[1:])\n")
    for arguments in (["run", "--no-prometheus", "--interval", "2", "--help"], ["plugins", "--json", "-h"]):
        answered = jaxobs(*arguments, folder=tmp_path)
        assert (answered.status, answered.stderr) == (0, "")
        assert answered.stdout.startswith("usage: jaxobs")
    assert jaxobs("run", "script.py", "--help", folder=tmp_path).stdout == "['--help']\n"


def test_styles_are_for_terminals_whose_user_wants_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    controller, terminal = os.openpty()
    with open(terminal, "w") as stream, open(tmp_path / "file", "w") as file:  # noqa: PTH123  # a descriptor
        assert is_styled(stream)
        assert not is_styled(file)
        assert not is_styled(None)
        for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
            with monkeypatch.context() as patch:
                patch.setenv(name, value)
                assert not is_styled(stream)
    os.close(controller)
    assert not is_styled(file)
    assert terminal_width(file) == terminal_width(None) == PLAIN_WIDTH


def test_a_library_that_is_missing_is_one_line(tmp_path: Path) -> None:
    missing = "No module named 'google.protobuf'"
    (tmp_path / "google").mkdir()
    raising = f"raise ModuleNotFoundError({missing!r}, name='google.protobuf')\n"
    (tmp_path / "google" / "protobuf.py").write_text(raising)
    answered = jaxobs(
        "analyze", "a.xplane.pb", folder=tmp_path, PYTHONPATH=os.pathsep.join([str(tmp_path), PATH])
    )
    assert (answered.status, answered.stdout) == (1, "")
    assert answered.stderr == (
        f"jaxobs analyze: {missing}: run `pip install jaxobs`, which brings what it needs\n"
    )
