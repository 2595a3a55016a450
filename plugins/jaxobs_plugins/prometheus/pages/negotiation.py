"""Chooses the format and the coding of a response by what the client accepts (RFC 9110, section 12.5). Pure functions.

They replace prometheus_client's own `choose_encoder` and `gzip_accepted`, which ignore weights (as of 0.26): a client
that refuses OpenMetrics by `q=0` would get it. A client that refuses every format gets the plainest, as the RFC allows:
a scraper that reads it after all is better off than with an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from jaxobs_plugins.prometheus.pages.render import OPENMETRICS, TEXT

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"?')  # the last one may not be closed: so no quote is looked at twice
_DELIMITERS = re.compile(r'[",;=\\]')
_WEIGHT = re.compile(r"0?\.\d+|0\.?|1(\.0*)?")

# OpenMetrics 0.0.1 is what Prometheus before 2.35 asks for; its text is the same as that of the version sent.
_VERSIONS = {TEXT: {"0.0.4"}, OPENMETRICS: {"1.0.0", "0.0.1"}}


class _Accepted(NamedTuple):
    """One element of a header, with its weight split from its other parameters."""

    name: str
    parameters: dict[str, str]
    weight: float


def negotiate(accept: str) -> str:
    """The content type for an `Accept` header; of two with equal weights, OpenMetrics if the header names it."""
    accepted = list(_elements(accept))
    if not accepted:
        return TEXT
    text, openmetrics = _weight_of(TEXT, accepted), _weight_of(OPENMETRICS, accepted)
    named = any(each.name == _media_type(OPENMETRICS) for each in accepted)
    return OPENMETRICS if openmetrics > text or (named and openmetrics == text > 0) else TEXT


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether an `Accept-Encoding` header accepts gzip, with a weight no less than that of plain bytes."""
    weights = {each.name.removeprefix("x-"): each.weight for each in _elements(accept_encoding)}
    gzip, identity = (weights.get(name, weights.get("*", 0.0)) for name in ("gzip", "identity"))
    return gzip > 0 and gzip >= identity


def _weight_of(content_type: str, accepted: list[_Accepted]) -> float:
    """The weight that the most specific media range gives a content type; 0 where none matches."""
    matching = [(_specificity(content_type, each), each.weight) for each in accepted]
    return max((pair for pair in matching if pair[0] > 0), default=(0, 0.0))[1]


def _specificity(content_type: str, accepted: _Accepted) -> int:
    """The rank of a media range by how closely it names the content type; 0 where it does not match.

    Only the parameter `version` counts: names are rendered as ASCII and texts as UTF-8 whatever the others ask for.
    """
    media_type = _media_type(content_type)
    if accepted.name != media_type:
        return {"*/*": 1, media_type.partition("/")[0] + "/*": 2}.get(accepted.name, 0)
    version = accepted.parameters.get("version")
    if version is None:
        return 3
    if version not in _VERSIONS[content_type]:
        return 0
    return 5 if f"version={version};" in content_type else 4


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0]


def _elements(header: str) -> Iterator[_Accepted]:
    """The elements that a header lists, without those that are malformed, in time linear in the header's length."""
    unquoted = _QUOTED.sub(lambda quoted: _DELIMITERS.sub("", quoted[0]), header.lower())
    for element in unquoted.split(","):
        name, *rest = (part.strip() for part in element.split(";"))
        parameters = {key.strip(): value.strip() for key, _, value in (part.partition("=") for part in rest)}
        weight = parameters.pop("q", "1")
        if name and _WEIGHT.fullmatch(weight):
            yield _Accepted(name, parameters, float(weight))
