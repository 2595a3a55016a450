"""JAX's listeners of events, durations and scalars."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any


def is_listening(listener: Callable[..., Any]) -> bool:
    """Whether a duration listener is still registered. Without the name: assumed so."""
    monitoring = sys.modules.get("jax._src.monitoring")
    listeners = getattr(monitoring, "get_event_duration_listeners", None)
    # Not `in`, which asks the `__eq__` of others' listeners.
    return any(found is listener for found in listeners()) if callable(listeners) else True


def unregister_listeners(event: Any, duration: Any, scalar: Any) -> None:
    """Take listeners out. Public from 0.8, private names before; without either they stay and do nothing."""
    monitoring = sys.modules.get("jax._src.monitoring")
    for listener, names in (
        (event, ("unregister_event_listener", "_unregister_event_listener_by_callback")),
        (
            duration,
            ("unregister_event_duration_listener", "_unregister_event_duration_listener_by_callback"),
        ),
        (scalar, ("unregister_scalar_listener", "_unregister_scalar_listener_by_callback")),
    ):
        remove = next((found for name in names if (found := getattr(monitoring, name, None))), None)
        if remove is not None:
            with contextlib.suppress(AssertionError, ValueError):  # somebody cleared the listeners before us
                remove(listener)
