"""Text that comes from elsewhere: letters that print, labels of limited length, strict JSON, and no secret."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeVar

Value = TypeVar("Value")

MASK: Final = "••••"

MAX_DEPTH: Final = 64
"""Deepest nesting of a document that is read; snapshots and records have ten levels."""

MAX_NUMBER: Final = 1e300
"""Largest number that is told and read: above it sums and products of a few figures are no numbers any more."""

_SECRET_NAME: Final = re.compile(
    r"(HEADER|TOKEN|PASS(W(OR)?D|PHRASE)|SECRET|CREDENTIAL|AUTHORIZATION|SIGNATURE|WEBHOOK|CONNECTION[-_.]?STRING|"
    r"(API|ACCESS|ACCOUNT|PRIVATE)[-_.]?KEY|(?<!TLS)(?<!CLIENT)[-_.]KEY$)(?![-\w.]*[-_.](FILE|DIRECTORY|PATH)$)",
    re.IGNORECASE,
)
"""Names of what is secret; a file that holds it has a name that anybody may know."""

_CREDENTIALS: Final = re.compile(r"(?<=://)\S*@")
"""`user:password@` of a URL. A password with a slash in it is one too, so that what is masked may end later."""

_QUERY: Final = re.compile(r"(://[^\s?]*\?)[^\s'\"]+")
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+\S+")
_ASSIGNED: Final = re.compile(r"([\w.-]+)=([^,;&\s]+)")


def printable(text: str) -> str:
    """The text with line breaks, escape sequences, format characters and lone surrogates replaced.

    What other people's programs and documents call themselves must not move the cursor, hide or reorder what stands
    beside it, or end a line of a log.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def masked(name: str, value: Value) -> Value | str:
    """The value of a variable or setting without secrets: all of it where its name tells of one.

    Else without the credentials and the query of a URL, and without what is assigned to such a name within it.
    """
    if not isinstance(value, str):
        return value
    if value and _SECRET_NAME.search(name):
        return MASK
    text = _QUERY.sub(rf"\1{MASK}", _CREDENTIALS.sub(f"{MASK}@", value))
    text = _BEARER.sub(rf"\1 {MASK}", text)
    return _ASSIGNED.sub(lambda pair: f"{pair[1]}={MASK}" if _SECRET_NAME.search(pair[1]) else pair[0], text)


LABEL_LENGTH = 200
"""Characters a label keeps. Prometheus has no limit of its own; names of functions and operations stay below it."""

EAGER = "(eager)"
"""The one function name for operations that JAX compiles one by one outside any function of the user's."""

OUTSIDE_JIT = " at "
"""In the name of what `jax.lax` compiles outside jit around functions of the user's: `scan at train.py:12`."""

OTHER = "__other__"
"""The label value under which counters of series beyond the limit are summed, and loops beyond MAX_LOOP_NAMES are one."""

MAX_LOOP_NAMES = 20
"""Most names of loops that are marked: they become a label, so they must not contain numbers of epochs."""


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


def read_json(data: bytes) -> Any:
    """What a JSON document of somebody else says, with printable text alone.

    Raises ValueError, which says what is wrong, for what is no strict JSON: NaN, a key given twice, numbers beyond
    MAX_NUMBER, and nesting beyond MAX_DEPTH.
    """
    try:
        return _checked(json.loads(data, parse_constant=_refuse, object_pairs_hook=_object), 0)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def printable_document(content: Any) -> Any:
    """Plain data with printable text alone."""
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, Mapping):
        return {printable(str(key)): printable_document(value) for key, value in content.items()}
    return [printable_document(value) for value in content] if isinstance(content, list | tuple) else content


def _checked(content: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if isinstance(content, str):
        return printable(content)
    if isinstance(content, dict):
        return {key: _checked(value, depth + 1) for key, value in content.items()}
    if isinstance(content, list):
        return [_checked(value, depth + 1) for value in content]
    if isinstance(content, int | float) and not abs(content) <= MAX_NUMBER:
        raise ValueError("a number in it is too large")
    return content


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = {printable(key): value for key, value in pairs}
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
