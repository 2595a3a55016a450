"""What the profiler of the JAX installed can record."""

from __future__ import annotations

import pytest

from jaxobs.jax_compat.runtime import jaxlib_version
from jaxobs_plugins.probes.profiler.windows import FIRST_JAXLIB

SEES_A_CPU = jaxlib_version() >= FIRST_JAXLIB


sees_a_cpu = pytest.mark.skipif(not SEES_A_CPU, reason="this JAX records no operations of a CPU")
