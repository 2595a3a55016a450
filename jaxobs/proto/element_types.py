"""XLA's element types: their names in JAX, their sizes, and which of them do floating arithmetic.

Numbers and widths: openxla/xla, ``xla/xla_data.proto``, enum ``PrimitiveType``.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """The kind of arithmetic of a type."""

    REAL = "real"
    COMPLEX = "complex"
    INTEGER = "integer"
    NO_DATA = "no data"


class ElementType(NamedTuple):
    """An element type as JAX spells it."""

    name: str
    bits: int
    kind: Kind
    part: str
    """The type whose arithmetic units do the work: the type itself, or that of a complex number's parts."""


TUPLE: Final = 13
_NO_DATA: Final = (0, TUPLE, 14, 17)  # invalid, tuple, opaque, token
_NAMES: Final = {
    Kind.INTEGER: {
        1: "bool", 30: "int1", 26: "int2", 21: "int4", 2: "int8", 3: "int16", 4: "int32", 5: "int64",
        31: "uint1", 27: "uint2", 22: "uint4", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64",
    },
    Kind.REAL: {
        10: "float16", 11: "float32", 12: "float64", 16: "bfloat16", 19: "float8_e5m2",
        20: "float8_e4m3fn", 23: "float8_e4m3b11fnuz", 24: "float8_e5m2fnuz", 25: "float8_e4m3fnuz",
        28: "float8_e4m3", 29: "float8_e3m4", 32: "float4_e2m1fn", 33: "float8_e8m0fnu",
        35: "float6_e3m2fn", 36: "float6_e2m3fn",
    },
    Kind.COMPLEX: {15: "complex64", 18: "complex128"},
}  # fmt: skip
_PARTS: Final = {"complex64": "float32", "complex128": "float64"}


def _bits(name: str) -> int:
    """The width that a type's name begins its numbers with; that of `bool` is 8."""
    width = re.search(r"\d+", name)
    return int(width[0]) if width else 8


ELEMENT_TYPES: Final[dict[int, ElementType]] = {
    **{number: ElementType("", 0, Kind.NO_DATA, "") for number in _NO_DATA},
    **{
        number: ElementType(name, _bits(name), kind, _PARTS.get(name, name))
        for kind, names in _NAMES.items()
        for number, name in names.items()
    },
}
