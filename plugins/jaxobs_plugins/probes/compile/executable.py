"""Reads a new executable's module, memory analysis and number of devices while the executable is at hand."""

from __future__ import annotations

from typing import Any

from jaxobs.plugin.guard import Suppressed, raised_by_signal_handler

MEMORY_KINDS = {
    "argument": "argument_size_in_bytes",
    "output": "output_size_in_bytes",
    "temporary": "temp_size_in_bytes",
    "alias": "alias_size_in_bytes",
    "code": "generated_code_size_in_bytes",
}


def module_of(executable: Any, limit: int) -> tuple[bytes | None, str]:
    """The serialised `HloModuleProto` and an empty reason, or None and the reason; `limit` in bytes."""
    try:
        proto: bytes = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    except Exception as error:  # a backend that does not give its modules
        if raised_by_signal_handler(error):  # a large module takes seconds
            raise
        return None, f"the backend gave no module: {type(error).__name__}: {error}"[:200]
    if len(proto) > limit:
        return None, f"the module has {len(proto)} bytes, more than JAXOBS_MAXIMUM_MODULE_BYTES={limit}"
    return proto, ""


def memory_of(executable: Any) -> tuple[tuple[str, int], ...]:
    """(kind, bytes) of XLA's memory analysis, per device; empty where the backend has none.

    XLA's `peak_memory_in_bytes` is not among them: seen on a CPU (0.10.2 to 0.12.0.1) it leaves out the arguments and
    what is allocated but not in use at that moment. The size of the code is left out unless it is positive: backends
    that do not know it say -1 or, as XLA's for CPUs, 0.
    """
    with Suppressed(Exception):  # not every backend has the analysis: then its memory is absent
        stats = executable.get_compiled_memory_stats()
        known = (
            (kind, int(getattr(stats, name))) for kind, name in MEMORY_KINDS.items() if hasattr(stats, name)
        )
        return tuple((kind, size) for kind, size in known if kind != "code" or size > 0)
    return ()


def local_devices_of(executable: Any) -> int:
    """The number of this process's devices that an executable runs on."""
    with Suppressed(Exception):  # as above; an executable runs on one device at least
        return len(executable.local_devices())
    return 1
