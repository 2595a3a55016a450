"""Records what besides the program decides its speed: versions, and variables of XLA and the libraries below it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from jaxobs.vocabulary.text import masked

PREFIXES: Final = (
    "JAX_",
    "XLA_",
    "LIBTPU_",
    "TPU_",
    "NCCL_",
    "OMP_",
    "MKL_",
    "OPENBLAS_",
    "CUDA_VISIBLE",
    "NVIDIA_TF32",
)
"""Prefixes of variables that change what XLA compiles or how it runs."""

UNLIKE: Final = (
    "ADDRESS",
    "COORDINATOR",
    "PROCESS_ID",
    "COMM_ID",
    "HOSTNAMES",
    "TOKEN",
    "SECRET",
    "KEY",
    "PASSWORD",
)
"""Parts of the names of variables that are left out: they differ in every run, or are secret."""

LONGEST: Final = 500
"""Most characters of a variable's value that are kept."""

PLUGINS: Final = ("jax-cuda12-plugin", "jax-cuda13-plugin", "jax-rocm7-plugin", "libtpu")
"""Distributions that contain a device's compiler."""


def relevant_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that bear on speed, as the agent inherited them from the job when it was started."""
    return {
        name: str(masked(name, value))[:LONGEST]
        for name, value in sorted(environment.items())
        if name.startswith(PREFIXES) and not any(word in name for word in UNLIKE)
    }


def versions(process: Mapping[str, Any]) -> dict[str, str]:
    """The versions of Python, jaxobs, JAX and the compilers of devices; what is not installed is absent."""
    found = {name: process.get(name) for name in ("jaxobs", "jax", "jaxlib")}
    for name in PLUGINS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    known = {name: str(found_version) for name, found_version in found.items() if found_version}
    return {"python": platform.python_version(), **known}
