"""Which frames JAX takes for the user's, in the source lines of its messages, jaxprs and compiled modules."""

# private names of JAX live here

from __future__ import annotations

import sys

_excluded: set[str] = set()


def leave_out(file: str) -> None:
    """Frames of this file are no longer taken for the user's: what they call is, or whoever called them.

    By `jax._src.source_info_util.register_exclusion`, seen in 0.6.2, 0.8.2 and 0.10.2. Without it JAX's messages name our
    line in place of the user's. JAX must be imported.
    """
    module = sys.modules.get("jax._src.source_info_util")
    register = getattr(module, "register_exclusion", None)
    if callable(register) and file not in _excluded:
        _excluded.add(file)
        register(file)
