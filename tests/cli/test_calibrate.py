"""`jaxobs calibrate` as a user runs it: a process of its own, a table, a file found again, bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import jaxobs.cli.calibrate as command
from jaxobs.cli import main
from jaxobs.cli.calibrate import calibration_parts
from jaxobs.hardware.calibration import (
    Calibration,
    LeftOut,
    Rate,
    load_calibration,
    this_host,
)
from jaxobs.hardware.known_peaks import peaks_for
from jaxobs.report.text_table import to_text

EXAMPLE = Calibration(
    "NVIDIA H200", "gpu", "Example 9000", 8, "0.10.2", "0.10.2", 1.7e9, 10.0,
    (Rate("bfloat16", 8192, 788e12), Rate("float32", 512, 4e11),
     Rate("float8_e4m3fn", 8192, 1484e12)),
    (Rate("float32", 2**24, 6e13),),
    (Rate("float32", 2**24, 4e12),), (Rate("float32", 2**30, 4.3e12),), 1.5,
    (LeftOut("float8_e5m2", "float16", "runs as float16 here: no peak of its own"),),
)  # fmt: skip


def test_it_measures_shows_keeps_and_is_found_again(tmp_path: Path) -> None:
    environment = {**os.environ, "JAXOBS_CACHE_DIRECTORY": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "jaxobs", "calibrate", "--seconds", "1", "--json"],
        capture_output=True, text=True, env=environment, timeout=150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    shown = Calibration.from_dict(json.loads(done.stdout))
    kept = load_calibration(this_host(shown.device_kind, shown.jaxlib), tmp_path)
    assert kept == shown
    assert str(tmp_path) in done.stderr
    peaks = peaks_for(shown.device_kind, shown.platform, measured=kept)
    assert peaks.reason is None
    assert peaks.memory is not None
    # An old core does more than 1 GFLOP/s and 0.5 GB/s; the largest machine a thousandth of the upper limits.
    assert 1e9 < peaks.matrix["float32"].value < 1e17
    assert 5e8 < peaks.memory.value < 1e14


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "soon"], "--seconds"),
        (["--seconds", "0"], "from 1 to 3600"),
        (["--seconds", "nan"], "from 1 to 3600"),
        (["--fast"], "--fast"),
        (["surplus"], "surplus"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", *arguments]) == 2
    line = capsys.readouterr().err
    assert line.startswith("jaxobs calibrate: ")
    assert said in line
    assert line.count("\n") == 1


def test_a_process_that_fails_is_reported_with_what_it_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "no_such_platform")
    monkeypatch.setenv("JAXOBS_CACHE_DIRECTORY", str(tmp_path))
    assert main(["calibrate"]) == 1
    said = capsys.readouterr()
    *_, line = said.err.splitlines()
    assert line.startswith("jaxobs calibrate: ")
    assert "no_such_platform" in line
    assert said.out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("variable", ["JAXOBS_CACHE_DIRECTORY", "jaxobs_cache_directory"])
def test_nothing_is_measured_where_the_result_could_not_be_kept(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.delenv("JAXOBS_CACHE_DIRECTORY", raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "file"))
    monkeypatch.setattr(command, "calibrate_in_process", None)
    assert main(["calibrate"]) == 2
    said = capsys.readouterr()
    assert said.err == (
        f"jaxobs calibrate: nothing can be kept in {tmp_path / 'file'}: Not a directory; set JAXOBS_CACHE_DIRECTORY to a "
        "writable directory\n"
    )


def test_nothing_is_measured_without_a_home_to_keep_the_result_in(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unknown(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("JAXOBS_CACHE_DIRECTORY", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", unknown)
    monkeypatch.setattr(command, "calibrate_in_process", None)
    assert main(["calibrate"]) == 2
    assert capsys.readouterr().err == (
        "jaxobs calibrate: no home directory is known to keep peaks in: "
        "set JAXOBS_CACHE_DIRECTORY to a writable directory\n"
    )


def test_a_result_that_cannot_be_kept_in_the_end_is_still_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def measure(_seconds: float) -> Calibration:
        (tmp_path / "cache").write_text("", encoding="utf-8")
        return EXAMPLE

    monkeypatch.setattr(command, "calibrate_in_process", measure)
    monkeypatch.setenv("JAXOBS_CACHE_DIRECTORY", str(tmp_path / "cache"))
    assert main(["calibrate", "--json"]) == 2
    said = capsys.readouterr()
    assert Calibration.from_dict(json.loads(said.out)) == EXAMPLE
    assert f"cannot use {tmp_path / 'cache'}: File exists" in said.err


def test_the_table_has_each_rate_and_the_size_that_reached_it() -> None:
    text = to_text(calibration_parts(EXAMPLE))
    assert "788 TFLOP/s" in text
    assert "1 GiB" in text
    assert "8192 × 8192" in text
    rows = {row.split()[1]: row for row in text.splitlines() if row.startswith("matrix")}
    assert "1.48 PFLOP/s" in rows["float8_e4m3fn"]
    assert "float8_e5m2 runs as float16 here: no peak of its own" in text


def test_a_busy_machine_is_mentioned_for_a_processor(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from dataclasses import replace

    busy = replace(EXAMPLE, device_kind="cpu", platform="cpu")
    monkeypatch.setattr(command, "calibrate_in_process", lambda _seconds: busy)
    monkeypatch.setenv("JAXOBS_CACHE_DIRECTORY", str(tmp_path))
    assert main(["calibrate"]) == 0
    assert "took 1.5 cores meanwhile: these peaks may be too low" in capsys.readouterr().err
