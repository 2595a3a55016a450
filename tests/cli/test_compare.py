from __future__ import annotations

import json
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
        ([], "required: A, B"),
        (["a.json"], "required: B"),
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
    assert main(["show"]) == 2
    assert main(["show", "--jsn"]) == 2
