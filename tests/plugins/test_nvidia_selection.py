"""Which devices a process uses, and which JAX device each is, by the rules of CUDA and of JAX."""

from __future__ import annotations

import pytest

from jaxobs_plugins.collectors.nvidia.collector import jax_devices, visible
from jaxobs_plugins.collectors.nvidia.library import Board, Part
from tests.plugins.nvml.scripted import in_use


def board(uuid: str, *instances: str, name: str = "H100", partitioned: bool = False) -> Board:
    whole = () if partitioned else (Part(uuid, None),)
    return Board(uuid, None, name, tuple(Part(part, None) for part in instances) or whole)


FOUR = [board(f"GPU-{letter}{letter}") for letter in "abcd"]
SPLIT = [board("GPU-aa"), board("GPU-bb", "MIG-11", "MIG-12"), board("GPU-cc", partitioned=True)]
MIXED = [board("GPU-aa", name="A2"), board("GPU-bb", name="H100")]


@pytest.mark.parametrize(
    ("wanted", "boards", "expected"),
    [
        (None, FOUR, "GPU-aa GPU-bb GPU-cc GPU-dd"),
        ("", FOUR, ""),
        ("-1", FOUR, ""),
        ("NoDevFiles", FOUR, ""),
        ("2,0", FOUR, "GPU-cc GPU-aa"),
        (" 1 , 3", FOUR, "GPU-bb GPU-dd"),
        ("1,-1,2", FOUR, "GPU-bb"),
        ("0,9,1", FOUR, "GPU-aa"),
        ("1gpu", FOUR, "GPU-bb"),
        ("GPU-cc,GPU-aa", FOUR, "GPU-cc GPU-aa"),
        ("GPU-d", FOUR, "GPU-dd"),
        ("GPU-", FOUR, ""),  # names more than one
        ("GPU-zz,GPU-aa", FOUR, ""),
        (None, SPLIT, "MIG-11"),
        ("MIG-12", SPLIT, "MIG-12"),
        ("MIG-12,MIG-11", SPLIT, "MIG-12 MIG-11"),
        ("1", SPLIT, "MIG-11"),
        ("GPU-bb", SPLIT, "MIG-11"),
        ("2", SPLIT, ""),  # has no instance to compute on
        (None, [], ""),
        ("0", [], ""),
    ],
)
def test_cuda_shows(wanted: str | None, boards: list[Board], expected: str) -> None:
    environment = {} if wanted is None else {"CUDA_VISIBLE_DEVICES": wanted}
    seen = visible(environment, boards)
    assert [device.part.uuid for device in seen.devices] == expected.split()
    assert seen.ordered


def test_indices_of_different_models_need_the_order_of_the_bus() -> None:
    by_index = {"CUDA_VISIBLE_DEVICES": "1"}
    assert not visible(by_index, MIXED).ordered
    assert len(visible(by_index, MIXED).devices) == 2  # either may be meant
    known = visible(by_index | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, MIXED)
    assert [device.part.uuid for device in known.devices] == ["GPU-bb"]
    by_uuid = visible({"CUDA_VISIBLE_DEVICES": "GPU-bb"}, MIXED)
    assert by_uuid.ordered


@pytest.mark.parametrize(
    ("environment", "resource", "expected"),
    [
        ({}, in_use(0, 1, 2, 3), {"0": "aa", "1": "bb", "2": "cc", "3": "dd"}),
        ({}, in_use(3, 1), {"0": "dd", "1": "bb"}),
        ({"CUDA_VISIBLE_DEVICES": "3"}, in_use(0), {"0": "dd"}),
        ({"CUDA_VISIBLE_DEVICES": ""}, in_use(0), {}),
    ],
)
def test_jax_counts(environment: dict[str, str], resource: dict[str, str], expected: dict[str, str]) -> None:
    chosen = jax_devices(visible(environment, FOUR), resource)
    assert {ordinal: device.part.uuid.removeprefix("GPU-") for ordinal, device in chosen} == expected


@pytest.mark.parametrize(
    ("resource", "boards"),
    [
        ({"jax.platform": "gpu"}, FOUR),  # which of them are this process's is not said
        (in_use(7), FOUR),  # there is none
        (in_use(0, 1), MIXED),
    ],
)
def test_an_ordinal_that_is_not_known_is_not_guessed(resource: dict[str, str], boards: list[Board]) -> None:
    chosen = jax_devices(visible({}, boards), resource)
    assert [ordinal for ordinal, _ in chosen] == [""] * len(boards)
