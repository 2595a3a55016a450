from __future__ import annotations

import json
import os
import re
import shutil
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from jaxobs.cli import main
from jaxobs.cli.compare import compare
from jaxobs.cli.show import of_one_run, read_record
from jaxobs.cli.show import records as records_in
from jaxobs.report.record import encoded
from jaxobs.report.runs import RECORD, folder_of
from tests.report.made_up import content, windows
from tests.sample_document import device_time


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


def test_the_page_has_the_sentence_the_differences_and_a_flame_graph_of_both(tmp_path: Path) -> None:
    one = written(tmp_path / "a.json", device_time=device_time())
    other = written(tmp_path / "b.json", device_time=device_time("softmax"))
    assert main(["compare", one, other, "--html", str(tmp_path / "both.html")]) == 0
    shown = (tmp_path / "both.html").read_text()
    for words in ("as fast in B as in A", "share of softmax model.py", "is-larger", "softmax model.py:118"):
        assert words in shown.replace("\u00a0", " ")
    assert main(["compare", one, other, "--html", str(tmp_path / "nowhere" / "both.html")]) == 2


def test_what_is_within_the_noise_does_not_fail(tmp_path: Path) -> None:
    one = written(tmp_path / "a.json", stretches=windows(noise=0.1, seed=1))
    other = written(tmp_path / "b.json", stretches=windows(noise=0.1, seed=2))
    assert main(["compare", one, other, "--fail-if-slower", "0%"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "jaxobs compare: no run has left a record in "),
        (["a.json"], "jaxobs compare: no run has left a record in "),
        (["a.json", "last~1"], "last~1: not so many runs have left a record"),
        (["a.json", "nowhere.json"], "'nowhere.json' is no file, and no kept run's name begins so"),
        (["a.json", "text.json"], "text.json is no JSON"),
        (["a.json", "empty"], "no run has left a record in empty"),
        (["a.json", "/dev/zero"], "cannot read /dev/zero"),
        (["a.json", "a.json", "--fail-if-slower", "5"], "give a percentage, such as 5%"),
        (["a.json", "a.json", "--fail-if-slower"], "expected one argument"),
        (["a.json", "a.json", "--loop", "eval"], "give that, too"),
        (["a.json", "short.json", "--loop", "eval", "--fail-if-slower", "5%"], "no loop `eval` in common"),
        (["a.json", "short.json", "--fail-if-slower", "5%"], "Whether `train` became slower cannot be told"),
        (["a.json", "./a.json", "--fail-if-slower", "5%"], "A and B are the same run, a.json: name two"),
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


def kept(
    directory: Path,
    run: str = "train",
    script: str = "train",
    *,
    began: float,
    launched: str = "",
    **changes: object,
) -> Path:
    """The folder of a run that began then; its time of writing is the same."""
    instance = f"{began:.0f}r{changes.get('rank', 0)}"
    resource = {"jaxobs.run": run, "service.instance.id": instance, "jax.process_index": launched}
    folder = folder_of({"run_directory": directory}, resource, began, is_first=True)
    assert folder is not None
    folder.mkdir(parents=True)
    record = content(began=began, **changes)
    record["snapshot"]["process"] |= {"run": run, "script": script}
    (folder / "record.json").write_bytes(encoded(record))
    os.utime(folder / "record.json", (began, began))
    return folder


def test_of_a_directory_the_newest_run_counts_and_of_it_the_lowest_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path, began=100.0)
    kept(tmp_path, began=901.0, rank=1)
    kept(tmp_path, began=900.0, rank=0)
    (tmp_path / "something else").mkdir()
    assert main(["show", str(tmp_path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["began"], shown["snapshot"]["process"]["process_index"]) == (900.0, 0)
    assert main(["runs", str(tmp_path)]) == 0
    assert re.findall(r"(?m)^last\S*", capsys.readouterr().out) == ["last", "last~1"]


def test_of_the_processes_that_a_launcher_started_together_the_first_is_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in "1203":
        kept(tmp_path, began=100.0 + int(rank), launched=rank)
    assert main(["show", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["began"] == 100.0
    assert main(["runs", str(tmp_path)]) == 0
    assert re.findall(r"(?m)^last\S*", capsys.readouterr().out) == ["last"]


def test_a_rank_that_began_minutes_after_the_others_is_no_run_of_its_own(tmp_path: Path) -> None:
    for rank, began in enumerate((100.0, 160.0, 90.0)):
        kept(tmp_path, began=began, launched=str(rank), rank=rank)
    kept(tmp_path, "other", "other", began=130.0)
    kept(tmp_path, began=500.0, launched="1", rank=1)
    assert [record.content["began"] for record in records_in(tmp_path, [])] == [500.0, 130.0, 100.0]


def test_of_many_ranks_no_more_than_a_few_records_are_in_memory_at_a_time(tmp_path: Path) -> None:
    for rank in range(50):
        folder = kept(tmp_path, began=100.0 + rank, launched=str(rank), rank=rank)
        record = json.loads((folder / "record.json").read_text())
        record["snapshot"]["process"]["run_id"] = "a1"
        record["snapshot"]["operations"] = [{"operation": f"dot.{number}"} for number in range(2_000)]
        (folder / "record.json").write_text(json.dumps(record))
    found: list[Any] = []
    peaks = []
    for read in (
        read_record, read_record,  # the first one imports what is needed
        lambda folder: list(records_in(folder.parent, [])), lambda folder: of_one_run(read_record(folder)),
    ):  # fmt: skip
        tracemalloc.start()
        found.append(read(folder))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert [record.content["began"] for record in found[2]] == [100.0]
    assert [record.content["began"] for record in found[3]] == [100.0 + rank for rank in range(50)]
    assert max(peaks[2:]) < 2 * peaks[1]


def test_jobs_of_one_rank_each_that_began_together_are_all_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for began in (100.0, 101.0, 102.0):
        kept(tmp_path, began=began)
    assert main(["runs", str(tmp_path)]) == 0
    assert re.findall(r"(?m)^last\S*", capsys.readouterr().out) == ["last", "last~1", "last~2"]


@pytest.mark.parametrize(
    ("state", "words"), [("running", "no loop was found yet"), ("ended", "no loop was found")]
)
def test_of_a_run_under_way_it_is_said_that_no_loop_was_found_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], state: str, words: str
) -> None:
    folder = kept(tmp_path, began=time.time())
    settings = {"run_interval": 120.0}
    record = content(began=time.time(), settings=settings) | {"state": state, "written": time.time()}
    record["snapshot"]["loops"] = {}
    (folder / "record.json").write_bytes(encoded(record))
    assert main(["runs", str(tmp_path)]) == 0
    assert re.search(rf"{state} +{words}( {{2,}}|$)", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("state", "seconds_ago", "words"),
    [
        ("running", 200.0, "its record was written while the job ran\n"),
        ("running", 400.0, "how it ended is not known"),
        ("crashed", 400.0, "it was ended by an exception"),
        ("killed", 400.0, "it was killed"),
        ("ended", 400.0, "jaxobs: "),
    ],
)
def test_show_says_how_a_run_ended_or_that_it_may_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], state: str, seconds_ago: float, words: str
) -> None:
    record = content() | {
        "state": state,
        "written": time.time() - seconds_ago,
        "settings": {"run_interval": 120.0},
    }
    (tmp_path / "a.json").write_bytes(encoded(record))
    assert main(["show", str(tmp_path / "a.json")]) == 0
    shown = capsys.readouterr().out
    assert words in shown
    assert shown.startswith("jaxobs: ") is (state == "ended")
    assert main(["show", "--jsn"]) == 2


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs in the user's state directory, the second of another script, and a record that is none."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    directory = tmp_path / "jaxobs" / "runs"
    for began, run in ((1_000.0, "train"), (1_010.0, "other"), (1_020.0, "train")):
        kept(directory, run, run, began=began)
    (directory / "notes").mkdir()
    (directory / "notes" / "record.json").write_text("{}")
    os.utime(directory / "notes" / "record.json", (0, 0))
    return directory


