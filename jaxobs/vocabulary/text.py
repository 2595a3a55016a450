"""What may be shown of text that comes from elsewhere: letters that print, and no secret."""

from __future__ import annotations

import re
from typing import Final, TypeVar

Value = TypeVar("Value")

MASK: Final = "••••"

_SECRET_NAME: Final = re.compile(
    r"(HEADER|TOKEN|PASSW(OR)?D|SECRET|CREDENTIAL|AUTHORIZATION|API[-_.]?KEY|(?<!TLS)(?<!CLIENT)[-_.]KEY$)"
    r"(?![-\w.]*[-_.](FILE|DIRECTORY|PATH)$)",
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
