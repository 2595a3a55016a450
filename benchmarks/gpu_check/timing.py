"""Time of one run of a program by the wall clock of many: a truth that shares no code with jaxobs.

CUDA's events would need JAX's own stream, which it does not give to Python (a stream made with
CU_STREAM_NON_BLOCKING, as XLA's are, does not order with the default one: CUDA driver API, "Stream synchronization
behavior"). One stream runs what is dispatched in order, so the wall clock of a second of calls with one wait at the end
is device time and the gaps between launches, if the device is the slower one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

WARM_UP_CALLS = 3
LEAST_CALLS = 5


def seconds_of_one_run(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """Mean time of a call, s, over about a second of calls that are dispatched one after the other."""
    import jax

    for _ in range(WARM_UP_CALLS):
        result = function(*arguments)
    jax.block_until_ready(result)
    began = time.perf_counter()
    for _ in range(LEAST_CALLS):
        result = function(*arguments)
    jax.block_until_ready(result)
    one = (time.perf_counter() - began) / LEAST_CALLS
    calls = max(LEAST_CALLS, round(1.0 / max(one, 1e-6)))
    began = time.perf_counter()
    for _ in range(calls):
        result = function(*arguments)
    jax.block_until_ready(result)
    return (time.perf_counter() - began) / calls
