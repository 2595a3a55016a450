"""What the tests of costs need: modules compiled by JAX, and modules written as HLO text."""

import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest

from jaxobs.cost_model import module_cost
from jaxobs.model.cost import ModuleCost

try:
    hlo_module_from_text = importlib.import_module("jaxlib._hlo").hlo_module_from_text  # jaxlib 0.10
except ImportError:
    hlo_module_from_text = importlib.import_module("jax._src.lib").xla_client._xla.hlo_module_from_text


@pytest.fixture(scope="session")
def compiled() -> Callable[..., Any]:
    """Compiles ``fn`` for ``args`` on the CPU; keyword arguments are those of ``jax.jit``."""

    def compile_(fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
        return jax.jit(fn, **options).lower(*args).compile()

    return compile_


@pytest.fixture(scope="session")
def proto(compiled: Callable[..., Any]) -> Callable[..., bytes]:
    """The serialized module of ``fn`` compiled for ``args``."""

    def serialize(fn: Callable[..., Any], *args: Any, **options: Any) -> bytes:
        executable = compiled(fn, *args, **options).runtime_executable()
        serialized: bytes = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
        return serialized

    return serialize


@pytest.fixture(scope="session")
def cost_of(proto: Callable[..., bytes]) -> Callable[..., ModuleCost]:
    """The cost of ``fn`` compiled for ``args``."""
    return lambda fn, *args, **options: module_cost(proto(fn, *args, **options))


@pytest.fixture(scope="session")
def text_proto() -> Callable[[str], bytes]:
    """The serialized module of HLO text, for what no CPU compiles to: XLA's own parser reads it."""

    def serialize(text: str) -> bytes:
        if not text.lstrip().startswith("HloModule"):
            text = "HloModule written\n\n" + text
        serialized: bytes = hlo_module_from_text(text).as_serialized_hlo_module_proto()
        return serialized

    return serialize


@pytest.fixture(scope="session")
def text_cost(text_proto: Callable[[str], bytes]) -> Callable[[str], ModuleCost]:
    """The cost of a module written as HLO text."""
    return lambda text: module_cost(text_proto(text))


@pytest.fixture(scope="session")
def collective_protos() -> dict[str, bytes]:
    """Serialized modules of collectives over 8 host devices, compiled in a process that has so many."""
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
    }
    program = Path(__file__).with_name("collective_programs.py")
    done = subprocess.run(
        [sys.executable, program], env=environment, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    protos: dict[str, bytes] = pickle.loads(done.stdout)
    return protos
