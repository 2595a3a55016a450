"""`jaxobs demo`: a real run, scraped while it holds, agrees with itself; and the parts that it trains with."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.cli.demo import as_json, as_text, first_and_last_loss
from jaxobs.cli.demonstration import (
    NoTextError,
    Outcome,
    Size,
    initial_state,
    logits,
    loss,
    read_text,
    train_step,
    windows,
    write_checkpoint,
)
from tests.cli.launched import JAXOBS, environment, jaxobs
from tests.waiting import wait_for

TINY = Size(width=16, layers=2, heads=2, length=8, examples=2, learning_rate=1e-2, dtype="float32")
PEAKS = {"JAXOBS_PEAK_FLOPS": '{"float32": 1e12}', "JAXOBS_PEAK_BYTES_PER_SECOND": "1e11"}
"""Known peaks: nothing has to be calibrated. Far above what a test machine does, so that no share exceeds 1."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seconds", "0"], "give a number from 1"),
        (["--seconds", "nan"], "give a number from 1"),
        (["--seconds", "soon"], "invalid seconds value: 'soon'"),
        (["--jsn"], "unknown option --jsn (did you mean --json?)"),
        (["now"], "unknown argument 'now'"),
    ],
)
def test_bad_options_get_one_line_and_status_2(tmp_path: Path, arguments: list[str], message: str) -> None:
    answered = jaxobs("demo", *arguments, folder=tmp_path)
    assert (answered.status, answered.stdout) == (2, "")
    assert message in answered.stderr
    assert answered.stderr.count("\n") == 1


def test_a_wrong_setting_gets_one_line_and_status_2(tmp_path: Path) -> None:
    answered = jaxobs("demo", folder=tmp_path, JAXOBS_INTERVAL="soon")
    assert (answered.status, answered.stdout, answered.stderr.count("\n")) == (2, "", 1)
    assert "JAXOBS_INTERVAL='soon'" in answered.stderr


def page_with(words: str, address: str) -> str:
    """The page, once it has these words; else nothing."""
    with urllib.request.urlopen(address, timeout=10) as page:
        text = page.read().decode()
    return text if words in text else ""


def test_a_run_is_seen_whole_and_scraped_alike(tmp_path: Path) -> None:
    command = [*JAXOBS, "demo", "--seconds", "5", "--json", "--hold"]
    # On a busy machine a few seconds have few steps: their ends are looked at as often as can be.
    settings = environment(**PEAKS, OTEL_EXPORTER_PROMETHEUS_PORT="0", JAXOBS_SAMPLE_INTERVAL="0.05")
    with subprocess.Popen(
        command, cwd=tmp_path, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            lines = list(itertools.takewhile(lambda line: line != "}\n", process.stdout))
            document = json.loads("".join([*lines, "}"]))
            counted = f'jaxobs_steps_total{{loop="train"}} {document["demo"]["steps"]}'
            said = ""
            while "stays until Ctrl-C" not in said:
                line = process.stderr.readline()
                assert line, said
                said += line
                if line.startswith("{"):
                    pytest.fail("the result belongs to standard output")
            address = re.search(r"^metrics: (\S+)", said, re.MULTILINE)
            assert address is not None
            # The exporter shows the last snapshot on a thread of its own.
            metrics = wait_for(lambda: page_with(counted, address[1]), "the last snapshot on the page")
        finally:
            process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == ""
        assert process.returncode == 0
    demo, train = document["demo"], document["loops"]["train"]
    assert demo["steps"] == train["steps"] >= 4
    assert train["tokens"] == demo["steps"] * demo["tokens_per_step"]
    assert demo["loss"]["last"] < demo["loss"]["first"]
    # On a busy machine perhaps no run was seen to end in these seconds: each figure is right, or absent with its reason.
    for figure in ("steps_per_second", "tokens_per_second", "mfu", "hfu"):
        assert train[figure] is not None or train[f"{figure}_reason"]
    if train["mfu"] is not None and train["hfu"] is not None:
        assert 0 < train["mfu"] < train["hfu"] < 1
    if train["steps_per_second"] is not None:
        tokens = train["steps_per_second"] * demo["tokens_per_step"]
        assert train["tokens_per_second"] == pytest.approx(tokens)
    function = document["functions"]["train_step"]
    assert function["compilations"] == 2
    (again,) = function["recompilations"]
    assert (again["count"], again["seconds"] > 0) == (function["recompilation_count"], True)
    assert train["components"]["compile"] > 0
    assert 'jaxobs_recompilations_total{cause="' in metrics
    runs = [row["runs"] for row in document["executables"] if row["function"] == "train_step"]
    assert sum(runs) == demo["steps"]


def test_text_keeps_out_tests_and_what_cannot_be_read(tmp_path: Path) -> None:
    for index in range(2):
        (tmp_path / f"{index:02}.py").write_bytes(bytes([index + 100]) * 5000)
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "large.py").write_bytes(b"\xff" * 5000)
    (tmp_path / "data.bin").write_bytes(b"\xfe" * 5000)
    (tmp_path / "broken.py").symlink_to(tmp_path / "nowhere.py")
    assert read_text(tmp_path).tobytes() == b"\x64" * 5000 + b"\n" + b"\x65" * 5000


