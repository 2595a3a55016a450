"""Which device a string of JAX's means, and what the datasheets of chips and MIG slices say."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.hardware.chips import chips_by_alias, known_chips, normalised
from jaxobs.hardware.known_peaks import peaks_for

UNKNOWN = [
    "NVIDIA H20-3e",
    "NVIDIA H100",
    "NVIDIA H100 80GB HBM2e",
    "NVIDIA GH200",
    "NVIDIA A100",
    "NVIDIA B100",
    "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "Tesla V100-SXM3-32GB",
    "Tesla P100-SXM2-16GB",
    "NVIDIA H800 NVL",
    "NVIDIA A10M",
    "NVIDIA A800 40GB Active",
    "NVIDIA L20",
    "NVIDIA GeForce RTX 3080",
    "NVIDIA GeForce RTX 4070",
    "NVIDIA GeForce RTX 5080 Laptop GPU",
    "NVIDIA RTX PRO 6000 Blackwell",
    "NVIDIA RTX 6000 Ada Generation Laptop GPU",
    "AMD Instinct MI250X / MI250",
    "AMD Instinct MI308X",
    "TPU8",
    "AMD Radeon Graphics",
    "TPU v5 lite pod",
    "Apple M3 Max",
    "interpreter",
    "",
]


@pytest.mark.parametrize("alias", [alias for chip in known_chips() for alias in chip.aliases])
def test_every_device_kind_maps_to_its_row_and_no_other(alias: str) -> None:
    rows = [chip for chip in known_chips() if alias in chip.aliases]
    assert chips_by_alias()[normalised(alias)] is rows[0]
    assert len(rows) == 1
    peaks = peaks_for(alias, "gpu")
    chip = rows[0]
    assert {
        f"matrix.{dtype}": peak.value * chip.devices_per_chip for dtype, peak in peaks.matrix.items()
    } == {key: value for key, value in chip.values.items() if key.startswith("matrix.")}
    assert peaks.memory is not None
    assert peaks.memory.value == chip.values["memory"] / chip.devices_per_chip
    assert peaks.reason is None
    assert all(
        peak.provenance == "datasheet" and peak.source for peak in [*peaks.matrix.values(), peaks.memory]
    )


def test_at_least_twenty_strings_are_held_to_be_unknown() -> None:
    assert len({normalised(kind) for kind in UNKNOWN}) >= 20
    assert not {normalised(kind) for kind in UNKNOWN} & set(chips_by_alias())


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_string_that_is_no_whole_alias_stays_unknown(kind: str) -> None:
    peaks = peaks_for(kind, "gpu")
    assert not peaks.matrix
    assert not peaks.vector
    assert peaks.transcendentals is peaks.memory is peaks.link is peaks.memory_capacity is None
    assert peaks.reason is not None
    assert "jaxobs calibrate" in peaks.reason
    assert "JAXOBS_PEAK_FLOPS" in peaks.reason


@given(st.sampled_from(sorted(chips_by_alias())), st.text(min_size=1, max_size=6))
def test_an_alias_with_anything_but_white_space_around_it_is_another_device(alias: str, extra: str) -> None:
    chips = chips_by_alias()
    for changed in (alias + extra, extra + alias):
        same = normalised(changed) == alias
        # With a letter more some aliases are another chip's: "TPU v5" and "TPU v5p".
        assert same == (chips.get(normalised(changed)) is chips[alias])


def test_case_and_runs_of_white_space_do_not_matter() -> None:
    assert peaks_for(" nvidia  h100 80GB\thbm3 ", "gpu").matrix["bfloat16"].value == 989.4e12


def test_vector_and_special_rates_of_nvidia_chips_follow_from_cores_and_clock() -> None:
    checked = 0
    for chip in known_chips():
        if chip.cores is None or chip.clock is None:
            continue
        checked += 1
        ratio = chip.values["vector.float32"] / (2 * chip.cores * chip.clock)
        assert min(abs(ratio - 64), abs(ratio - 128)) < 1.5, chip.name
        assert chip.values["transcendentals"] == pytest.approx(16 * chip.cores * chip.clock, rel=1e-3), (
            chip.name
        )
    assert checked > 15


def test_chips_of_one_architecture_differ_by_their_cores_and_clock_alone() -> None:
    by_name = {chip.name: chip for chip in known_chips()}
    for like, reference, keys in (
        ("A30", "A100 SXM4 40 GB", ("float64", "float32", "tensorfloat32", "bfloat16", "int8")),
        ("GeForce RTX 5090", "GeForce RTX 4090", ("float32", "bfloat16", "float8", "int8")),
        ("GeForce RTX 5080", "GeForce RTX 5090", ("float32", "bfloat16", "float8", "int8", "float4")),
        ("GeForce RTX 4080", "GeForce RTX 4090", ("float32", "bfloat16", "float8", "int8")),
        ("RTX 6000 Ada", "L40S", ("float32", "tensorfloat32", "bfloat16", "float8", "int8")),
        ("RTX A5000", "RTX A6000", ("float32", "tensorfloat32", "bfloat16", "int8")),
        ("A40", "RTX A6000", ("float32", "tensorfloat32", "bfloat16", "int8")),
        ("GeForce RTX 3090", "A10G", ("float32", "tensorfloat32", "bfloat16")),
        ("H200 NVL", "H100 NVL", ("float64", "float32", "tensorfloat32", "bfloat16", "float8", "int8")),
    ):
        chip, known = by_name[like], by_name[reference]
        assert chip.cores
        assert chip.clock
        assert known.cores
        assert known.clock
        faster = chip.cores * chip.clock / (known.cores * known.clock)
        for key in (f"matrix.{dtype}" for dtype in keys):
            assert chip.values[key] == pytest.approx(known.values[key] * faster, rel=0.015), (like, key)


@pytest.mark.parametrize(
    ("name", "dtype", "with_sparsity"),
    [
        ("RTX A4000", "bfloat16", 153.4e12),
        ("RTX A5000", "bfloat16", 222.2e12),
        ("RTX 5000 Ada", "float8", 1044.4e12),
        ("RTX 6000 Ada", "float8", 1457e12),
        ("GeForce RTX 5070", "float4", 988e12),
        ("GeForce RTX 5070 Ti", "float4", 1406e12),
        ("GeForce RTX 5080", "float4", 1801e12),
        ("RTX PRO 6000 Blackwell Workstation", "float4", 4000e12),
        ("RTX PRO 6000 Blackwell Max-Q", "float4", 3511e12),
    ],
)
def test_a_rate_from_multiprocessors_and_clock_is_half_of_the_one_that_is_advertised(
    name: str, dtype: str, with_sparsity: float
) -> None:
    (chip,) = (chip for chip in known_chips() if chip.name == name)
    assert chip.values[f"matrix.{dtype}"] == pytest.approx(with_sparsity / 2, rel=0.005)


def test_every_chip_that_was_asked_for_has_a_row() -> None:
    asked = (
        "V100 SXM, V100 PCIe, T4, A10, A30, A100 SXM4 40, A100 SXM4 80, RTX A6000, L4, L40S, RTX 4090, RTX 5090, "
        "H100 SXM, H100 PCIe, H100 NVL, H20, H200, GH200, B200, GB200, B300, MI250X, MI300X, MI325X, MI350X, "
        "MI355X, MI210, MI250, MI300A, A10G, A40, A800, L40, RTX 6000 Ada, RTX 3090, RTX 4080, RTX 5080, "
        "RTX PRO 6000, GB10, H200 NVL, H800, TPU v4 lite, TPU 8i, TPU 8t, "
        "TPU v2, TPU v3, TPU v4, TPU v5e, TPU v5p, TPU v6e, TPU 7x"
    )
    names = [chip.name for chip in known_chips()]
    assert [name for name in asked.split(", ") if not any(name in row for row in names)] == []


def test_narrower_types_are_never_slower() -> None:
    for chip in known_chips():
        order = [
            f"matrix.{name}"
            for name in ("float64", "float32", "tensorfloat32", "bfloat16", "float8", "float4")
        ]
        rates = [chip.values[key] for key in order if key in chip.values]
        assert rates == sorted(rates), chip.name


def test_every_other_source_is_a_known_one_and_differs() -> None:
    document = tomllib.loads(files("jaxobs.hardware").joinpath("hardware.toml").read_text(encoding="utf-8"))
    said = [(row["name"], other) for row in document["chip"] for other in row.get("also", ())]
    assert said
    chips = {chip.name: chip for chip in known_chips()}
    for name, other in said:
        assert other["source"] in document["sources"], name
        assert other["says"] != chips[name].values[other["value"]], name
        assert 0.4 < other["says"] / chips[name].values[other["value"]] < 2.1, name
    for row in document["chip"]:
        assert set(row.get("sources", ())) <= set(chips[row["name"]].values), row["name"]


@pytest.mark.parametrize(
    ("kind", "bfloat16", "memory"),
    [
        ("TPU v2", 23e12, 358e9),
        ("TPU v3", 61.5e12, 450e9),
        ("TPU7x", 1153.5e12, 3700e9),
        ("TPU v7x", 1153.5e12, 3700e9),
        ("TPU8i", 550.5e12, 4300e9),
        ("AMD Instinct MI250X", 191.5e12, 1638.4e9),
        ("AMD Instinct MI250", 181.05e12, 1638.4e9),
    ],
)
def test_a_device_that_is_half_a_chip_has_half_its_peaks(kind: str, bfloat16: float, memory: float) -> None:
    peaks = peaks_for(kind, "tpu")
    assert peaks.matrix["bfloat16"].value == bfloat16
    assert peaks.memory is not None
    assert peaks.memory.value == memory


def test_a_slice_with_known_multiprocessors_has_their_share_and_its_memory() -> None:
    peaks = peaks_for("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "gpu")
    assert peaks.matrix["bfloat16"].value == pytest.approx(989.4e12 * 16 / 132)
    assert peaks.transcendentals is not None
    assert "16 of 132" in peaks.transcendentals.source
    assert peaks.memory is not None
    assert peaks.memory.value == pytest.approx(3350e9 / 8, rel=2e-3)
    assert peaks.link is None


@pytest.mark.parametrize(
    ("kind", "share"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 42 / 108),
        ("NVIDIA A100-SXM4-80GB MIG 1g.20gb", 14 / 108),
        ("NVIDIA A100 80GB PCIe MIG 7g.80gb", 98 / 108),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", 60 / 132),
    ],
)
def test_slices_have_the_share_of_their_multiprocessors(kind: str, share: float) -> None:
    whole = peaks_for(kind.partition(" MIG")[0], "gpu")
    for dtype, peak in peaks_for(kind, "gpu").matrix.items():
        assert peak.value == pytest.approx(whole.matrix[dtype].value * share)


def test_a_slice_whose_multiprocessors_are_not_known_has_memory_but_no_compute() -> None:
    peaks = peaks_for("NVIDIA H200 MIG 3g.71gb", "gpu")
    assert not peaks.matrix
    assert not peaks.vector
    assert peaks.memory is not None
    assert peaks.memory.value == 2400e9
    assert peaks.reason is not None
    assert "3g.71gb" in peaks.reason


@pytest.mark.parametrize(
    "kind", ["NVIDIA L20 MIG 1g.10gb", "NVIDIA H100 80GB HBM3 MIG", "NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb"]
)
def test_a_slice_of_something_unknown_or_of_a_slice_is_unknown(kind: str) -> None:
    assert peaks_for(kind, "gpu").memory is None


def test_a_slice_of_an_impossible_size_has_no_memory_peak() -> None:
    assert peaks_for("NVIDIA B200 MIG 1g.1gb", "gpu").memory is None
    assert peaks_for("NVIDIA B200 MIG 7g.999gb", "gpu").memory is None


def test_the_links_of_a_tpu_v3_are_four_of_a_chip_of_two_cores() -> None:
    link = peaks_for("TPU v3", "tpu").link
    assert link is not None
    assert link.value == 4 * 100e9 / 2
    assert "scaling-book" in link.source
