import json
from collections.abc import Callable

import pytest

from jaxobs_plugins.prometheus.access import Token

SECRET = "a-secret"
ALLOWED = {"Authorization": f"Bearer {SECRET}"}


class Job:
    """Writes down what it was asked for."""

    def __init__(self, refusal: str | None = None) -> None:
        self.asked: list[tuple[float, bool]] = []
        self._refusal = refusal

    def profile(self, seconds: float, keep: bool) -> str | None:
        self.asked.append((seconds, keep))
        return self._refusal


@pytest.mark.parametrize(
    ("query", "seconds", "keep"),
    [
        ("", 1.0, False),
        ("?seconds=2.5", 2.5, False),
        ("?seconds=60&keep=true", 60.0, True),
        ("?keep=1", 1.0, True),
        ("?keep=False&seconds=1e-1", 0.1, False),
    ],
)
def test_the_job_is_asked(serve: Callable, query: str, seconds: float, keep: bool) -> None:
    job = Job()
    server = serve(token=Token(SECRET.encode()), ask=job.profile)
    status, headers, body = server.get(f"/profile{query}", "POST", **ALLOWED)
    assert (status, headers["content-type"]) == (202, "application/json")
    assert json.loads(body) == {"asked": True, "seconds": seconds, "keep": keep}
    assert job.asked == [(seconds, keep)]


@pytest.mark.parametrize(
    "query",
    [
        "?seconds=0", "?seconds=-1", "?seconds=60.1", "?seconds=nan", "?seconds=inf", "?seconds=soon", "?seconds=",
        "?keep=maybe", "?keep", "?second=1",
    ],
)  # fmt: skip
def test_what_means_nothing_is_400_and_the_job_is_not_asked(serve: Callable, query: str) -> None:
    job = Job()
    server = serve(token=Token(SECRET.encode()), ask=job.profile)
    status, _, body = server.get(f"/profile{query}", "POST", **ALLOWED)
    assert status == 400
    assert body.count(b"\n") == 1
    assert job.asked == []


def test_parameters_in_a_body_are_refused_rather_than_overlooked(serve: Callable) -> None:
    job = Job()
    server = serve(token=Token(SECRET.encode()), ask=job.profile)
    status, _, body = server.get("/profile", "POST", **ALLOWED, Content_Length="9")
    assert (status, job.asked) == (400, [])
    assert b"/profile?seconds=2" in body


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT"])
def test_only_post_asks(serve: Callable, method: str) -> None:
    job = Job()
    server = serve(token=Token(SECRET.encode()), ask=job.profile)
    status, headers, _ = server.get("/profile", method, **ALLOWED)
    assert (status, headers["allow"], job.asked) == (405, "POST", [])


def test_without_the_token_nobody_asks(serve: Callable) -> None:
    job = Job()
    server = serve(token=Token(SECRET.encode()), ask=job.profile)
    assert server.get("/profile", "POST")[0] == 401
    assert server.get("/profile", "POST", Authorization="Bearer other")[0] == 401
    assert job.asked == []


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_where_no_token_is_set_nobody_asks_and_the_answer_says_what_to_set(
    serve: Callable, method: str
) -> None:
    job = Job()
    server = serve(ask=job.profile)
    status, _, body = server.get("/profile", method, **ALLOWED)
    assert (status, body) == (404, b"set JAXOBS_METRICS_TOKEN_FILE to allow asking for profiler windows\n")
    assert job.asked == []


def test_a_job_that_cannot_now_says_why(serve: Callable) -> None:
    server = serve(token=Token(SECRET.encode()), ask=Job("a window is open already").profile)
    status, _, body = server.get("/profile", "POST", **ALLOWED)
    assert (status, body) == (409, b"a window is open already\n")
