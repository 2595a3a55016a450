"""Traces for the tests: one recorded on eight GPUs, and fresh ones of small programs on the CPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxobs.trace import read_trace

RECORDED = Path(__file__).parent / "data" / "mi300x_8gpu_conv3d.xplane.pb"


@pytest.fixture(scope="session")
def recorded_bytes():
    return RECORDED.read_bytes()


@pytest.fixture(scope="session")
def recorded():
    return read_trace(RECORDED)


@pytest.fixture(scope="session")
def cpu_traces(tmp_path_factory):
    """Directories of fresh traces by program, recorded in a process with eight CPU devices."""
    folder = tmp_path_factory.mktemp("cpu_traces")
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
    }
    program = Path(__file__).with_name("traced_programs.py")
    done = subprocess.run(
        [sys.executable, program, folder],
        env=environment,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder
