"""Documents that somebody else wrote, or damaged: the right output, or one line and exit status 2."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaxobs.cli import main, using
from jaxobs.cli.top.servers import Access, Answer, SnapshotClient, target_of
from jaxobs.cli.top.watch import Watched
from jaxobs.report.ranks import render_ranks
from jaxobs.report.terminal import opening, roofline, steps
from jaxobs.report.view import View
from jaxobs.vocabulary import InputError
from jaxobs.vocabulary.text import read_json
from tests.jobs import environment

JOB = """
import time, jax, jax.numpy as jnp, jaxobs
with jaxobs.instrument() as obs:
    step = obs.watch(jax.jit(lambda x: jnp.tanh(x @ x)))
    evaluate = jax.jit(lambda x: x.sum())
    for size in (64, 96):
        x = jnp.ones((size, size))
        for _ in obs.steps(range(40), examples=4):
            x = step(x)
            x.block_until_ready()
            obs.record(loss=1.0)
    with obs.phase("evaluation"):
        evaluate(x).block_until_ready()
"""

HOSTILE = "\x1b]0;title\x07\x1b[31m\x9b2J\x7f\r\n\u202e\u2066\u200b\ufeff\u2028\ud800"
"""Escape sequences, line ends, controls of both sets, marks that reorder or hide, a lone surrogate."""


class Real(dict[str, Any]):
    """A record, of which a failing example does not print all."""

    __repr__ = object.__repr__


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Real:
    """The record of a real run."""
    folder = tmp_path_factory.mktemp("runs")
    own = environment(
        JAXOBS_RUN_DIRECTORY=str(folder), JAXOBS_INTERVAL="0.05", JAXOBS_PEAK_BYTES_PER_SECOND="1e10",
        JAXOBS_PEAK_FLOPS='{"float32": 1e11}',
    )  # fmt: skip
    subprocess.run([sys.executable, "-c", JOB], env=own, check=True, timeout=120)
    (file,) = folder.glob("*/record.json")
    found = Real(json.loads(file.read_bytes()))
    assert found["snapshot"]["executables"]
    assert found["windows"]
    return found


def answered(*arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(list(arguments))
    return status, out.getvalue(), err.getvalue()


def top(document: dict[str, Any]) -> str:
    """What `jaxobs top` would show of a server's snapshot, in each of its panels. Raises InputError."""
    target = target_of("localhost:1")
    ranks = [Watched(target, SnapshotClient(target, Access())) for _ in range(2)]
    for rank in ranks:
        rank.take(Answer(1.0, document, ()), 0.0)
    with using("the snapshot"):  # as the command does
        shown = render_ranks([rank.observed for rank in ranks], width=100, bold=False)
        view = View(ranks[0].document)
        lines = [*opening(view, None), *steps(view, 100), *roofline(view.document, 100, 30)]
    return "\n".join([shown, *("".join(span.text for span in line) for line in lines)])


def is_plain(shown: str) -> bool:
    return all(line.isprintable() for line in shown.split("\n"))


def is_right_or_refused(status: int, out: str, err: str) -> bool:
    refused = status == 2 and not out and err.count("\n") == 1
    return is_plain(out + err) and (refused or (status == 0 and bool(out) and not err))


