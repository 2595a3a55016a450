"""What the agent sends unasked: its address, log lines, requests for profiler windows and stacks, the last snapshot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxobs.flow import wire
from jaxobs.model.clock import now
from jaxobs.plugin.log import inform, warn
from jaxobs.plugin.threads import Flag, Thread
from jaxobs.report.snapshot import Snapshot


class AgentMessages:
    """What the agent has sent. `heard` runs on the sender's thread."""

    def __init__(self) -> None:
        self.final_snapshot: Snapshot | None = None
        self.address: str | None = None
        """The URL of `/metrics`."""
        self.address_known = Flag()
        """Set once there is an address, or none will come."""
        self.summary_file: str | None = None
        self.begin_profile: Callable[[float, bool], Any] = lambda seconds, keep: None
        """Called with seconds and `keep` of a profiler window that is asked for, on a thread of its own."""
        self.take_stacks: Callable[[int], None] = lambda thread: None
        """Called with the thread whose stack is asked for, on the sender's thread."""
        self._tell: Callable[[str, str | None], None] = lambda address, summary_file: None

    def tell_address(self, tell: Callable[[str, str | None], None]) -> None:
        """Call `tell` with the address and the summary's file, now or as soon as they are known."""
        self._tell = tell
        if self.address is not None:
            tell(self.address, self.summary_file)

    def heard(self, kind: bytes, body: Any) -> None:
        """Handle one frame from the agent. (ADDRESS, None) means that no agent will answer any more."""
        if kind == wire.ADDRESS and body is None:
            self.address = None
            self.address_known.set()
        elif kind == wire.ADDRESS:
            self._served_at(*body)
        elif kind == wire.LOG:
            warn(body)
        elif kind == wire.PROFILE:
            try:
                # On a thread, so that a slow plugin does not hold up the sender.
                Thread("profile", self.begin_profile, *body, awaited=False)
            except RuntimeError as error:
                warn(f"the profiler window that was asked for cannot be opened: {error}")
        elif kind == wire.STACKS:
            self.take_stacks(body)
        elif kind == wire.LAST:
            document, undelivered = body
            self.final_snapshot = Snapshot(now(), document).served_no_more()
            for exporter, what in undelivered.items():
                warn(f"exporter {exporter}: {what}")

    def _served_at(self, address: str | None, summary_file: str | None) -> None:
        """Log and pass on the agent's address. `address` is None if nothing is served, or not yet."""
        lines = [] if address is None else [f"live page {address.removesuffix('metrics')}, metrics {address}"]
        if summary_file and summary_file != self.summary_file:
            lines.append(f"if the job is killed its last summary is in {summary_file}")
        self.address, self.summary_file = address or self.address, summary_file
        if lines:
            inform("; ".join(lines))
        if address is not None:
            self._tell(address, summary_file)
            self.address_known.set()
