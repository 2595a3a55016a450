from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from jaxobs.cli import main
from jaxobs.report.record import encoded
from tests.report.made_up import content, windows


def written(path: Path, **changes: object) -> str:
    path.write_bytes(encoded(content(**changes)))
    return str(path)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    slower = windows(0.0115, seed=1)
    return written(tmp_path / "a.json"), written(tmp_path / "b.json", stretches=slower)


def test_a_slower_run_fails_where_less_is_allowed(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *pair]) == 0
    assert "`train` is slower in B" in capsys.readouterr().out
    assert main(["compare", *pair, "--fail-if-slower", "5%"]) == 1
    assert "% slower: 5 % are allowed" in capsys.readouterr().err
    assert main(["compare", *pair, "--fail-if-slower=30%"]) == 0
    assert main(["compare", *reversed(pair), "--fail-if-slower", "5%"]) == 0
    capsys.readouterr()
    assert main(["compare", *pair, "--fail-if-slower", "5%", "--loop", "train", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["step_times"][0]["verdict"] == "slower"


def test_what_is_within_the_noise_does_not_fail(tmp_path: Path) -> None:
    one = written(tmp_path / "a.json", stretches=windows(noise=0.1, seed=1))
    other = written(tmp_path / "b.json", stretches=windows(noise=0.1, seed=2))
    assert main(["compare", one, other, "--fail-if-slower", "0%"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "not so many runs have left a record"),
        (["a.json"], "not so many runs have left a record"),
        (["a.json", "last~1"], "last~1: not so many runs have left a record"),
        (["a.json", "nowhere.json"], "cannot read nowhere.json: No such file or directory"),
        (["a.json", "text.json"], "text.json is no JSON"),
        (["a.json", "empty"], "no record of a run in this directory"),
        (["a.json", "/dev/zero"], "cannot read /dev/zero"),
        (["a.json", "a.json", "--fail-if-slower", "5"], "give a percentage, such as 5%"),
        (["a.json", "a.json", "--fail-if-slower"], "expected one argument"),
        (["a.json", "a.json", "--loop", "eval"], "give that, too"),
        (["a.json", "a.json", "--loop", "eval", "--fail-if-slower", "5%"], "no loop `eval` in common"),
        (["a.json", "short.json", "--fail-if-slower", "5%"], "whether `train` became slower cannot be told"),
        (["a.json", "a.json", "--jsn"], "unknown option --jsn (did you mean --json?)"),
    ],
)
def test_input_that_cannot_be_used_has_status_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    written(Path("a.json"))
    written(Path("short.json"), stretches=windows(number=3))
    Path("text.json").write_text("no json")
    Path("empty").mkdir()
    assert main(["compare", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("jaxobs compare: ")
    assert words in error
    assert len(error.splitlines()) == 1


def test_of_a_directory_the_newest_run_counts_and_of_it_the_lowest_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path / "earlier.json", began=100.0)
    written(tmp_path / "one.json", rank=1, began=901.0)
    written(tmp_path / "zero.json", rank=0, began=900.0)
    (tmp_path / "something else.json").write_text("{}")
    assert main(["show", str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["began"], shown["snapshot"]["process"]["process_index"]) == (900.0, 0)


def test_show_says_that_a_run_may_not_have_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = content() | {"state": "running"}
    (tmp_path / "a.json").write_bytes(encoded(record))
    assert main(["show", str(tmp_path / "a.json")]) == 0
    assert "how it ended is not known" in capsys.readouterr().out
    assert main(["show", "--jsn"]) == 2


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs in the user's state directory, the second of another script, and a file that is no record."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    records = tmp_path / "jaxobs" / "runs"
    records.mkdir(parents=True)
    for number, run in enumerate(("train", "other", "train")):
        path = records / f"{run}-rank0-{number}.json"
        record = content(began=1_000.0 + number)
        record["snapshot"]["process"]["run"] = run
        path.write_bytes(encoded(record))
        os.utime(path, (number, number))
    (records / "notes.json").write_text("{}")
    os.utime(records / "notes.json", (0, 0))
    return records


def test_runs_that_left_a_record_are_listed_the_newest_first(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    begin = [line.split()[0] for line in lines if line.startswith("last")]
    assert begin == ["last", "last~1", "last~2"]
    assert "`train` has done 4,000 steps, MFU 40 %." in lines[1]
    assert lines[-1] == f"{records}; 1 files there are no whole records"


def test_without_names_the_last_run_is_shown_and_compared_with_the_one_before_of_its_script(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for word, began in (("last", 1002.0), ("last~1", 1001.0), ("other", 1001.0), ("train-rank0-0", 1000.0)):
        assert main(["show", word, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["began"] == began
    monkeypatch.chdir(tmp_path)
    Path("last").mkdir()  # a link to the last checkpoint is often called so
    assert main(["show"]) == 0
    capsys.readouterr()
    assert main(["compare"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"A is {records}/train-rank0-0.json, B is {records}/train-rank0-2.json."
    assert main(["compare", "last~1", "last~1"]) == 0
    (records / "train-rank0-0.json").unlink()
    assert main(["compare"]) == 2
    assert "no earlier record of the run 'train' is kept" in capsys.readouterr().err


def test_a_runs_page_is_written_as_a_file_that_needs_nothing_else(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.html"
    assert main(["show", "--html", str(file)]) == 0
    assert capsys.readouterr().out == f"wrote {file}\n"
    written_page = file.read_text(encoding="utf-8")
    assert "<h1>train</h1>" in written_page
    assert not re.search(r"<script|(src|href)=\"(?!data:|#)", written_page)
    assert main(["show", "--html", str(tmp_path / "nowhere" / "run.html")]) == 2


def test_where_no_records_are_kept_that_is_said(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAXOBS_KEEP_RUNS", "0")
    assert main(["runs"]) == 2
    assert "no records are kept: JAXOBS_KEEP_RUNS is false" in capsys.readouterr().err
    assert main(["runs", str(records)]) == 0
    assert main(["runs", str(records / "none")]) == 2
    (records / "train-rank0-0.json").write_bytes(encoded(content() | {"state": ["x"]}))
    assert main(["runs", str(records)]) == 0
    assert "2 files there are no whole records" in capsys.readouterr().out
