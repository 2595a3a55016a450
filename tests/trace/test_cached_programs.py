"""Executables from JAX's persistent cache: their operations belong to the module of this process, or to none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jaxobs.trace import read_trace
from jaxobs.trace.modules import ModuleIndex

PROGRAM = """
import sys
import jax
import jax.numpy as jnp
for count in range(int(sys.argv[1])):
    jax.jit(lambda x, count=count: x + count)(1.0)  # other programs take the ids
jax.config.update("jax_compilation_cache_dir", sys.argv[2])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None)

@jax.jit
def cached_step(x):
    return jnp.tanh(x @ x).sum()

x = jnp.ones((128, 128))
cached_step(x).block_until_ready()
with jax.profiler.trace(sys.argv[3]):
    for _ in range(3):
        cached_step(x).block_until_ready()
print(len(hits))
"""


def run(folder: Path, others: int) -> tuple[int, Any]:
    """How many executables came from the cache, and the trace."""
    command = [sys.executable, "-c", PROGRAM, str(others), str(folder / "cache"), str(folder / str(others))]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True, env={**os.environ, "JAX_PLATFORMS": "cpu"}
    )  # fmt: skip
    (file,) = (folder / str(others)).rglob("*.xplane.pb")
    return int(done.stdout.split()[-1]), read_trace(file.read_bytes())


@pytest.mark.skipif(jax.__version_info__ < (0, 7), reason="JAX 0.6 records no operation of a CPU")
def test_operations_of_an_executable_from_the_cache_belong_to_its_module(tmp_path: Path) -> None:
    for others in (0, 5):
        hits, trace = run(tmp_path, others)
        assert bool(hits) == (others > 0)
        (device,) = trace.devices
        of_step = [one for one in device.operations if one.module == "jit_cached_step"]
        assert of_step
        for operation in of_step:
            module = trace.module(device.host, operation.program_id)
            assert module is not None, f"{operation.name} has no module"
            assert b"jit_cached_step" in module
        (runs,) = [module for module in device.modules if module.name == "jit_cached_step"]
        assert runs.runs == 3
        assert not trace.hosts[0].notes


def serialized(function: Callable[..., Any], size: int) -> bytes:
    compiled = jax.jit(function).lower(jnp.ones((size, size))).compile()
    (module,) = compiled.runtime_executable().hlo_modules()
    data: bytes = module.as_serialized_hlo_module_proto()
    return data


def step(x: Any) -> Any:
    return jnp.tanh(x).sum()


def other(x: Any) -> Any:
    return (x @ x).sum()


@pytest.fixture(scope="module")
def modules() -> dict[int, bytes]:
    """Two executables of `step` that differ in their shapes alone, and one of another function."""
    return {1: serialized(step, 8), 2: serialized(step, 16), 3: serialized(other, 8)}


def test_an_id_that_is_anothers_here_is_not_taken_for_it(modules: dict[int, bytes]) -> None:
    assert ModuleIndex({1: modules[1], 3: modules[3]}, []).program(3, "jit_step") == 1


def test_of_several_modules_of_the_name_none_is_taken(modules: dict[int, bytes]) -> None:
    index = ModuleIndex(modules, [])
    assert index.program(1, "jit_step") == 1, "it carries its own id"
    unknown = index.program(7, "jit_step")
    assert unknown not in {*modules, 7}
    assert index.module(unknown).name == ""


def test_two_programs_of_one_recorded_id_stay_apart(modules: dict[int, bytes]) -> None:
    index = ModuleIndex({1: modules[1], 3: modules[3]}, [])
    assert [index.program(7, name) for name in ("jit_step", "jit_other")] == [1, 3]
