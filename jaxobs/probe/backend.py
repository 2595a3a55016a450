"""What JAX's backend is, asked only once there is one."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from jaxobs.model.clock import now
from jaxobs.model.events import BackendFound
from jaxobs.probe.jax_internals import backend_exists


def find_backend() -> BackendFound | None:
    """None while the job has made no backend.

    Asking JAX for devices would make one, and break what the job sets up afterwards (`jax.distributed.initialize()`,
    `jax_num_cpu_devices`).
    """
    if not backend_exists():
        return None
    import jax

    devices: tuple[tuple[int, str, str], ...] = tuple(
        (ordinal, str(device.device_kind), _identity(device))
        for ordinal, device in enumerate(jax.local_devices())
    )
    return BackendFound(
        jax.default_backend(), devices, jax.process_index(), jax.process_count(), jax.__version__,
        importlib.metadata.version("jaxlib"), now(),
    )  # fmt: skip


def _identity(device: Any) -> str:
    return str(getattr(device, "uuid", None) or device.id)
