"""Classes of opcodes, and the FLOPs per element of the result for those whose attributes do not matter.

Conventions. An addition, subtraction, multiplication, division or remainder of real numbers is 1 FLOP.
Complex ones follow from their parts: 2 for an addition, 6 for a product (4 multiplications, 2 additions),
11 for a quotient (a product with the conjugate, the squared magnitude 3, two divisions). A maximum, a
clamp or a rounding selects or converts, a negation or magnitude changes a sign bit: no FLOP, as integer,
compare, select and convert work is none. An elementary function is one transcendental evaluation, of a
complex number two.
"""

from __future__ import annotations

from typing import Final

ARITHMETIC: Final[dict[str, tuple[int, int]]] = {
    "add": (1, 2),
    "subtract": (1, 2),
    "multiply": (1, 6),
    "divide": (1, 11),
    "remainder": (1, 1),
}
"""By opcode, the FLOPs for each real element and for each complex element."""

TRANSCENDENTAL: Final = frozenset([
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cosh", "cosine", "erf", "exponential",
    "exponential-minus-one", "log", "log-plus-one", "logistic", "power", "rsqrt", "sine", "sinh", "sqrt", "tan",
    "tanh",
])  # fmt: skip

FREE: Final = frozenset([
    "add-dependency", "after-all", "bitcast", "constant", "domain", "get-tuple-element", "opt-barrier",
    "optimization-barrier", "parameter", "partition-id", "replica-id", "tuple", "get-dimension-size",
    "all-gather-done", "all-reduce-done", "async-done", "async-update", "collective-permute-done", "copy-done",
    "recv-done", "send-done",
])  # fmt: skip
"""Opcodes that run nothing themselves; the done half of an asynchronous pair was counted at its start."""

_MOVED_IN_PLACE: Final = frozenset(["bitcast-convert", "copy", "select"])
MOVEMENT: Final = _MOVED_IN_PLACE | frozenset([
    "broadcast", "concatenate", "copy-start", "dynamic-reshape", "dynamic-slice", "dynamic-update-slice", "gather",
    "iota", "pad", "reshape", "reverse", "set-dimension-size", "slice", "transpose", "tuple-select",
])  # fmt: skip
"""Opcodes that only move data."""

_COMPARED_AND_ROUNDED: Final = frozenset([
    "and", "ceil", "clamp", "compare", "complex", "convert", "count-leading-zeros", "floor", "imag",
    "is-finite", "maximum", "minimum", "negate", "not", "or", "popcnt", "popcount", "real", "reduce-precision",
    "round-nearest-afz", "round-nearest-even", "shift-left", "shift-right-arithmetic", "shift-right-logical",
    "sign", "stochastic-convert", "xor",
])  # fmt: skip
NO_FLOPS: Final = _COMPARED_AND_ROUNDED | frozenset([
    "multiply-high", "rng", "rng-bit-generator", "rng-get-and-update-state", "top-k", "topk",
])  # fmt: skip
"""Opcodes whose work is no floating arithmetic; random bits are made by integers."""

COMMUNICATION: Final = frozenset([
    "all-gather", "all-gather-start", "all-to-all", "collective-broadcast", "collective-permute",
    "collective-permute-start", "ragged-all-to-all", "recv", "send",
])  # fmt: skip
"""Opcodes that send data between devices and combine nothing."""

CONTROL: Final = frozenset(["call", "conditional", "while", "async-start"])
"""Opcodes that run whole computations of schedulable instructions."""

ELEMENTWISE: Final = (
    TRANSCENDENTAL | frozenset(ARITHMETIC) | _COMPARED_AND_ROUNDED | _MOVED_IN_PLACE | {"abs", "map"}
)
"""Opcodes of which each result element needs the element at the same position of every operand."""

CALL_NOTHING: Final = (ELEMENTWISE | FREE | MOVEMENT | {"dot", "convolution"}) - {"map"}
"""Opcodes that never call a computation, so that decoding need not look."""