def places(content: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each value in a document."""
    yield above
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            yield from places(value, (*above, key))


def replaced(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    changed = copy.deepcopy(dict(document))
    at = changed
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    return changed


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([HOSTILE, "", "x" * 10_000, 10**400, -(10**200), 1e308, 5e-324])
)  # fmt: skip
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_value_at_any_place_is_shown_right_or_refused_in_a_line(
    data: st.DataObject, record: Real, tmp_path: Path
) -> None:
    place = data.draw(st.sampled_from([*places(record)]), label="place")
    changed = replaced(record, place, data.draw(JSON, label="value"))
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(record))
    bad.write_text(json.dumps(changed))
    for command in (["show", str(bad)], ["compare", str(bad), str(good)], ["compare", str(good), str(bad)]):
        found = answered(*command)
        assert is_right_or_refused(*found), (command, found)
    if isinstance(changed, dict) and isinstance(changed.get("snapshot"), dict):
        with contextlib.suppress(InputError, ValueError):
            assert is_plain(top(read_json(json.dumps(changed["snapshot"]).encode())))


def hostile(content: Any) -> Any:
    """The same, with HOSTILE in each text and each name but those that the format fixes."""
    if isinstance(content, str):
        return content + HOSTILE
    if isinstance(content, list):
        return [hostile(value) for value in content]
    if isinstance(content, dict):
        named = {"loops", "functions", "sources", "recorded"}
        return {
            key: {name + HOSTILE: hostile(inner) for name, inner in value.items()}
            if key in named and isinstance(value, dict)
            else hostile(value)
            for key, value in content.items()
        }
    return content


def test_no_control_character_of_a_document_reaches_a_terminal(record: Real, tmp_path: Path) -> None:
    snapshot = hostile(record["snapshot"])
    name = HOSTILE.replace("\ud800", "\udc80")  # as Python has a name of a file that is no UTF-8
    bad = tmp_path / f"bad{name}.json"
    bad.write_text(json.dumps(dict(record) | {"snapshot": snapshot, "versions": hostile(record["versions"])}))
    again = shutil.copy(bad, tmp_path / f"copy{name}.json")
    for command in (["show", str(bad)], ["show", "--json", str(bad)], ["compare", str(bad), str(again)]):
        status, out, err = answered(*command)
        assert (status, is_plain(out + err)) == (0, True), (command, out, err)
    shown = top(read_json(json.dumps(snapshot).encode()))
    assert is_plain(shown)
    assert "]0;title" in shown  # the names are there, without what would act
    for command in (["show", f"nowhere{name}"], ["analyze", str(bad)], [name], ["top", name]):
        assert is_right_or_refused(*answered(*command)), command


BAD_FILES = {
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"format":' * 100_000 + b"1" + b"}" * 100_000,
    "deep enough to be parsed": b'{"a":' + b"[" * 200 + b"]" * 200 + b"}",
    "a number of a million digits": b'{"format": ' + b"9" * 1_000_000 + b"}",
    "a number that is infinite": b'{"format": 1e999}',
    "no number": b'{"format": NaN}',
    "a key given twice": b'{"format": 1, "format": 2}',
    "no text": bytes(range(256)) * 40,
    "nothing": b"",
    "a list": b"[" + b"1," * 500_000 + b"1]",
    "not whole": b'{"format": "jaxobs run record", "ver',
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_that_is_no_document_is_one_line_and_spoils_no_directory(
    case: str, record: Real, tmp_path: Path
) -> None:
    bad, runs = tmp_path / "bad.json", tmp_path / "runs"
    runs.mkdir()
    bad.write_bytes(BAD_FILES[case])
    for command in (
        ["show", str(bad)],
        ["compare", str(bad), str(bad)],
        ["analyze", str(bad)],
        ["show", str(runs)],
    ):
        found = answered(*command)
        assert (found[0], is_right_or_refused(*found)) == (2, True), (command, found)
    for name, content in (("a", BAD_FILES[case]), ("b", json.dumps(record).encode())):
        (runs / name).mkdir()
        (runs / name / "record.json").write_bytes(content)
    for number, name in enumerate("ba"):  # as they are written, so are they said to have begun
        os.utime(runs / name / "record.json", (number, number))
    status, out, err = answered("show", str(runs))
    assert (status, err.count("\n"), "left out: " in err) == (0, 1, True), err
    assert out == answered("show", str(runs / "b"))[1]


def test_what_is_no_file_or_too_large_is_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.json")
    with (tmp_path / "sparse.json").open("wb") as file:
        file.truncate(5 << 30)
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    for name in ("fifo.json", "sparse.json", "loop.json", "-", "", "x" * 300, "/dev/zero", "/proc/self/mem"):
        path = str(tmp_path / name) if name.endswith(".json") else name
        for command in (["show", path], ["compare", path, path], ["analyze", path]):
            found = answered(*command)
            assert (found[0], is_right_or_refused(*found)) == (2, True), (command, found)
