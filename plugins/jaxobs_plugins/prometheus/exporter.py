"""The exporter itself: binds at start, swaps the page at each snapshot, closes its port first of all."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxobs_plugins.prometheus.address import Address, listen, wanted_address
from jaxobs_plugins.prometheus.checking import remarks
from jaxobs_plugins.prometheus.credentials import Credentials, CredentialsError
from jaxobs_plugins.prometheus.page import MetricsPage
from jaxobs_plugins.prometheus.routes import METRICS_PATH, answer
from jaxobs_plugins.prometheus.server import HttpServer
from jaxobs_plugins.prometheus.service_discovery import TargetFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jaxobs.model.metrics import Metric
    from jaxobs.plugin.protocol import Agent, Batch, Remark
    from jaxobs_plugins.prometheus.messages import Request, Response

_PAUSE_SECONDS = 0.0005  # long enough that a thread which waits for the interpreter lock gets it


class PrometheusExporter:
    """Serves /metrics. Settings: `prometheus` (false: does nothing), `file_sd_directory`, `agent`, `metrics_…`.

    The address follows `OTEL_EXPORTER_PROMETHEUS_HOST` and `OTEL_EXPORTER_PROMETHEUS_PORT`; the port is
    moved up by the rank on this host, and on to the next free one where it is taken: in Kubernetes an error.
    """

    metrics: tuple[Metric, ...] = ()
    dropped = 0
    """It shows snapshots alone."""

    def __init__(self) -> None:
        self._agent: Agent | None = None
        self._server: HttpServer | None = None
        self._target_file: TargetFile | None = None
        self._page = MetricsPage()
        self._credentials = Credentials({})
        self._window_until = 0.0
        """When the profiler window that was asked for last is over, if it began at once; monotonic seconds."""

    def check(self, settings: Mapping[str, Any]) -> Iterable[Remark]:
        """Where metrics would be served, and what stands in the way."""
        return remarks(settings, os.environ)

    def start(self, agent: Agent) -> None:
        """Listen and announce the address.

        Raises AddressError or CredentialsError with one line that says what to do: it is never served to more people
        than the settings say.
        """
        settings = agent.settings
        if not settings.get("prometheus", True):
            return
        self._credentials = Credentials(settings)
        wanted = wanted_address(os.environ, int(settings.get("rank_on_host") or 0))
        listener, address = listen(wanted, may_move=not settings.get("in_kubernetes", False))
        self._agent = agent
        self._page = self._make_page(agent, ())
        self._server = HttpServer(listener, self._answer, agent.log, tls=self._credentials.tls)
        self._server.start()
        url = f"{self._scheme()}://{address.netloc()}{METRICS_PATH}"
        agent.announce_address(url)
        if wanted.port not in {0, address.port}:
            agent.log(f"port {wanted.port} is taken: metrics are at {url}")
        self._target_file = self._start_target_file(agent, settings, address)

    def export(self, batch: Batch) -> None:
        """Show this snapshot from now on."""
        if self._agent is None:
            return
        self._page = self._make_page(self._agent, batch.snapshot.families)
        self._refresh_credentials(self._agent)
        self._publish(self._agent)

    def job_ended(self) -> None:
        """Nobody is scraped any more: the next process on this host may want the port."""
        if self._server is not None:
            self._server.stop_listening()

    def stop(self, timeout: float) -> None:
        """Close the port at once, then the connections, and withdraw the target."""
        server, self._server = self._server, None
        target_file, self._target_file = self._target_file, None
        agent, self._agent = self._agent, None
        if server is not None:
            server.stop(timeout)
        if target_file is not None and agent is not None:
            try:
                target_file.remove()
            except OSError as error:
                agent.log(f"file_sd: {error}; remove the file yourself")

    def _answer(self, request: Request) -> Response:
        """On the server's thread."""
        return answer(request, self._page, self._credentials.token, self._ask_for_profile)

    def _ask_for_profile(self, seconds: float, keep: bool) -> str | None:
        """Why that cannot be; None where the job was asked."""
        agent = self._agent
        if agent is None:
            return "the job has ended"
        if keep and not agent.settings.get("profile_directory"):
            return "the job was given no directory to keep traces in: set JAXOBS_PROFILE_DIRECTORY before it starts"
        left = self._window_until - time.monotonic()
        if left > 0:  # else whoever asks again and again would have the job profiled for hours
            return f"the window that was asked for before lasts {left:.1f} s longer: ask again then"
        agent.profile(seconds, keep)
        self._window_until = time.monotonic() + seconds
        return None

    def _scheme(self) -> str:
        return "http" if self._credentials.tls is None else "https"

    def _refresh_credentials(self, agent: Agent) -> None:
        """Certificates and tokens are replaced while a job runs, which may be for months."""
        try:
            self._credentials.refresh()
        except CredentialsError as error:
            agent.log(f"{error}; what was read before stays in use, and it is tried again")
        if self._server is not None:
            self._server.tls = self._credentials.tls

    def _make_page(self, agent: Agent, families: tuple[Any, ...]) -> MetricsPage:
        inline = (
            agent.settings.get("agent") == "inline"
        )  # then the training thread needs the same interpreter lock
        return MetricsPage(families, dict(agent.resource), _give_way if inline else None)

    def _start_target_file(
        self, agent: Agent, settings: Mapping[str, Any], address: Address
    ) -> TargetFile | None:
        directory = settings.get("file_sd_directory")
        if directory is None:
            return None
        host = agent.resource.get("host.name") or socket.gethostname()
        self._target_file = TargetFile(Path(directory), address.netloc(wildcard_host=host), self._scheme())
        try:
            self._target_file.remove_stale()
        except OSError as error:
            agent.log(f"file_sd: {error}")
        self._publish(agent)
        return self._target_file

    def _publish(self, agent: Agent) -> None:
        """The metrics are served all the same where the file cannot be written."""
        if self._target_file is None:
            return
        try:
            self._target_file.publish(dict(agent.resource))
        except OSError as error:
            agent.log(f"file_sd: {error}; Prometheus is not told of this process")


def _give_way() -> None:
    time.sleep(_PAUSE_SECONDS)
