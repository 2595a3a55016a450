"""What the profiler of the JAX installed can record."""

from __future__ import annotations

import pytest

from jaxobs_plugins.probes.profiler.windows import FIRST_JAXLIB, installed_jaxlib

SEES_A_CPU = installed_jaxlib() >= FIRST_JAXLIB


sees_a_cpu = pytest.mark.skipif(not SEES_A_CPU, reason="this JAX records no operations of a CPU")