def test_a_python_without_sources_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoTextError, match=str(tmp_path)):
        read_text(tmp_path)


def test_this_python_has_text_enough() -> None:
    text = read_text()
    assert len(text) > 10**6
    assert b"import os\n" in text.tobytes()


@given(
    st.integers(1, 5),
    st.integers(1, 30).flatmap(lambda length: st.tuples(st.just(length), st.integers(length + 1, 100))),
)
def test_a_window_is_a_stretch_of_the_text(examples: int, length_and_text: tuple[int, int]) -> None:
    length, size = length_and_text
    batch = windows(np.arange(size, dtype=np.uint8), examples, length, np.random.default_rng(0))
    assert (batch.shape, batch.dtype) == ((examples, length + 1), np.int32)
    assert (np.diff(batch) == 1).all()


def test_no_byte_knows_what_follows_it() -> None:
    parameters = initial_state(jax.random.key(0), TINY).parameters
    tokens = jnp.arange(TINY.length)[None] + 65
    odds = logits(parameters, tokens, TINY)
    changed = logits(parameters, tokens.at[0, 5].set(0), TINY)
    np.testing.assert_array_equal(odds[:, :5], changed[:, :5])
    assert not np.allclose(odds[:, 5], changed[:, 5])


def test_the_untrained_model_knows_nothing() -> None:
    parameters = initial_state(jax.random.key(0), TINY).parameters
    assert float(loss(parameters, jnp.full((1, 9), 65), TINY)) == pytest.approx(np.log(256), rel=0.05)


def test_training_learns_what_it_is_shown() -> None:
    state = initial_state(jax.random.key(0), TINY)
    tokens = np.tile(np.frombuffer(b"jaxobs ok", np.uint8).astype(np.int32), (2, 1))
    first = None
    for _ in range(80):
        state, value = train_step(state, tokens, TINY)
        first = first or float(value)
    assert first is not None
    assert float(value) < first / 10


def test_a_checkpoint_holds_every_parameter(tmp_path: Path) -> None:
    state = initial_state(jax.random.key(0), TINY)
    write_checkpoint(state, tmp_path / "checkpoint.npz")
    with np.load(tmp_path / "checkpoint.npz") as kept:
        assert len(kept.files) == len(jax.tree.leaves(state.parameters))
        np.testing.assert_array_equal(
            kept["['layers']['attention_in']"], state.parameters["layers"]["attention_in"]
        )


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome(), {"first": None, "last": None}),
        (Outcome(losses=[5.0]), {"first": 5.0, "last": 5.0}),
        (Outcome(losses=[5.0, *[2.0] * 5, *[3.0] * 5]), {"first": 5.0, "last": 2.5}),
        (Outcome(losses=[5.0, float("nan")]), {"first": 5.0, "last": None}),
    ],
)
def test_losses_are_absent_where_they_are_not_known(outcome: Outcome, expected: dict[str, Any]) -> None:
    assert first_and_last_loss(outcome) == expected
    text = as_text({"process": None, "process_reason": "a reason"}, outcome, width=80, bold=False)
    assert "a reason" in text
    assert json.loads(as_json({}, outcome, TINY), parse_constant=pytest.fail)["demo"]["loss"] == expected
