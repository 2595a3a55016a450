"""XLA's element types: their names in JAX, their sizes, and which of them do floating arithmetic.

Numbers and widths: openxla/xla, ``xla/xla_data.proto``, enum ``PrimitiveType``.
"""

from __future__ import annotations

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
_INTEGERS: Final = {
    1: ("bool", 8),
    30: ("int1", 1),
    26: ("int2", 2),
    21: ("int4", 4),
    2: ("int8", 8),
    3: ("int16", 16),
    4: ("int32", 32),
    5: ("int64", 64),
    31: ("uint1", 1),
    27: ("uint2", 2),
    22: ("uint4", 4),
    6: ("uint8", 8),
    7: ("uint16", 16),
    8: ("uint32", 32),
    9: ("uint64", 64),
}
_REALS: Final = {
    10: ("float16", 16),
    11: ("float32", 32),
    12: ("float64", 64),
    16: ("bfloat16", 16),
    19: ("float8_e5m2", 8),
    20: ("float8_e4m3fn", 8),
    23: ("float8_e4m3b11fnuz", 8),
    24: ("float8_e5m2fnuz", 8),
    25: ("float8_e4m3fnuz", 8),
    28: ("float8_e4m3", 8),
    29: ("float8_e3m4", 8),
    32: ("float4_e2m1fn", 4),
    33: ("float8_e8m0fnu", 8),
    35: ("float6_e3m2fn", 6),
    36: ("float6_e2m3fn", 6),
}
_COMPLEX: Final = {15: ("complex64", 64, "float32"), 18: ("complex128", 128, "float64")}

ELEMENT_TYPES: Final[dict[int, ElementType]] = {
    **{number: ElementType("", 0, Kind.NO_DATA, "") for number in _NO_DATA},
    **{number: ElementType(name, bits, Kind.INTEGER, name) for number, (name, bits) in _INTEGERS.items()},
    **{number: ElementType(name, bits, Kind.REAL, name) for number, (name, bits) in _REALS.items()},
    **{
        number: ElementType(name, bits, Kind.COMPLEX, part) for number, (name, bits, part) in _COMPLEX.items()
    },
}
