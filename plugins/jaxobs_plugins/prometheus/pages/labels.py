"""Label values and names that every scraper accepts."""

from __future__ import annotations

import hashlib
import re

LABEL_LENGTH = 256
"""Characters of a label value. A longer one is of no use on a dashboard."""

_DIGEST_LENGTH = 8  # 32 bits: among 10 000 altered values of one label a collision has a chance of about 1 %


def label_value(text: str) -> str:
    """`text` where it is short and valid Unicode; else cut and repaired, and kept distinct by a digest.

    Lone surrogates (bytes that were not UTF-8) become U+FFFD. Escaping is the renderer's.
    """
    if len(text) <= LABEL_LENGTH and (text.isprintable() or valid_unicode(text) == text):
        return text
    raw = text.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(raw, digest_size=_DIGEST_LENGTH // 2).hexdigest()
    kept = valid_unicode(text[: LABEL_LENGTH - _DIGEST_LENGTH - 1])
    return f"{kept}~{digest}"


def label_name(dotted: str) -> str:
    """An OpenTelemetry attribute name as a Prometheus label name: `service.name` becomes `service_name`."""
    name = re.sub(r"[^a-zA-Z0-9_]", "_", dotted)
    return f"_{name}" if name[:1].isdigit() else name


def valid_unicode(text: str) -> str:
    """`text` with U+FFFD in the place of each lone surrogate."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)
