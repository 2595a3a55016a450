"""Describes JAX's backend, without ever creating one."""

from __future__ import annotations

import importlib.metadata

from jaxobs.jax_compat.runtime import backend_exists
from jaxobs.model.clock import now
from jaxobs.model.events import BackendFound


def find_backend() -> BackendFound | None:
    """The backend and its local devices; None while the job has created no backend.

    Asking JAX for devices would create one, and break what the job sets up afterwards (`jax.distributed.initialize()`,
    `jax_num_cpu_devices`).
    """
    if not backend_exists():
        return None
    import jax

    local = jax.local_devices()
    # The UUID is empty where JAX has none, because a number within the process identifies no device.
    devices = tuple(
        (ordinal, str(device.device_kind), str(getattr(device, "uuid", None) or ""))
        for ordinal, device in enumerate(local)
    )
    numbers = [getattr(device, "local_hardware_id", None) for device in local]
    return BackendFound(
        jax.default_backend(), devices, jax.process_index(), jax.process_count(), jax.__version__,
        importlib.metadata.version("jaxlib"), now(),
        tuple(number for number in numbers if type(number) is int) if None not in numbers else (),
    )  # fmt: skip
