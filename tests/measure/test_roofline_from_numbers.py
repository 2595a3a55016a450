"""jaxobs.roofline() from numbers alone, for a pipeline that is not one jitted function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jaxobs


@pytest.fixture(autouse=True)
def _known_peaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Peaks from settings, and no calibration of this machine."""
    monkeypatch.setenv("JAXOBS_CACHE_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("JAXOBS_PEAK_FLOPS", '{"float32": 1e15}')
    monkeypatch.setenv("JAXOBS_PEAK_BYTES_PER_SECOND", "1e15")


def test_from_numbers_of_one_run() -> None:
    roof = jaxobs.roofline(flops=4e11, bytes=1e11, seconds=0.001)
    assert roof.seconds == 0.001
    assert roof.spread_seconds is None
    assert roof.efficiency == pytest.approx(0.4)
    assert roof.bound == "compute"
    assert roof.mfu == pytest.approx(0.4)
    assert roof.hfu is None
    assert roof.utilization_reason is not None


def test_it_prints_as_a_few_lines() -> None:
    assert str(jaxobs.roofline(flops=4e11, bytes=1e11, seconds=0.001)).splitlines()[1:3] == [
        "  efficiency 40 %, MFU 40 %, achieved 400 TFLOP/s, attainable 1 PFLOP/s",
        "  work: 400 GFLOP (400 G matrix float32), 93.1 GiB, 4 FLOP/byte",
    ]
    text = str(jaxobs.roofline(flops=4e11, bytes=1e11, seconds=0.001, dtype="bfloat16"))
    assert text.count("no peak for matrix bfloat16") == 1
    assert "efficiency – " not in text


def test_from_numbers_of_one_sample_and_a_rate() -> None:
    roof = jaxobs.roofline(flops=2e9, bytes=5e9, samples_per_second=1e5)
    assert roof.seconds == pytest.approx(1e-5)
    assert roof.achieved_flops_per_second == pytest.approx(2e14)
    assert roof.efficiency == pytest.approx(0.5)
    assert roof.bound == "memory"


def test_from_bytes_alone_there_are_no_flops_to_speak_of() -> None:
    roof = jaxobs.roofline(bytes=5e11, seconds=0.001)
    assert roof.efficiency == pytest.approx(0.5)
    assert roof.achieved_flops_per_second is roof.mfu is None


def test_from_numbers_of_a_type_without_a_peak() -> None:
    roof = jaxobs.roofline(flops=1e12, bytes=1e11, seconds=1.0, dtype="float8_e4m3fn")
    assert roof.bound is roof.efficiency is roof.attainable_flops_per_second is None
    assert roof.reason == "no peak for matrix float8_e4m3fn"
    assert roof.bottleneck == "unknown"


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"flops": 1e9}, "either seconds="),
        ({"flops": 1e9, "seconds": 1.0, "samples_per_second": 1.0}, "either seconds="),
        ({"seconds": 1.0}, "needs flops=, bytes="),
        ({"flops": -1.0, "seconds": 1.0}, "flops is a positive, finite number, not -1.0"),
        ({"flops": 1.0, "seconds": 0.0}, "seconds is a positive"),
        ({"bytes": float("nan"), "seconds": 1.0}, "bytes is a positive"),
        ({"flops": 1.0, "samples_per_second": float("inf")}, "samples_per_second is a positive"),
        ({}, "needs flops=, bytes=, or both; or a function"),
        ({"flops": 1.0, "seconds": 1.0, "dtype": "fp32"}, "'fp32' .did you mean 'float32'"),
    ],
)
def test_numbers_that_do_not_suffice_are_refused_by_name(numbers: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        jaxobs.roofline(**numbers)


def test_a_number_of_another_name_is_refused_by_name() -> None:
    with pytest.raises(TypeError) as refused:
        jaxobs.roofline(flop=1, seconds=1)  # type: ignore[call-overload]  # on purpose
    assert str(refused.value) == (
        "roofline() from numbers takes flops, bytes, seconds, samples_per_second, dtype; not flop"
    )


def test_float32_from_numbers_is_that_of_the_default_precision() -> None:
    assert jaxobs.roofline(flops=1e9, seconds=1.0).cost.float32_flops_by_precision == {"default": 1e9}
    assert not jaxobs.roofline(flops=1e9, seconds=1.0, dtype="bfloat16").cost.float32_flops_by_precision
