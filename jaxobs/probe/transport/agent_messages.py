"""What the agent says: where it serves, lines for the log, a profiler window asked for, answers, its last snapshot."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from jaxobs.flow import wire
from jaxobs.model.clock import now
from jaxobs.model.snapshot import Snapshot
from jaxobs.probe.log import inform, warn
from jaxobs.probe.transport.answers import Answers


class AgentMessages:
    """`heard` runs on the sender's thread; `begin_profile` is called with (seconds, keep) on a thread of its own."""

    def __init__(self, begin_profile: Callable[[float, bool], Any]) -> None:
        self.answers = Answers()
        self.final_snapshot: Snapshot | None = None
        self.address: str | None = None
        """The URL of `/metrics`."""
        self.address_known = threading.Event()
        """Set once there is an address, or none will come."""
        self._summary_file: str | None = None
        self._begin_profile = begin_profile
        self._tell: Callable[[str, str | None], None] = lambda address, summary_file: None

    def tell_address(self, tell: Callable[[str, str | None], None]) -> None:
        """Give `tell` the address and the summary's file, now or when they are known."""
        self._tell = tell
        if self.address is not None:
            tell(self.address, self._summary_file)

    def heard(self, kind: bytes, body: Any) -> None:
        """One frame of the agent's."""
        if kind == wire.ADDRESS and body is None:
            self.address = None
            self.address_known.set()
            self.answers.none_will_come()
        elif kind == wire.ADDRESS:
            self._served_at(*body)
        elif kind == wire.LOG:
            warn(body)
        elif kind == wire.PROFILE:
            # On a thread: what a plugin does with it must not keep the agent waiting.
            threading.Thread(
                target=self._begin_profile, args=body, name="jaxobs-profile", daemon=True
            ).start()
        elif kind == wire.REPLY:
            self.answers.arrived(*body)
        elif kind == wire.LAST:
            document, undelivered = body
            self.final_snapshot = Snapshot(now(), document).served_no_more()
            for exporter, what in undelivered.items():
                warn(f"exporter {exporter}: {what}")

    def _served_at(self, address: str | None, summary_file: str | None) -> None:
        """`address` is None where nothing is served, or not yet."""
        lines = [] if address is None else [f"metrics at {address}"]
        if summary_file and summary_file != self._summary_file:
            lines.append(f"if the job is killed its last summary is in {summary_file}")
        self.address, self._summary_file = address or self.address, summary_file
        if lines:
            inform("; ".join(lines))
        if address is not None:
            self._tell(address, summary_file)
            self.address_known.set()
