"""The live page, rendered when first requested and kept until the next snapshot, and the snapshot as JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

from jaxobs.model.clock import NANOSECONDS, wall_now
from jaxobs.model.snapshot import Snapshot, absent_snapshot
from jaxobs.report.page import History, Rank, View, page, policy
from jaxobs_plugins.prometheus.server.messages import Request, Response

PAGE_PATH: Final = "/"
SNAPSHOT_PATH: Final = "/snapshot"
SNAPSHOT_VERSION: Final = 1
"""Version of the JSON format. A change that would mislead existing readers raises it; new keys do not."""

_KEPT: Final = 8
"""Most rendered pages of one snapshot that are kept, one for each loop that somebody looks at."""

_SAFE: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers that keep other web pages from showing, reading or timing what is served, and
links from sending a referrer."""


class Live:
    """The live page and its snapshot. `show` may be called on another thread than the rest, which is the server's."""

    def __init__(self, ranks: Callable[[], tuple[Rank, ...]] = tuple) -> None:
        """`ranks`: the processes beside this one, as far as they are known now."""
        self._snapshot = absent_snapshot("the first snapshot is on its way")
        self._taken = wall_now()
        self._history, self._noting = History(), threading.Lock()
        self._ranks = ranks
        self._drawn: tuple[Snapshot, dict[str | None, bytes]] = (self._snapshot, {})

    def show(self, snapshot: Snapshot) -> None:
        at = snapshot.time / NANOSECONDS
        if self._history.is_due(at):
            with self._noting:
                self._history.add(at, snapshot.outline)  # the whole document is made only on request
        self._taken = wall_now()
        self._snapshot = snapshot

    def page(self, request: Request) -> Response:
        """The HTML document; `?loop=…` chooses which loop is shown in full."""
        loop = parse_qs(request.query).get("loop", [None])[-1]
        headers = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy(), **_SAFE}
        return Response(HTTPStatus.OK, self._body(loop), headers)

    def snapshot(self) -> Response:
        """The snapshot as JSON: docs/reference/snapshot.md says what is in it."""
        body = {
            "version": SNAPSHOT_VERSION,
            "unix_seconds": self._taken / NANOSECONDS,
            "ranks": [{"name": rank.name, "address": rank.address} for rank in self._ranks()],
            "snapshot": self._snapshot.document,
        }
        text = json.dumps(body, allow_nan=False, separators=(",", ":")) + "\n"
        return Response(HTTPStatus.OK, text.encode(), {"Content-Type": "application/json", **_SAFE})

    def _body(self, loop: str | None) -> bytes:
        snapshot = self._snapshot
        if self._drawn[0] is not snapshot:
            self._drawn = (snapshot, {})
        drawn = self._drawn[1]
        chosen = View(snapshot.document, wanted_loop=loop).loop  # a real loop, whatever is requested
        if chosen not in drawn:
            if len(drawn) >= _KEPT:
                drawn.clear()
            with self._noting:
                trend = self._history.trend()
            view = View(snapshot.document, trend, self._ranks(), chosen)
            drawn[chosen] = page(view).encode()
        return drawn[chosen]
