"""`POST /profile?seconds=…&keep=…`: ask the job for a window of JAX's profiler now. Pure, but for the asking."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import parse_qsl

from jaxobs.model.profile import checked_seconds
from jaxobs_plugins.prometheus.server.messages import Request, Response, plain

PROFILE_PATH = "/profile"
DEFAULT_SECONDS = 1.0

_FLAGS = {"true": True, "1": True, "false": False, "0": False}

AskForProfile = Callable[[float, bool], str | None]
"""Passes `seconds` and `keep` on to the job and does not wait for it. Returns None, or why it cannot be."""


def answer_profile_request(request: Request, ask: AskForProfile | None) -> Response:
    """202 where the job was asked, which may still skip the window: `jaxobs_profile_windows_total` tells what came of it.

    400 for parameters that mean nothing, 409 where it cannot be done as things are, 503 where nobody can be asked.
    """
    if request.method != "POST":
        return plain(HTTPStatus.METHOD_NOT_ALLOWED, "use POST", {"Allow": "POST"})
    try:
        seconds, keep = _parameters(request)
    except ValueError as error:
        return plain(HTTPStatus.BAD_REQUEST, str(error))
    if ask is None:
        return plain(HTTPStatus.SERVICE_UNAVAILABLE, "this job cannot be asked for a profiler window")
    try:
        refusal = ask(seconds, keep)
    except Exception as error:  # noqa: BLE001  # whatever is wrong there is told here
        text = f"the job could not be asked: {type(error).__name__}: {error}"
        return plain(HTTPStatus.SERVICE_UNAVAILABLE, " ".join(text.split()))
    if refusal:
        return plain(HTTPStatus.CONFLICT, " ".join(refusal.split()))
    body = json.dumps({"asked": True, "seconds": seconds, "keep": keep}).encode() + b"\n"
    return Response(HTTPStatus.ACCEPTED, body, {"Content-Type": "application/json"})


def _parameters(request: Request) -> tuple[float, bool]:
    """Raises ValueError with a sentence for whoever asked."""
    if request.has_body:
        raise ValueError("a body is not read: say it in the address, as in /profile?seconds=2&keep=true")
    given: dict[str, str] = {}
    for name, value in parse_qsl(request.query, keep_blank_values=True):
        if name not in {"seconds", "keep"} or name in given:
            raise ValueError(f"{name!r} is no parameter, or is there twice: use seconds and keep")
        given[name] = value
    return checked_seconds(given.get("seconds", str(DEFAULT_SECONDS))), _flag(given.get("keep", "false"))


def _flag(text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ValueError(f"keep={text!r} is neither true nor false")
    return _FLAGS[text.lower()]
