"""Checks the names of element types for which users give peaks."""

from __future__ import annotations

import difflib
import re
from typing import Final

ELEMENT_TYPES: Final = (
    "float64", "float32", "tensorfloat32", "bfloat16", "float16", "float8", "float4", "int8", "int4",
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "complex64", "complex128",
    "uint8", "uint4",
)  # fmt: skip
"""The element types that can have a peak: those of the data sheets, then JAX's types that stand for one of them."""
_SHORT: Final = re.compile(r"(?P<prefix>bf|tf|fp|f|i)(?P<bits>\d+)")
_LONG: Final = {"bf": "bfloat", "tf": "tensorfloat", "fp": "float", "f": "float", "i": "int"}


def checked_element_type(dtype: str) -> str:
    """Return a known name unchanged. Raises ValueError for any other, with the nearest known one."""
    if dtype in ELEMENT_TYPES:
        return dtype
    short = _SHORT.fullmatch(dtype.lower())
    written = _LONG[short["prefix"]] + short["bits"] if short else dtype.lower()
    close = difflib.get_close_matches(written, ELEMENT_TYPES, 1)
    meant = f" (did you mean {close[0]!r}?)" if close else ""
    raise ValueError(f"unknown element type {dtype!r}{meant}; known are {', '.join(ELEMENT_TYPES[:9])}")
