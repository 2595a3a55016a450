"""The measurement on the real device: the work is done, figures are plausible, what fails is left out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest

from jaxobs.hardware.calibration import Calibration, usable_cores
from jaxobs.measure.calibration import calibrate, seconds_of_others
from jaxobs.measure.calibration_programs import Program, programs

MEBIBYTE = 2**20


@pytest.fixture(autouse=True)
def _x64_as_it_was() -> Iterator[None]:
    config: Any = jax.config
    before = config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)


def small(platform: str = "cpu") -> list[Program]:
    return [program for program in programs(platform) if program.size <= 2**18]


def test_a_short_calibration_measures_every_kind_and_survives_as_plain_data() -> None:
    chosen = [program for program in small() if program.dtype == "float32"]
    found = calibrate(0.5, chosen)
    assert Calibration.from_dict(found.to_dict()) == found
    assert found.matrix[0].size == 256, "larger ones are left out where they take too long"
    sizes = sorted({rate.size for rate in found.memory})
    assert sizes == [2**16, 2**18][: len(sizes)] != [], "here too, on a busy machine"
    assert found.vector
    assert found.transcendentals


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "most_a_cycle"),
    # Two multiply-add units of 512 bits: 64 FLOP; matrix extensions: 1024; two loads and a store of 64 bytes.
    [("vector", 64), ("transcendentals", 16), ("memory", 192), ("matrix", 1024)],
)
def test_no_rate_is_more_than_the_fastest_core_could_do(kind: str, most_a_cycle: int) -> None:
    """XLA that dropped the work, or hoisted it out of the loop, would seem a thousand times faster."""
    for program in [each for each in small() if each.group == kind and each.dtype == "float32"][-2:]:
        run = program.prepare()
        run()
        rate = program.work / min(_timed(run) for _ in range(20))
        assert 1e6 < rate < usable_cores() * most_a_cycle * 7e9


def _timed(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def test_what_the_device_cannot_do_is_left_out_and_the_rest_is_measured() -> None:
    def refuse() -> Callable[[], None]:
        raise RuntimeError("RESOURCE_EXHAUSTED")

    good = next(program for program in programs("cpu") if program.group == "matrix")
    bad = Program("matrix", "float32", 512, 1.0, refuse)
    slow = Program("matrix", "float32", 10**6, 1e21, refuse)
    found = calibrate(0.2, [good, bad, slow])
    assert [rate.size for rate in found.matrix] == [good.size]
    assert found.memory == ()


def test_a_type_that_the_compiler_runs_as_another_gets_no_peak_and_the_reason_says_so() -> None:
    narrow = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
    chosen = [program for program in small() if program.group == "matrix" and program.dtype in narrow]
    assert {program.dtype for program in chosen} == set(narrow)
    found = calibrate(0.3, [p for p in chosen if p.size == 256])
    left_out = {entry.dtype: entry for entry in found.left_out}
    assert {rate.dtype for rate in found.matrix} | set(left_out) == set(narrow)
    assert not {rate.dtype for rate in found.matrix} & set(left_out)
    for dtype in ("float8_e4m3fn", "float8_e5m2"):
        assert left_out[dtype].runs_as == "float32"
        assert left_out[dtype].reason == "runs as float32 here: no peak of its own"


def test_a_type_in_which_large_products_run_has_the_peak_of_those() -> None:
    own = next(program for program in small() if (program.group, program.dtype) == ("matrix", "float32"))
    widened = replace(own, size=128, compiled=_other)
    found = calibrate(0.1, [widened, own])
    assert [rate.size for rate in found.matrix] == [own.size]
    assert found.left_out == ()


def _other() -> Any:
    return jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((4,), "float32")).compile()


def test_a_product_in_which_no_type_can_be_seen_is_left_out() -> None:
    whole = next(program for program in programs("cpu") if program.group == "matrix")
    strange = replace(whole, dtype="float16", compiled=_other)
    found = calibrate(0.1, [strange])
    assert found.matrix == ()
    assert [(entry.dtype, entry.runs_as) for entry in found.left_out] == [("float16", None)]
    assert "unknown type" in found.left_out[0].reason


def test_working_sets_of_a_processor_go_from_the_smallest_cache_to_beyond_the_largest() -> None:
    sets = sorted({program.size for program in programs("cpu") if program.group == "memory"})
    assert (sets[0], sets[-1]) == (64 * 2**10, 512 * 2**20)


def test_an_accelerator_gets_larger_programs_with_tensorfloat32_among_them() -> None:
    found = programs("gpu")
    assert {program.dtype for program in found if program.group == "matrix"} >= {"tensorfloat32", "bfloat16"}
    assert max(program.size for program in found if program.group == "memory") == 2**30


def test_the_load_of_others_is_counted_without_idle_time(tmp_path: Path) -> None:
    statistics = tmp_path / "stat"
    cores = "".join(f"cpu{number} 0 0 0 0 0 0 0 0 0 0\n" for number in range(len(os.sched_getaffinity(0))))
    found = []
    for ticks in ("0 0 0 0 0 0 0 0 0 0", "0 0 0 90000 90000 0 0 0 0 0", "90000 0 0 0 0 0 10000 0 0 0"):
        statistics.write_text(f"cpu {ticks}\n{cores}", encoding="utf-8")
        found.append(seconds_of_others(statistics))
    none, idle, busy = found
    assert none is not None
    assert idle is not None
    assert busy is not None
    assert idle - none == pytest.approx(0.0, abs=1.0)
    assert busy - none > 100


def test_the_load_of_others_is_unknown_where_the_system_does_not_tell(tmp_path: Path) -> None:
    assert seconds_of_others(tmp_path / "missing") is None
    for text in ("", "cpu", "nonsense\n", "cpu 1 2 3\n" + "cpu0 1\n" * 100_000):
        (tmp_path / "stat").write_text(text, encoding="utf-8")
        assert seconds_of_others(tmp_path / "stat") is None
