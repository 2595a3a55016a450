"""`jaxobs demo`: a real run agrees with itself; and the parts that it trains with."""

from __future__ import annotations

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.cli.demonstration import (
    SIZES,
    Size,
    initial_parameters,
    logits,
    loss,
    read_text,
    train_step,
    windows,
)
from jaxobs.vocabulary import InputError
from tests.cli.launched import jaxobs

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


@pytest.mark.slow
def test_a_run_is_seen_whole(tmp_path: Path) -> None:
    # On a busy machine a few seconds have few steps: their ends are looked at as often as can be.
    settings = PEAKS | {"OTEL_EXPORTER_PROMETHEUS_PORT": "0", "JAXOBS_SAMPLE_INTERVAL": "0.05"}
    answered = jaxobs("demo", "--seconds", "5", "--json", folder=tmp_path, **settings)
    assert answered.status == 0, answered.stderr
    assert "\nlive page http" in answered.stderr
    document = json.loads(answered.stdout)
    train = document["loops"]["train"]
    assert train["steps"] >= 4
    tokens_per_step = SIZES["cpu"].tokens
    assert train["tokens"] == train["steps"] * tokens_per_step
    assert train["recorded"]["loss"] < np.log(256)
    # On a busy machine perhaps no run was seen to end in these seconds: each figure is right, or absent with its reason.
    for figure in ("steps_per_second", "tokens_per_second", "mfu", "hfu"):
        assert train[figure] is not None or train[f"{figure}_reason"]
    if train["mfu"] is not None and train["hfu"] is not None:
        assert 0 < train["mfu"] < train["hfu"] < 1
    if train["steps_per_second"] is not None:
        tokens = train["steps_per_second"] * tokens_per_step
        assert train["tokens_per_second"] == pytest.approx(tokens)
    function = document["functions"]["train_step"]
    assert function["compilations"] == 2
    (again,) = function["recompilations"]
    assert (again["count"], again["seconds"] > 0) == (function["recompilation_count"], True)
    assert train["components"]["compile"] > 0
    runs = [row["runs"] for row in document["executables"] if row["function"] == "train_step"]
    assert sum(runs) == train["steps"]


def test_a_python_without_sources_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=str(tmp_path)):
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
    parameters = initial_parameters(np.random.default_rng(0), TINY)
    tokens = jnp.arange(TINY.length)[None] + 65
    odds = logits(parameters, tokens, TINY)
    changed = logits(parameters, tokens.at[0, 5].set(0), TINY)
    np.testing.assert_array_equal(odds[:, :5], changed[:, :5])
    assert not np.allclose(odds[:, 5], changed[:, 5])


def test_the_untrained_model_knows_nothing() -> None:
    parameters = initial_parameters(np.random.default_rng(0), TINY)
    assert float(loss(parameters, jnp.full((1, 9), 65), TINY)) == pytest.approx(np.log(256), rel=0.05)


def test_training_learns_what_it_is_shown() -> None:
    parameters = initial_parameters(np.random.default_rng(0), TINY)
    tokens = np.tile(np.frombuffer(b"jaxobs ok", np.uint8).astype(np.int32), (2, 1))
    first = None
    for _ in range(80):
        parameters, value = train_step(parameters, tokens, TINY)
        first = first or float(value)
    assert first is not None
    assert float(value) < first / 10
