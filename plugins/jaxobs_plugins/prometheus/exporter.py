"""The exporter `prometheus`: binds its port at start, replaces the page at each snapshot, and closes the port first."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxobs.model.clock import monotonic
from jaxobs.model.metrics_address import wanted_address
from jaxobs.plugin.base import Delivery, Exporter
from jaxobs.plugin.protocol import Agent, Batch, Remark
from jaxobs_plugins.prometheus.address import is_open_to_network, listen
from jaxobs_plugins.prometheus.checking import remarks
from jaxobs_plugins.prometheus.credentials.followed import FollowedCredentials, NotYetReadError
from jaxobs_plugins.prometheus.discovery.announcement import Announcement
from jaxobs_plugins.prometheus.discovery.neighbours import Neighbours
from jaxobs_plugins.prometheus.discovery.target_file import TargetFile
from jaxobs_plugins.prometheus.pages.live import Live
from jaxobs_plugins.prometheus.pages.metrics import MetricsPage
from jaxobs_plugins.prometheus.routes import METRICS_PATH, answer
from jaxobs_plugins.prometheus.server.hosts import AllowedHosts, LocalNames, refusal
from jaxobs_plugins.prometheus.server.server import HttpServer

if TYPE_CHECKING:
    from jaxobs_plugins.prometheus.server.messages import Request, Response


class PrometheusExporter(Exporter):
    """Serves /metrics. Settings: `prometheus` (false: does nothing), `file_sd_directory`, `agent`, `metrics_…`.

    The address follows `OTEL_EXPORTER_PROMETHEUS_HOST` and `OTEL_EXPORTER_PROMETHEUS_PORT`. The rank on this host is
    added to the port; where that port is taken, the next free one is used, except in Kubernetes, where it is an error.
    """

    takes_events = False
    """It shows snapshots alone."""

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._server: HttpServer | None = None
        self._announcement: Announcement | None = None
        self._page = MetricsPage()
        self._live = Live()
        self._credentials: FollowedCredentials | None = None
        self._hosts: AllowedHosts | None = None
        self._said_misdirected = False
        self._window_until = 0.0
        """The end of the last profiler window asked for, if it began at once, in monotonic seconds."""

    def check(self, settings: Mapping[str, Any]) -> Iterable[Remark]:
        return remarks(settings, os.environ)

    def start(self, agent: Agent) -> None:
        """Listen and announce the address, at once or as soon as the files of the settings answer.

        Raises AddressError or CredentialsError with one line that says what to do, and then serves nothing, so that
        nobody is served whom the settings exclude.
        """
        self.takes_batches = bool(agent.settings.get("prometheus", True))
        if not self.takes_batches:
            return
        self._credentials = FollowedCredentials(agent.settings, agent.log)
        self._page = self._make_page(agent, ())
        self._live = self._make_live(agent)
        self._agent = agent  # set before the server starts, for requests that come at once
        try:
            with suppress(NotYetReadError):
                self._serve(agent, self._credentials)
        except BaseException:
            self._agent = None
            raise

    def export(self, batch: Batch) -> None:
        """Show this snapshot from now on. Raises CredentialsError while the files of the settings have not answered."""
        if self._agent is None or self._credentials is None:
            return
        self._page = self._make_page(self._agent, batch.snapshot.families)
        self._live.show(batch.snapshot)
        if self._server is None:
            self._serve(self._agent, self._credentials)
            return
        self._credentials.follow()
        self._server.tls = self._credentials.tls
        if self._announcement is not None:
            self._announcement.publish(self._agent.resource)

    def delivery(self) -> Delivery:
        """Always complete: the exporter shows the newest snapshot and drops nothing itself."""
        return Delivery(dropped=0)

    def job_ended(self) -> None:
        """Stop listening, because the next process on this host may want the port."""
        if self._server is not None:
            self._server.stop_listening()

    def stop(self, timeout: float) -> None:
        """Close the port at once, then the connections, and withdraw the target."""
        deadline = monotonic() + timeout
        server, self._server = self._server, None
        announcement, self._announcement = self._announcement, None
        self._agent = None
        if server is not None:
            server.stop(timeout)
        if announcement is not None:
            announcement.withdraw(deadline - monotonic())

    def _serve(self, agent: Agent, credentials: FollowedCredentials) -> None:
        settings = agent.settings
        credentials.read_first()
        wanted = wanted_address(os.environ, int(settings.get("rank_on_host") or 0))
        listener, address = listen(wanted, may_move=not settings.get("in_kubernetes", False))
        host = agent.resource.get("host.name") or socket.gethostname()
        allowed = (settings.get("metrics_hosts") or "").split(",")
        self._hosts = AllowedHosts(
            LocalNames.of_this_host(),
            [*allowed, wanted.host, host],
            from_network=is_open_to_network(listener),
        )
        self._server = HttpServer(listener, self._answer, agent.log, tls=credentials.tls)
        self._server.start()
        scheme = "http" if credentials.tls is None else "https"
        url = f"{scheme}://{address.netloc()}{METRICS_PATH}"
        agent.announce_address(url)
        if wanted.port not in {0, address.port}:
            agent.log(f"port {wanted.port} is taken: metrics are at {url}")
        directory = settings.get("file_sd_directory")
        if directory is not None:
            target = TargetFile(Path(directory), address.netloc(wildcard_host=host), scheme)
            self._announcement = Announcement(target, agent.log)
            self._announcement.publish(agent.resource)

    def _answer(self, request: Request) -> Response:
        """Answer a request, on the server's thread."""
        assert self._credentials is not None
        assert self._hosts is not None
        token, ask = self._credentials.token, self._ask_for_profile
        response = answer(request, self._page, self._hosts, token, ask, self._live)
        agent = self._agent
        if response.status == HTTPStatus.MISDIRECTED_REQUEST and agent and not self._said_misdirected:
            # Logged once: scrapers do not show the answer, and strangers may keep asking.
            self._said_misdirected = True
            agent.log(f"prometheus: {refusal(request.host)}")
        return response

    def _ask_for_profile(self, seconds: float, keep: bool) -> str | None:
        """Ask the job for a profiler window. Returns None, or why it was not asked."""
        agent = self._agent
        if agent is None:
            return "the job has ended"
        if keep and not agent.settings.get("profile_directory"):
            return "the job was given no directory to keep traces in: set JAXOBS_PROFILE_DIRECTORY before it starts"
        left = self._window_until - monotonic()
        if left > 0:  # otherwise repeated requests would have the job profiled for hours
            return f"the window that was asked for before lasts {left:.1f} s longer: ask again then"
        agent.profile(seconds, keep)
        self._window_until = monotonic() + seconds
        return None

    def _make_page(self, agent: Agent, families: tuple[Any, ...]) -> MetricsPage:
        return MetricsPage(families, dict(agent.resource))

    def _make_live(self, agent: Agent) -> Live:
        directory = agent.settings.get("file_sd_directory")
        ranks = Neighbours(Path(directory), agent.resource).ranks if directory is not None else tuple
        return Live(ranks)
