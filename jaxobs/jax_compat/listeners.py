"""Checks and removes listeners of JAX's events, durations and scalars."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any


def is_listening(listener: Callable[..., Any]) -> bool:
    """Whether a duration listener is still registered. Without the private name: True."""
    monitoring = sys.modules.get("jax._src.monitoring")
    listeners = getattr(monitoring, "get_event_duration_listeners", None)
    # Not `in`, which would call `__eq__` of listeners of others.
    return any(found is listener for found in listeners()) if callable(listeners) else True


def unregister_listeners(event: Any, duration: Any, scalar: Any) -> None:
    """Unregister listeners. The names are public from 0.8, private before; without either they stay and do nothing."""
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
            with contextlib.suppress(AssertionError, ValueError):  # the listeners were cleared before
                remove(listener)
