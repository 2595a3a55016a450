"""What the fault suite shares: jobs, endpoints of each temper, small disks, and chance with a seed."""

from __future__ import annotations

import os
import random
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.jobs import ROOT, run, start
from tests.otel.conftest import black_hole, receiver, refusing

__all__ = ["black_hole", "receiver", "refusing", "run", "start"]  # fixtures


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> str:
    """That of the order, which the head of a run in random order shows; and a test that fails."""
    given = str(request.config.getoption("random_order_seed")).removeprefix("default:")
    print(f"seed {given}")
    return given


@pytest.fixture
def chance(seed: str) -> random.Random:
    return random.Random(seed)


@pytest.fixture
def path_with() -> Callable[[Path], str]:
    """The PYTHONPATH of a job that has plugins in a folder of the test's besides its own."""
    return lambda folder: os.pathsep.join([str(folder), str(ROOT), str(ROOT / "plugins")])


@pytest.fixture
def page() -> Callable[..., str]:
    """The metrics page at an address, once a piece of text is on it."""

    def found(address: str, piece: str = "", seconds: float = 20.0, **headers: str) -> str:
        deadline = time.monotonic() + seconds
        while True:
            asked = urllib.request.Request(address, headers=headers)
            with urllib.request.urlopen(asked, timeout=20) as answer:
                text = str(answer.read(), "utf-8")
            if piece in text:
                return text
            assert time.monotonic() < deadline, f"{piece} is not in:\n{text}"
            time.sleep(0.05)

    return found


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Any]:
    """`small_disk(options)` mounts a file system with them; where this user may not, the test is skipped."""
    mounted: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "small", str(place)], capture_output=True, text=True, check=False
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "--lazy", str(place)], check=False)
