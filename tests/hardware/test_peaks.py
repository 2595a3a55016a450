"""Peaks by device kind: exact names, half packages, MIG slices, precedence, and what must stay unknown."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.hardware.calibration import (
    Calibration,
    LeftOut,
    Rate,
    processor_model,
    usable_cores,
)
from jaxobs.hardware.known_peaks import known_peaks, peaks_for
from jaxobs.hardware.peaks import Peak, Peaks, peak_key


def calibration(**changes: object) -> Calibration:
    values: dict[str, object] = {
        "device_kind": "cpu",
        "platform": "cpu",
        "processor": "Example 9000",
        "cores": 8,
        "jax": "0.10.2",
        "jaxlib": "0.10.2",
        "created": 1.7e9,
        "seconds": 10.0,
        "matrix": (
            Rate("float32", 512, 4e11),
            Rate("float32", 2048, 3e11),
            Rate("bfloat16", 512, 2e11),
        ),
        "vector": (Rate("float32", 65536, 2e11),),
        "transcendentals": (Rate("float32", 65536, 5e9), Rate("float64", 65536, 1e9)),
        "memory": tuple(
            Rate("float32", size, rate)
            for size, *rates in ((2**16, 9e10, 8e10), (2**20, 1.6e11, 9e10), (2**28, 4e10, 3e10))
            for rate in rates
        ),
        "other_load": 0.1,
    }
    return Calibration(**{**values, **changes})  # type: ignore[arg-type]  # of as many types as it has fields


def test_float32_is_tensorfloat32_where_the_precision_is_left_to_the_device_unless_told_otherwise() -> None:
    peaks = peaks_for("NVIDIA H200", "gpu")
    assert peaks.matrix["float32"].value == 67e12
    assert peaks.float32_products == {"default": ("tensorfloat32", 1)}
    assert peaks.to_dict()["float32_products"] == {"default": {"type": "tensorfloat32", "passes": 1}}
    every = peaks_for("NVIDIA H200", "gpu", tensorfloat32_allowed=True)
    assert every.matrix["float32"].value == 494.7e12
    assert every.float32_products == {}
    none = peaks_for("NVIDIA H200", "gpu", tensorfloat32_allowed=False)
    assert none.matrix["float32"].value == 67e12
    assert none.float32_products == {}
    assert peaks_for("Tesla T4", "gpu", tensorfloat32_allowed=True).matrix["float32"].value == 8.1e12
    told = peaks_for("NVIDIA H200", "gpu", {"matrix.float32": 5e13}, tensorfloat32_allowed=True)
    assert told.matrix["float32"] == Peak(5e13, "user", "settings")


@pytest.mark.parametrize(
    ("kind", "platform", "default"),
    [
        ("NVIDIA A100-SXM4-40GB", "gpu", ("tensorfloat32", 1)),
        ("NVIDIA B200", "gpu", ("tensorfloat32", 1)),
        ("Tesla V100-SXM2-16GB", "gpu", None),
        ("Tesla T4", "gpu", None),
        ("AMD Instinct MI300X", "gpu", None),  # it has the type, XLA does not use it
        ("TPU v4", "tpu", ("bfloat16", 1)),
        ("TPU v5 lite", "tpu", ("bfloat16", 1)),
        ("cpu", "cpu", None),
        ("unheard of", "gpu", None),
    ],
)
def test_how_a_device_multiplies_float32_follows_its_kind(
    kind: str, platform: str, default: tuple[str, int] | None
) -> None:
    assert peaks_for(kind, platform).float32_products.get("default") == default


def test_a_users_own_float32_peak_is_that_of_float32_products() -> None:
    assert peaks_for("NVIDIA H200", "gpu", {"matrix.float32": 5e13}).float32_products == {}
    assert peaks_for("TPU v4", "tpu", {"matrix.float32": 5e13}).float32_products == {}
    both = peaks_for("NVIDIA H200", "gpu", {"matrix.float32": 5e13, "matrix.tensorfloat32": 4e14})
    assert both.float32_products == {"default": ("tensorfloat32", 1)}


@given(
    st.dictionaries(st.sampled_from(["float32", "complex64", "bfloat16", "float64"]), st.floats(0, 1e18)),
    st.dictionaries(st.sampled_from(["default", "high"]), st.floats(0, 1e18)),
)
def test_flops_keep_their_sum_on_their_way_to_the_types_they_run_in(
    flops: dict[str, float], by_precision: dict[str, float]
) -> None:
    total = pytest.approx(sum(flops.values()), rel=1e-9)
    for kind, platform in (("NVIDIA H200", "gpu"), ("TPU v4", "tpu"), ("cpu", "cpu")):
        peaks = peaks_for(kind, platform)
        assert sum(peaks.types_run_in(flops, by_precision, passes=False).values()) == total
        assert sum(peaks.types_run_in(flops, by_precision).values()) >= total.expected * (1 - 1e-9)


def test_a_processor_without_calibration_has_no_peaks_and_says_what_to_run() -> None:
    peaks = peaks_for("cpu", "cpu")
    assert not peaks.matrix
    assert peaks.memory_rate(2**20) is None
    assert peaks.reason is not None
    assert "jaxobs calibrate" in peaks.reason


def test_a_calibrated_processor_has_the_best_rate_of_each_type() -> None:
    peaks = peaks_for("cpu", "cpu", measured=calibration())
    assert peaks.matrix["float32"].value == 4e11
    assert peaks.matrix["float32"].provenance == "measured"
    assert peaks.transcendentals is not None
    assert peaks.transcendentals.value == 5e9
    assert peaks.memory is not None
    assert peaks.memory.value == 4e10
    assert peaks.reason is None


def test_emulated_devices_share_what_one_machine_can_do(tmp_path: Path) -> None:
    measured = calibration(processor=processor_model(), cores=usable_cores())
    (tmp_path / measured.file_name).write_text(json.dumps(measured.to_dict()))
    settings = {"cache_directory": str(tmp_path), "peak_flops": {"float64": 3e9}}
    whole = known_peaks("cpu", "cpu", "0.10.2", settings)
    assert (whole.shared_by, whole.matrix["float32"].value) == (1, 4e11)
    each = known_peaks("cpu", "cpu", "0.10.2", settings, devices=8)
    assert each.shared_by == each.to_dict()["shared_by"] == 8
    assert 8 * each.matrix["float32"].value == whole.matrix["float32"].value
    assert 8 * each.vector["float32"].value == whole.vector["float32"].value
    assert each.memory is not None
    assert each.transcendentals is not None
    assert (8 * each.memory.value, 8 * each.transcendentals.value) == (4e10, 5e9)
    assert "one of 8 emulated devices" in each.memory.source
    assert each.matrix["float64"] == Peak(3e9, "user", "settings"), "the user's own are of a device"
    for size in (2**14, 2**19, 2**27, 2**30):  # eight sets of that size lie in the caches together
        assert 8 * (each.memory_rate(size) or 0) == pytest.approx(whole.memory_rate(8 * size))
    assert known_peaks("NVIDIA H200", "gpu", "0.10.2", settings, devices=8).shared_by == 1


def test_a_measurement_on_a_busy_machine_says_so_in_its_source() -> None:
    busy = peaks_for("cpu", "cpu", measured=calibration(other_load=1.3)).matrix["float32"].source
    quiet = peaks_for("cpu", "cpu", measured=calibration(other_load=None)).matrix["float32"].source
    assert busy == f"{quiet.split(', product')[0]}, while others took 1.3 cores, product of 512 × 512"


def test_the_users_value_wins_over_the_datasheet_and_that_over_the_measurement() -> None:
    measured = calibration(device_kind="NVIDIA H200", platform="gpu")
    peaks = peaks_for("NVIDIA H200", "gpu", {"matrix.bfloat16": 9e14}, measured)
    assert peaks.matrix["bfloat16"].provenance == "user"
    assert peaks.matrix["float32"].provenance == "datasheet"
    assert peaks.memory is not None
    assert peaks.memory.provenance == "datasheet"
    assert peaks.memory_by_working_set == ()
    assert peaks_for("Something New", "gpu", measured=measured).memory is None, "measured on another device"


def test_a_measurement_fills_what_the_datasheet_of_a_slice_lacks() -> None:
    kind = "NVIDIA H200 MIG 3g.71gb"
    peaks = peaks_for(kind, "gpu", measured=calibration(device_kind=kind, platform="gpu"))
    assert peaks.matrix["bfloat16"].provenance == "measured"
    assert peaks.memory is not None
    assert peaks.memory.provenance == "datasheet"


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_an_override_that_is_no_positive_number_is_refused(wrong: float) -> None:
    """Settings are refused before that, by name."""
    with pytest.raises(ValueError, match="a positive, finite number, not"):
        peaks_for("cpu", "cpu", {"matrix.float32": wrong})


def test_a_type_that_runs_as_another_has_the_peak_of_that_one_and_says_so() -> None:
    left_out = (
        LeftOut("float8_e4m3fn", "float32", "runs as float32 here: no peak of its own"),
        LeftOut("int4", None, "has no product here: the compiler refuses it"),
        LeftOut("int8", "int32", "runs as int32 here: no peak of its own"),
    )
    peaks = peaks_for("cpu", "cpu", measured=calibration(left_out=left_out))
    peak = peaks.matrix_peak("float8_e4m3fn")
    assert peak is not None
    assert (peak.value, peak.provenance) == (4e11, "measured")
    assert peak.source.endswith("float8_e4m3fn runs as float32 here: no peak of its own")
    assert peaks.matrix_peak("int4") is None
    assert peaks.matrix_peak("int8") is None
    assert peaks.matrix_peak("float8_e5m2") is None


def test_the_datasheets_float8_stands_for_every_8_bit_float() -> None:
    measured = calibration(
        device_kind="NVIDIA H200",
        matrix=(Rate("float8_e4m3fn", 8192, 1.2e15), Rate("int4", 8192, 1e15)),
        left_out=(LeftOut("float8_e5m2", "bfloat16", "runs as bfloat16 here: no peak of its own"),),
    )
    peaks = peaks_for("NVIDIA H200", "gpu", measured=measured)
    for dtype in ("float8_e4m3fn", "float8_e5m2"):
        peak = peaks.matrix_peak(dtype)
        assert peak is not None
        assert (peak.value, peak.provenance) == (1979e12, "datasheet")
    assert peaks.matrix["int4"].provenance == "measured"
    mine = peaks_for("unheard of", "gpu", {"matrix.float8": 5e14}, calibration(device_kind="unheard of"))
    own = mine.matrix_peak("float8_e4m3fn")
    assert own is not None
    assert own.provenance == "user"


@pytest.mark.parametrize(
    ("dtype", "key"),
    [
        ("float8_e4m3fn", "float8"),
        ("float4_e2m1fn", "float4"),
        ("complex64", "float32"),
        ("uint8", "int8"),
        ("bfloat16", "bfloat16"),
    ],
)
def test_element_types_share_the_peak_of_their_unit(dtype: str, key: str) -> None:
    assert peak_key(dtype) == key


@given(st.floats(min_value=1, max_value=1e13))
def test_the_memory_rate_lies_between_those_measured_and_falls_with_the_working_set(size: float) -> None:
    peaks = peaks_for("cpu", "cpu", measured=calibration())
    rate, larger = peaks.memory_rate(size), peaks.memory_rate(size * 2)
    assert rate is not None
    assert larger is not None
    assert 4e10 <= larger * (1 - 1e-12) <= rate <= 1.6e11 * (1 + 1e-12) or rate == larger


@pytest.mark.parametrize("size", [None, 0.0, -5.0, math.nan, math.inf])
def test_a_working_set_that_is_no_size_gets_main_memorys_rate(size: float | None) -> None:
    assert peaks_for("cpu", "cpu", measured=calibration()).memory_rate(size) == 4e10


def test_peaks_as_plain_data_keep_value_provenance_and_source() -> None:
    document = peaks_for("NVIDIA H200", "gpu").to_dict()
    assert document["matrix"]["bfloat16"]["provenance"] == "datasheet"
    assert document["link"]["value"] == 450e9
    absent = Peaks("x", {}, {}, None, None, (), None, None, "why").to_dict()
    assert absent["memory"] is None
    assert absent["reason"] == absent["memory_reason"] == absent["link_reason"] == "why"
