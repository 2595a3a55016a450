"""Advice on what the device computes: intensity, element types, memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jaxobs.derive.advice.facts import Facts
from jaxobs.derive.advice.finding import Finding
from jaxobs.vocabulary.units import byte_size, rough_percent

MOSTLY_PRODUCTS = 0.5
"""Least share of FLOPs in matrix products. A larger batch lets a product use each weight more often, but only adds to
element-by-element work."""

STATE_SHARE = 0.25
"""Least share of the bytes that is reading and writing donated arguments. Donated arguments that come out again are the
training state, which has the same size for any batch; twice the batch halves their traffic per example."""

LEAST_FACTOR = 1.25
"""How many times as fast another element type must be: below this, casts cost what the faster products save."""

DONATION_SHARE = 0.01
DONATION_BYTES = 64 * 2**20
"""Least memory that donation must save: a share of the device's memory, or bytes where its size is not known."""


@dataclass(slots=True)
class _Products:
    """Compute-bound matrix products of one function.

    `single` (in float32 or TensorFloat-32) and `all` are FLOPs per second of wall time. `share` is the least share of
    wall time that the products in `single` take.
    """

    single: float = 0.0
    all: float = 0.0
    share: float = 0.0
    confidence: float = 1.0
    full_precision: bool = False
    """Whether any product certainly runs in float32 and not already in TensorFloat-32."""


def small_batch(facts: Facts) -> Iterator[Finding]:
    """Memory-bound executables with too small a batch: twice the batch moves the same state for twice the examples."""
    for work in facts.work:
        peak = facts.matrix_peaks.get(max(work.executed, key=work.executed.__getitem__, default=""))
        if work.label != "memory" or not peak or not facts.memory_peak or not work.bytes or not work.flops:
            continue
        ridge, intensity = peak / facts.memory_peak, work.flops / work.bytes
        state = 2 * work.memory.get("alias", 0.0) / work.bytes
        if state > 1:  # only partly read and written: a table, or a cache that grows with the batch
            continue
        if work.matrix_flops < MOSTLY_PRODUCTS * work.flops or intensity >= ridge or state < STATE_SHARE:
            continue
        yield Finding(
            work.subject,
            f"`{work.subject['function']}` does {intensity:.3g} FLOP for each byte of device memory, the device could do "
            f"{ridge:.3g}: the batch is too small, {rough_percent(state)} of the bytes are state that does not grow with "
            "it",
            "take a larger batch where memory and the training recipe allow it, or update the state once for several "
            "micro-batches",
            work.confidence,
            work.share * state / 2,
        )


def slow_element_type(facts: Facts) -> Iterator[Finding]:
    """Functions that multiply in float32 on a device that is faster in bfloat16.

    The share saved is the least time that the float32 products can take, times what the faster type saves of it. Where
    the device has TensorFloat-32 the products may run as that already, so they are compared with its peak.
    """
    single = max(facts.matrix_peaks.get("float32", 0.0), facts.matrix_peaks.get("tensorfloat32", 0.0))
    half = facts.matrix_peaks.get("bfloat16", 0.0)
    if "float32" not in facts.matrix_peaks or half < LEAST_FACTOR * single:
        return
    of_function: dict[str, _Products] = {}
    for work in facts.work:
        amount = work.executed.get("float32", 0.0) + work.executed.get("tensorfloat32", 0.0)
        if work.label == "compute" and amount:
            products = of_function.setdefault(work.subject["function"], _Products())
            products.confidence = min(products.confidence, work.confidence)
            products.single += amount * work.share / work.seconds
            products.full_precision = products.full_precision or "float32" in work.executed
            products.all += sum(work.executed.values()) * work.share / work.seconds
            products.share += work.share * min(1.0, amount / single / work.seconds)
    tensorfloat32 = facts.matrix_peaks.get("tensorfloat32", 0.0) > facts.matrix_peaks["float32"]
    also = (
        "; where the precision is set to `highest`, `jax.default_matmul_precision('tensorfloat32')` helps without a "
        "change of types"
    )
    for function, products in of_function.items():
        if not products.all:
            continue
        yield Finding(
            {"function": function},
            f"`{function}` multiplies in float32 ({rough_percent(products.single / products.all)} of the matrix FLOPs "
            f"that are bound by compute); the device's matrix unit is {half / single:.2g} times as fast in bfloat16",
            "compute products in bfloat16 and keep the parameters in float32"
            + (also if tensorfloat32 and products.full_precision else ""),
            products.confidence,
            min(1.0, products.share) * (1 - single / half),
        )


def donation(facts: Facts) -> Iterator[Finding]:
    """Executables with arguments whose buffers outputs of the same shape and element type could take over."""
    for executable in facts.executables:
        function, runs = executable.function, executable.runs.value
        saved = executable.donatable_bytes.value
        least = (
            DONATION_BYTES if facts.memory_limit is None else max(1.0, DONATION_SHARE * facts.memory_limit)
        )
        if runs is None or runs < 2 or saved is None or saved < least:
            continue
        share = f" ({rough_percent(saved / facts.memory_limit)} of its memory)" if facts.memory_limit else ""
        yield Finding(
            {"function": function, "executable": executable.executable.value or ""},
            f"`{function}` holds arguments and outputs of the same shapes side by side: donating them would give back up "
            f"to {byte_size(saved)} a device{share}",
            "`jax.jit(…, donate_argnums=…)` for arguments that the caller does not use again, such as the training state",
            1.0,
            saves_bytes=saved,
        )
