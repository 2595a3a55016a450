"""The exporter `prometheus`: binds its port at start, replaces the page at each snapshot, and closes the port first."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jaxobs.model.addresses import PORT_VARIABLE, AddressError, job_has_port, wanted_address
from jaxobs.model.clock import monotonic
from jaxobs.plugin.base import Delivery, Exporter
from jaxobs.plugin.files import why_not_writable
from jaxobs.plugin.protocol import Agent, Batch, Remark
from jaxobs.report.ranks import Observed, row_of
from jaxobs.report.runs import NO_FOLDER
from jaxobs_plugins.prometheus.access import AllowedHosts, Credentials, CredentialsError, local_names, refusal
from jaxobs_plugins.prometheus.address import (
    Neighbours,
    TargetFile,
    is_open_to_network,
    listen,
    meeting_place,
)
from jaxobs_plugins.prometheus.file_work import FileWork
from jaxobs_plugins.prometheus.pages import METRICS_PATH, Pages, answer
from jaxobs_plugins.prometheus.server import HttpServer, Request, Response


class PrometheusExporter(Exporter):
    """Serves /metrics. Settings: `prometheus` (false: does nothing), `file_sd_directory`, `metrics_…`.

    The address is that of `wanted_address`. Where its port is taken, the next free one is used, except in Kubernetes,
    where it is an error.
    """

    takes_events = False
    """It shows snapshots alone."""
    _agent: Agent
    _pages: Pages

    def __init__(self) -> None:
        self._server: HttpServer | None = None
        self._announced: list[TargetFile] = []
        """For Prometheus where the settings name a directory, and for the pages of this host's other ranks."""
        self._reading: FileWork | None = None
        self._said_misdirected = False
        self._window_until = 0.0
        """The end of the last profiler window asked for, if it began at once, in monotonic seconds."""

    def check(self, settings: Mapping[str, Any]) -> Iterable[Remark]:
        """Remarks from reading the files of the settings and listening at the address for a moment."""
        if not settings.get("prometheus", True):
            yield Remark("switched off by the setting prometheus")
            return
        try:
            Credentials(settings).read()
            yield _address_remark(settings)
        except (CredentialsError, AddressError) as error:
            yield Remark(str(error), problem=True)
        directory = _directory(settings)
        if directory is not None and (reason := _why_no_file(directory)):
            cure = "set JAXOBS_FILE_SD_DIRECTORY to a writable directory"
            yield Remark(f"no file_sd file can be written in {directory}: {reason}; {cure}", problem=True)

    def start(self, agent: Agent) -> None:
        """Read the files of the settings, listen and announce the address.

        Raises AddressError or CredentialsError with one line that says what to do, and then serves nothing, so that
        nobody is served whom the settings exclude. Where a file does not answer it waits, and nothing is served either.
        """
        self.takes_batches = bool(agent.settings.get("prometheus", True))
        if not self.takes_batches:
            return
        credentials = Credentials(agent.settings)
        credentials.read()
        places = [each for each in (_directory(agent.settings), meeting_place()) if each is not None]
        self._pages = Pages(agent.resource, Neighbours(places, agent.resource).ranks)
        self._agent = agent  # set before the server starts, for requests that come at once
        self._server = self._serve(agent, credentials)
        if credentials.named:
            meanwhile = "what was read before stays in use, and it is tried again"
            self._reading = FileWork(
                credentials.read, credentials.named, lambda problem: agent.log(f"{problem}; {meanwhile}")
            )

    def export(self, batch: Batch) -> None:
        """Show this snapshot from now on."""
        self._pages.show(batch.snapshot, self._agent.resource)
        if self._reading is not None:
            self._reading.soon()
        document = batch.snapshot.document
        several = ((document.get("process") or {}).get("process_count") or 1) > 1
        row = row_of(Observed("", document)) if several else None
        for file in self._announced:
            file.publish(self._agent.resource, row)

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
        if self._server is not None:
            self._server.stop(timeout)
        for file in self._announced:
            file.withdraw(deadline - monotonic())

    def _serve(self, agent: Agent, credentials: Credentials) -> HttpServer:
        settings = agent.settings
        wanted = wanted_address(settings, os.environ)
        listener, address = listen(wanted, may_move=not settings.get("in_kubernetes", False))
        host = agent.resource.get("host.name") or socket.gethostname()
        allowed = (settings.get("metrics_hosts") or "").split(",")
        from_network = is_open_to_network(listener)
        hosts = AllowedHosts(
            [*local_names(from_network=from_network), *allowed, wanted.host, host], from_network=from_network
        )

        def answered(request: Request) -> Response:  # on the server's thread
            response = answer(request, self._pages, hosts, credentials.token, self._ask_for_profile)
            if response.status == HTTPStatus.MISDIRECTED_REQUEST and not self._said_misdirected:
                # Logged once: scrapers do not show the answer, and strangers may keep asking.
                self._said_misdirected = True
                agent.log(f"prometheus: {refusal(request.host)}")
            return response

        server = HttpServer(listener, answered, agent.log, tls=lambda: credentials.tls)
        server.start()
        scheme = "http" if credentials.tls is None else "https"
        url = f"{scheme}://{address.netloc()}{METRICS_PATH}"
        agent.announce_address(url)
        if wanted.port not in {0, address.port}:
            agent.log(f"port {wanted.port} is taken: metrics are at {url}")
        elif job_has_port(settings, os.environ):
            agent.log(f"the job serves Prometheus itself: metrics of jaxobs are at {url}")
        place = address.netloc(wildcard_host=host)
        if given := _directory(settings):
            self._announced.append(TargetFile(given, place, scheme, agent.log))
        if own := meeting_place():
            # Without it ranks do not link each other, of which nobody needs to be told.
            self._announced.append(TargetFile(own, place, scheme, lambda _: None, private=True))
        for file in self._announced:
            file.publish(agent.resource)
        return server

    def _ask_for_profile(self, seconds: float, keep: bool) -> str | None:
        """Ask the job for a profiler window. Returns None, or why it was not asked."""
        if keep and not self._agent.settings.get("run_folder"):
            return f"{NO_FOLDER}: set JAXOBS_RUN_DIRECTORY before it starts"
        left = self._window_until - monotonic()
        if left > 0:  # otherwise repeated requests would have the job profiled for hours
            return f"the window that was asked for before lasts {left:.1f} s longer: ask again then"
        self._agent.profile(seconds, keep)
        self._window_until = monotonic() + seconds
        return None


def _directory(settings: Mapping[str, Any]) -> Path | None:
    """The directory for Prometheus's `file_sd` that the settings name."""
    given = settings.get("file_sd_directory")
    return None if given is None else Path(given)


def _address_remark(settings: Mapping[str, Any]) -> Remark:
    """Where the metrics would be served. Raises AddressError."""
    wanted = wanted_address(settings, os.environ)
    listener, address = listen(wanted, may_move=not settings.get("in_kubernetes", False))
    listener.close()
    scheme = "https" if settings.get("metrics_tls_certificate") else "http"
    would = f"metrics would be at {scheme}://{address.netloc()}{METRICS_PATH}"
    if not wanted.port:
        return Remark(f"metrics would be at any free port of {address.host}")
    if address.port == wanted.port:
        return Remark(would)
    cure = f"free that port, or set {PORT_VARIABLE} to a free one"
    return Remark(f"port {wanted.port} is taken: {would}; {cure}", problem=True)


def _why_no_file(directory: Path) -> str | None:
    """Why no file can be written in `directory`, which is made if only its parent exists; None if one can."""
    there = os.path.exists(directory.parent)  # noqa: PTH110  # which raises nothing
    return why_not_writable(directory) if there else f"there is no directory {directory.parent}"
