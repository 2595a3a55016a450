"""What is told of JAX's backend."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import jax
import jaxlib.version
import pytest

from jaxobs.probe.side import find_backend
from tests.jobs import environment

DISTRIBUTED = """
import jax, socket
from jaxobs.probe.side import find_backend
with socket.socket() as free:
    free.bind(("localhost", 0))
    address = f"localhost:{free.getsockname()[1]}"
jax.distributed.initialize(address, 1, 0)
jax.devices()
print(find_backend().coordinator == address)
"""


def test_it_comes_with_the_variables_by_which_its_devices_were_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    jax.devices()
    found = find_backend()
    assert found is not None
    environment = dict(found.environment)
    assert (environment["CUDA_VISIBLE_DEVICES"], environment["HIP_VISIBLE_DEVICES"]) == ("3", None)


def test_it_is_told_where_the_metadata_of_installed_packages_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.metadata.MetadataPathFinder, "find_distributions", lambda *_, **__: iter(())
    )
    jax.devices()
    found = find_backend()
    assert found is not None
    assert found.jaxlib_version == jaxlib.version.__version__


@pytest.mark.parametrize(("told", "found"), [({}, "True"), ({"MASTER_PORT": "29500"}, "False")])
def test_it_comes_with_the_coordinator_where_no_launcher_tells_the_job(
    told: dict[str, str], found: str
) -> None:
    job = [sys.executable, "-c", DISTRIBUTED]
    done = subprocess.run(job, env=environment(**told), capture_output=True, text=True, check=False)
    assert done.stdout == f"{found}\n", done.stderr
    jax.devices()
    alone = find_backend()
    assert alone is not None
    assert alone.coordinator == ""
