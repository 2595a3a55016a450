"""The persistent compilation cache, as the probe `compile` tells of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax

from jaxobs.model.events import (
    Compilation,
    Measured,
)

CACHED = """
import jax, jax.numpy as jnp
from tests.probe.conftest import Observed
from jaxobs.model.events import Compilation, CompilePhaseEnded, ExecutableCreated, Measured
jax.config.update("jax_compilation_cache_dir", {folder!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
observed = Observed()
observed.side.start_probes()

@jax.jit
def kept(x):
    return x @ x

kept(jnp.ones((32, 32)))
(compiled,) = [event for event in observed.of(Compilation) if event.function == "kept"]
(made,) = observed.of(ExecutableCreated)
ended = [event for event in observed.of(CompilePhaseEnded) if event.function == "kept"]
backend = next(event for event in ended if event.phase == "backend")
read = sum(event.exclusive for event in ended if event.phase == "cache_read")
assert backend.exclusive + read <= backend.end - backend.start
assert made.proto
totals = {{}}
for event in observed.of(Measured):
    totals[event.labels[0]] = totals.get(event.labels[0], 0) + event.value
saved = dict(compiled.attributes).get("jax.persistent_cache.seconds_saved")
assert (saved is not None) == (compiled.persistent_cache == "hit")
print(compiled.persistent_cache, read > 0, totals["request"] > 0, totals["hit"] > 0, totals["written"] > 0)
observed.side.stop(0)
"""


def test_the_persistent_cache_is_told_and_its_reading_is_a_phase_of_its_own(tmp_path: Path) -> None:
    here = Path(__file__).parent
    source = CACHED.format(folder=str(tmp_path))
    path = os.pathsep.join([str(here.parents[1]), str(here.parents[1] / "plugins")])
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", source],
            env={**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.split())
    assert said == [["miss", "False", "True", "False", "True"], ["hit", "True", "True", "True", "False"]]


def test_without_a_persistent_cache_there_are_neither_requests_nor_misses(observed: Any) -> None:
    config: Any = jax.config
    assert not config.jax_compilation_cache_dir
    jax.jit(lambda x: x + 51)(1.0)
    assert {event.persistent_cache for event in observed.of(Compilation)} == {"off"}
    assert {event.value for event in observed.of(Measured) if "persistent_cache" in event.metric} == {0.0}
