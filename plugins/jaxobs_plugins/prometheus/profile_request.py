"""Answers `POST /profile?seconds=…&keep=…`, which asks the job for a window of JAX's profiler."""

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
"""Passes `seconds` and `keep` on to the job without waiting for it. Returns None, or why the job was not asked."""


def answer_profile_request(request: Request, ask: AskForProfile | None) -> Response:
    """Ask the job for a window. The status is 202 if it was asked, though it may still skip the window.

    `jaxobs_profile_windows_total` shows what became of it. 400: invalid parameters; 409: not possible at present; 503:
    the job cannot be asked.
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
    except Exception as error:  # noqa: BLE001  # the client is told, whatever went wrong
        text = f"the job could not be asked: {type(error).__name__}: {error}"
        return plain(HTTPStatus.SERVICE_UNAVAILABLE, " ".join(text.split()))
    if refusal:
        return plain(HTTPStatus.CONFLICT, " ".join(refusal.split()))
    body = json.dumps({"asked": True, "seconds": seconds, "keep": keep}).encode() + b"\n"
    return Response(HTTPStatus.ACCEPTED, body, {"Content-Type": "application/json"})


def _parameters(request: Request) -> tuple[float, bool]:
    """The seconds and whether to keep the trace. Raises ValueError with a sentence for the client."""
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
