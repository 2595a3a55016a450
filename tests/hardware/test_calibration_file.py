"""Calibrations on disk: what is written is read back; what is damaged or foreign counts as none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.hardware.calibration import (
    Calibration,
    CalibrationError,
    LeftOut,
    Rate,
    cache_directory,
    file_name,
    load_calibration,
    processor_model,
    this_host,
    usable_cores,
)

rates = st.floats(min_value=1e-3, max_value=1e18)
sizes = st.integers(1, 2**40)
calibrations = st.builds(
    Calibration,
    device_kind=st.text(max_size=20),
    platform=st.sampled_from(["cpu", "gpu"]),
    processor=st.text(max_size=20),
    cores=st.integers(1, 512),
    jax=st.text(max_size=8),
    jaxlib=st.text(max_size=8),
    created=rates,
    seconds=rates,
    matrix=st.lists(st.builds(Rate, st.text(max_size=8), sizes, rates), max_size=4).map(tuple),
    vector=st.just(()),
    transcendentals=st.just(()),
    memory=st.lists(st.builds(Rate, st.just("float32"), sizes, rates), max_size=4).map(tuple),
    other_load=st.none() | st.floats(min_value=0, max_value=64),
    left_out=st.lists(
        st.builds(LeftOut, st.text(max_size=8), st.none() | st.text(max_size=8), st.text(max_size=8)),
        max_size=2,
    ).map(tuple),
)
EXAMPLE = Calibration(
    "cpu", "cpu", "Example 9000", 8, "0.10.2", "0.10.2", 1.7e9, 10.0,
    (Rate("float32", 512, 4e11),), (), (), (Rate("float32", 2**16, 9e10),), 0.0,
)  # fmt: skip


def keep(calibration: Calibration, path: Path) -> Path:
    path.write_text(json.dumps(calibration.to_dict()), encoding="utf-8")
    return path


@given(calibrations)
def test_a_calibration_survives_json(calibration: Calibration) -> None:
    assert Calibration.from_dict(json.loads(json.dumps(calibration.to_dict()))) == calibration


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_other_document_is_refused(document: Any) -> None:
    with pytest.raises(CalibrationError):
        Calibration.from_dict(document)


WRONG = [
    (key, wrong)
    for key in sorted(EXAMPLE.to_dict())
    for wrong in (dict[str, Any](), [None], -1, float("nan"), "7", None)
    if not (wrong is None and key == "other_load")  # they may be absent
    if not (
        wrong == {} and key in {"matrix", "vector", "transcendentals", "memory", "left_out"}
    )  # no entries
    if not (wrong == "7" and isinstance(EXAMPLE.to_dict()[key], str))
]


@pytest.mark.parametrize(("key", "wrong"), WRONG)
def test_a_document_with_one_wrong_value_is_refused(key: str, wrong: Any) -> None:
    with pytest.raises(CalibrationError):
        Calibration.from_dict({**EXAMPLE.to_dict(), key: wrong})


def test_what_is_kept_is_found_again_and_nothing_else_is(tmp_path: Path) -> None:
    path = keep(EXAMPLE, tmp_path / EXAMPLE.file_name)
    assert load_calibration(EXAMPLE.file_name, path.parent) == EXAMPLE
    for other in (
        replace(EXAMPLE, jaxlib="0.9"),
        replace(EXAMPLE, cores=4),
        replace(EXAMPLE, processor="other"),
        replace(EXAMPLE, device_kind="NVIDIA H200"),
    ):
        assert load_calibration(other.file_name, path.parent) is None


def test_a_file_under_the_wrong_name_is_not_believed(tmp_path: Path) -> None:
    wanted = file_name("cpu", "another processor", 2, "0.10.2")
    keep(EXAMPLE, tmp_path / wanted)
    assert load_calibration(wanted, tmp_path) is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe\x00", b"[]", b'{"schema": 99}', b"[" * 100_000, b" " * (5 * 2**20)]
)
def test_a_damaged_file_counts_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "calibration.json"
    path.write_bytes(content)
    assert load_calibration(path.name, path.parent) is None


def test_a_file_cut_short_counts_as_none(tmp_path: Path) -> None:
    path = keep(EXAMPLE, tmp_path / "calibration.json")
    whole = path.read_bytes()
    for end in range(0, len(whole.rstrip()), 7):
        path.write_bytes(whole[:end])
        assert load_calibration(path.name, path.parent) is None


def test_a_directory_in_the_files_place_counts_as_none(tmp_path: Path) -> None:
    assert load_calibration(tmp_path.name, tmp_path.parent) is None


def test_the_folder_is_the_chosen_one_else_below_the_users_cache() -> None:
    assert cache_directory(Path("/chosen"), {"XDG_CACHE_HOME": "/b"}) == Path("/chosen")
    assert cache_directory(None, {"XDG_CACHE_HOME": "/b"}) == Path("/b/jaxobs")
    assert cache_directory(None, {"XDG_CACHE_HOME": "not/absolute"}) == Path("~/.cache/jaxobs").expanduser()


def test_the_processors_name_is_read_with_a_fallback(tmp_path: Path) -> None:
    information = tmp_path / "cpuinfo"
    information.write_text("processor\t: 0\nmodel name\t: Example   9000 CPU\n", encoding="utf-8")
    assert processor_model(information) == "Example 9000 CPU"
    assert processor_model(tmp_path / "missing")


def test_two_arm_processors_are_told_apart_by_their_numbers(tmp_path: Path) -> None:
    """Linux gives no `model name` there: arch/arm64/kernel/cpuinfo.c."""
    information = tmp_path / "cpuinfo"
    names = set()
    for part in ("0xd0c", "0xd4f"):  # Neoverse N1 and V2
        information.write_text(
            f"processor\t: 0\nBogoMIPS\t: 243.75\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
            f"CPU variant\t: 0x3\nCPU part\t: {part}\nCPU revision\t: 1\n",
            encoding="utf-8",
        )
        names.add(processor_model(information))
    assert names == {f"CPU implementer 0x41, CPU variant 0x3, CPU part {part}" for part in ("0xd0c", "0xd4f")}


@pytest.mark.parametrize("group", ["/", "/system.slice/job.service"])
@pytest.mark.parametrize(
    ("limit", "cores"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", None), ("x", None)]
)
def test_a_control_groups_quota_limits_the_cores(
    tmp_path: Path, group: str, limit: str, cores: int | None
) -> None:
    proc, folder = tmp_path / "proc", tmp_path / "cgroup" / group[1:]
    for made in (proc / "self", folder):
        made.mkdir(parents=True)
    (proc / "self/cgroup").write_text(f"0::{group}\n", encoding="utf-8")
    mount = f"31 24 0:27 / {tmp_path}/cgroup rw - cgroup2 cgroup rw\n"
    (proc / "self/mountinfo").write_text(mount, encoding="utf-8")
    (folder / "cpu.max").write_text(limit, encoding="utf-8")
    assert usable_cores(proc) == (cores or usable_cores(tmp_path / "missing"))


def test_the_file_of_this_host_needs_no_jax_and_has_its_version() -> None:
    import importlib.metadata

    assert this_host("cpu") == file_name(
        "cpu", processor_model(), usable_cores(), importlib.metadata.version("jaxlib")
    )