FIRST, LAST = "train-19700101T001640Z-1000r0", "train-19700101T001700Z-1020r0"


def test_where_the_newest_run_cannot_be_shown_it_is_said_what_lists_the_others(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = records / LAST / "record.json"
    newest.write_text(json.dumps(json.loads(newest.read_text()) | {"state": "?", "began": 2_000.0}))
    for word in ("last", str(records), str(newest)):
        assert main(["show", word]) == 2
        (line,) = [line for line in capsys.readouterr().err.splitlines() if "cannot be shown" in line]
        assert line.endswith(f"; `jaxobs runs {records}` lists the others")


def test_runs_are_listed_the_newest_first(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    begin = [line.split()[0] for line in lines if line.startswith("last")]
    assert begin == ["last", "last~1", "last~2"]
    assert "`train` has done" in lines[1]
    assert lines[-1] == f"{records}; 1 record there cannot be read"


def test_without_names_the_last_run_is_shown_and_compared_with_the_one_before_of_its_script(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for word, began in (("last", 1020.0), ("last~1", 1010.0), ("other", 1010.0), (FIRST[:20], 1000.0)):
        assert main(["show", word, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["began"] == began
    monkeypatch.chdir(tmp_path)
    Path("last").mkdir()  # a link to the last checkpoint is often called so
    assert main(["show"]) == 0
    capsys.readouterr()
    assert main(["compare"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"A is {FIRST}, B is {LAST}."
    assert main(["compare", "last"]) == 2
    assert f"A and B are the same run, {LAST}" in capsys.readouterr().err
    shutil.rmtree(records / FIRST)
    assert main(["compare"]) == 2
    assert "no earlier record of script 'train' is kept" in capsys.readouterr().err


def test_a_runs_whole_name_counts_before_names_that_begin_so(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in ("train_large", "train-large"):
        kept(records, run, run, began=1_030.0)
    kept(records, "Übung 1 / <b>", "x", began=1_040.0)
    words = {"train": 1_020.0, "train_": 1_030.0, "train-large": 1_030.0, "Übung 1": 1_040.0}
    for word, began in words.items():
        assert main(["show", word, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["began"] == began


def test_a_run_without_script_and_name_is_not_compared_with_another_such_run(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for began in (1_030.0, 1_040.0):  # as two notebooks, or `python - < train.py`
        folder = kept(records, began=began, launched=str(began))
        record = json.loads((folder / RECORD).read_text())
        record["snapshot"]["process"] |= {"script": None, "run": None}
        (folder / RECORD).write_text(json.dumps(record))
    assert main(["compare"]) == 2
    assert f"no earlier record of the run '{folder.name}' is kept" in capsys.readouterr().err


def test_the_run_before_is_found_from_any_path_and_any_rank_of_a_run(records: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(records)
    for rank in range(2):
        folder = kept(records, began=1_030.0 + rank, launched=str(rank), rank=rank)
        record = json.loads((folder / RECORD).read_text())
        record["snapshot"]["process"]["run_id"] = "one"
        (folder / RECORD).write_text(json.dumps(record))
    for after, before in ((records / LAST, FIRST), (tmp_path / "link" / LAST, FIRST), (folder, LAST)):
        assert compare(after=after).before.name == before


def test_runs_of_one_script_are_compared_whatever_they_are_called(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(records, "night", began=1_030.0)
    assert main(["compare"]) == 0
    assert capsys.readouterr().out.startswith(f"A is {LAST}, B is night-")


def test_the_ranks_of_a_run_are_shown_side_by_side_and_the_one_that_lagged_is_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(4):
        folder = kept(tmp_path, began=100.0 + rank, launched=str(rank), rank=rank)
        record = json.loads((folder / RECORD).read_text())
        record["snapshot"]["process"]["run_id"] = "another" if rank == 3 else "one"
        [loop] = record["snapshot"]["loops"].values()
        spent = {"input": 6.0 if rank == 2 else 1.0}
        loop["wall_seconds"], loop["components"], loop["bottleneck"] = 10.0, spent, None
        (folder / RECORD).write_text(json.dumps(record))
    (tmp_path / f"train-rank9-20260101T000000Z-x/{RECORD}").parent.mkdir()
    (tmp_path / f"train-rank9-20260101T000000Z-x/{RECORD}").write_text("no record")
    [first] = tmp_path.glob("train-rank0-*")
    assert main(["show", str(first)]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines[: lines.index("rank 0")] if line[:1].isdigit()]
    assert [row[0] for row in rows] == ["0", "1", "2"]
    assert ["50", "%"] in [row[at : at + 2] for row in rows[2:] for at in range(len(row))]


def test_a_start_by_hand_before_is_not_shown_beside_its_ranks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for began in (100.0, 900.0):
        for rank in range(2):
            folder = kept(tmp_path, began=began + rank, launched=str(rank), rank=rank)
            record = json.loads((folder / RECORD).read_text())
            record["snapshot"]["process"] |= {"run_id": "one", "seconds": began}
            (folder / RECORD).write_text(json.dumps(record))
    for folder, age in zip(sorted(tmp_path.glob("train-rank0-*")), ("100 s", "15 min"), strict=True):
        assert main(["show", str(folder)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line[0] for line in lines[: lines.index("rank 0")] if line[:1].isdigit()] == ["0", "1"]
        assert any(line.startswith(f"jaxobs: {age} observed") for line in lines)


def test_a_runs_page_has_the_flame_graph_of_its_lines(tmp_path: Path) -> None:
    run, file = written(tmp_path / "a.json", device_time=device_time()), tmp_path / "run.html"
    assert main(["show", run, "--html", str(file)]) == 0
    page = file.read_text(encoding="utf-8")
    assert 'id="lines"' in page
    assert "attention" in page[page.index('id="lines"') :]


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


def test_without_a_file_the_page_is_written_into_the_runs_folder(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", "last~2", "--html"]) == 0
    assert capsys.readouterr().out == f"wrote {records / FIRST / 'page.html'}\n"
    assert main(["show", written(tmp_path / "alone.json"), "--html"]) == 0
    assert (tmp_path / "alone.html").exists()


def test_a_run_that_is_given_as_the_file_for_the_page_is_not_written_over(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    alone = Path(written(tmp_path / "alone.json"))
    before = alone.read_bytes()
    for word in ("last~2", "alone.json", str(records / FIRST / "record.json"), str(records), FIRST[:20]):
        assert main(["show", "--html", word]) == 2
        assert capsys.readouterr().err.endswith(f" {word}: name the run first: jaxobs show RUN --html FILE\n")
    assert main(["show", "alone.json", "--html", "alone.json"]) == 2
    assert alone.read_bytes() == before
    assert not Path("last~2").exists()
    for _ in range(2):  # an earlier page may be written over
        assert main(["show", "--html", "run.html"]) == 0


def test_records_that_are_odd_do_not_hide_the_others_and_are_said(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = kept(records, "train", began=1_030.0)
    record = json.loads((newer / "record.json").read_bytes())
    record["snapshot"]["process"]["run"] = {"a": []}
    (newer / "record.json").write_text(json.dumps(record))
    assert main(["show", "last~1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["began"] == 1_020.0
    (newer / "record.json").write_text("{}")
    assert main(["show", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["began"] == 1_020.0
    assert f"(left out: {newer.name} is no record of a run" in said.err
    monkeypatch.chdir(records / FIRST)
    assert main(["compare", ".", str(records / LAST)]) == 0
    assert f"A is {FIRST}, B is {LAST}." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "readable"), [("runs", ""), ("show", ""), ("compare", ""), ("compare", LAST)]
)
def test_where_no_run_can_be_read_it_is_said_why(
    records: Path, capsys: pytest.CaptureFixture[str], command: str, readable: str
) -> None:
    for path in records.glob(f"*/{RECORD}"):
        if path.parent.name != readable:
            path.write_bytes(encoded(content() | {"version": 2}))
    assert main([command]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert re.search(rf"\(left out: \S+ is of version 2, .*, and {2 if readable else 3} more\)", said), said


@pytest.mark.parametrize("linked", [False, True])
def test_no_page_is_written_over_a_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], linked: bool
) -> None:
    one, other = written(tmp_path / "a.json"), written(tmp_path / "b.json")
    before = Path(other).read_bytes()
    page = tmp_path / "page.html" if linked else Path(other)
    if linked:
        page.hardlink_to(other)
    for arguments in (["compare", one, other], ["show", other]):
        assert main([*arguments, "--html", str(page)]) == 2
        assert "is what was read: name another file" in capsys.readouterr().err
    assert Path(other).read_bytes() == before


def test_without_a_path_the_newest_trace_of_the_last_run_is_analysed(
    records: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyze"]) == 2
    assert f"{LAST} has kept no trace" in capsys.readouterr().err
    recorded = Path(__file__).parents[1] / "trace" / "data" / "mi300x_8gpu_conv3d.xplane.pb"
    for minute in ("2026_01_01_10_00", "2026_01_01_09_59"):
        folder = records / LAST / "plugins" / "profile" / minute
        folder.mkdir(parents=True)
        (folder / "rank_00000.xplane.pb").write_bytes(recorded.read_bytes() if minute.endswith("00") else b"")
    assert main(["analyze"]) == 0
    assert "conv" in capsys.readouterr().out


def test_where_no_runs_are_kept_that_is_said(
    records: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAXOBS_KEEP_RUNS", "0")
    assert main(["runs"]) == 2
    assert "no runs are kept: JAXOBS_KEEP_RUNS is false" in capsys.readouterr().err
    assert main(["runs", str(records)]) == 0
    assert main(["runs", str(records / "none")]) == 2
    (records / FIRST / "record.json").write_bytes(encoded(content(began=1_000.0) | {"state": ["x"]}))
    assert main(["runs", str(records)]) == 0
    assert "2 records there cannot be read" in capsys.readouterr().out
