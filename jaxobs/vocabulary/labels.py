"""What may become a name or a label value, and the name under which counters beyond the limit on series are summed."""

from __future__ import annotations

import hashlib
from functools import lru_cache

LABEL_LENGTH = 200
"""Characters a label keeps. Prometheus has no limit of its own; names of functions and operations stay below it."""

EAGER = "(eager)"
"""The one function name for operations that JAX compiles one by one outside any function of the user's."""

OUTSIDE_JIT = " at "
"""In the name of what `jax.lax` compiles outside jit around functions of the user's: `scan at train.py:12`."""

OTHER = "__other__"
"""The label value under which counters of series beyond the limit are summed."""


def valid_text(text: str) -> str:
    """Text that UTF-8 and protobuf can carry: with `?` in place of each lone surrogate, as in names that are no UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def cut_name(name: str) -> str:
    """A name of at most LABEL_LENGTH characters; one that is cut ends in a digest of the whole, so that two stay two."""
    return name if len(name) <= LABEL_LENGTH else clean_label(name)


def clean_label(value: str) -> str:
    """A label value that every exporter can carry: text without surrogates or NUL, at most LABEL_LENGTH characters.

    Text that had to be changed gets a digest of the original, so that two different values stay two series.
    """
    text = valid_text(value).replace("\x00", "\ufffd")
    if text == value and len(text) <= LABEL_LENGTH:
        return text
    return _with_digest(text, value)


@lru_cache(maxsize=16)  # a name of a megabyte takes a millisecond, and may be given in each step
def _with_digest(text: str, value: str) -> str:
    digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{text[: LABEL_LENGTH - len(digest) - 1]}~{digest}"
