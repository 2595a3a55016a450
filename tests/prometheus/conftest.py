"""What the tests of the exporter share: an agent, families of each kind, and a running server."""

import http.client
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jaxobs.model.addresses import Address
from jaxobs.model.metrics import Exemplar, Family, HistogramValue, Metric
from jaxobs.model.snapshot import SnapshotData
from jaxobs.testing import FakeAgent
from jaxobs_plugins.prometheus.access import AllowedHosts, Token
from jaxobs_plugins.prometheus.address import listen
from jaxobs_plugins.prometheus.pages import Pages, answer
from jaxobs_plugins.prometheus.server import HttpServer, Limits
from tests.prometheus.dead_mount import DeadMount

RESOURCE = {"service.name": "train", "host.name": "node1", "process.pid": "42", "jaxobs.run": "first",
            "jax.process_index": "3"}  # fmt: skip
LOOPBACK = AllowedHosts(("node1",), from_network=False)
STEP_SECONDS = (1e-4, 0.01, 1.0, 600.0)


@dataclass
class Running:
    server: HttpServer
    port: int
    lines: list[str]
    pages: Pages
    trusted: ssl.SSLContext | None = None
    """What a client trusts, where TLS is spoken."""

    def get(
        self, path: str = "/metrics", method: str = "GET", host: str = "127.0.0.1", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        connection = (
            http.client.HTTPConnection(host, self.port, timeout=60)
            if self.trusted is None
            else http.client.HTTPSConnection(host, self.port, timeout=60, context=self.trusted)
        )
        try:
            connection.request(
                method, path, headers={name.replace("_", "-"): text for name, text in headers.items()}
            )
            response = connection.getresponse()
            return (
                response.status,
                {name.lower(): text for name, text in response.getheaders()},
                response.read(),
            )
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


@pytest.fixture
def make_agent() -> Callable[..., FakeAgent]:
    def make(**settings: Any) -> FakeAgent:
        agent = FakeAgent({"prometheus": True, "rank_on_host": 0, "in_kubernetes": False, **settings})
        agent.resource = dict(RESOURCE)
        return agent

    return make


@pytest.fixture
def dead_mount(tmp_path: Path) -> Iterator[DeadMount]:
    """A directory that can be made not to answer; where this user may not mount, the test is skipped."""
    (tmp_path / "mount").mkdir()
    mount = DeadMount(tmp_path / "mount")
    try:
        mount.die()
    except OSError as error:
        pytest.skip(f"a file system cannot be mounted here: {error}")
    mount.revive()
    yield mount
    mount.revive()


@pytest.fixture
def resource() -> dict[str, str]:
    return dict(RESOURCE)


@pytest.fixture
def families() -> tuple[Family, ...]:
    """One family of each kind, with everything a format can say about it."""
    exemplar = Exemplar("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 0.02, 1_700_000_000.25)
    histogram = HistogramValue((0, 3, 2, 0, 1), 700.5, (None, None, exemplar, None, None))
    return (
        Family(
            Metric("jaxobs_steps_total", "counter", "Steps.", ("loop",)), {("train",): 12.0, ("eval",): 0.0}
        ),
        Family(
            Metric(
                "jaxobs_step_component_seconds_total",
                "counter",
                "Wall time.",
                ("loop", "component"),
                "seconds",
            ),
            {("train", "compute"): 3.5},
        ),
        Family(Metric("jaxobs_goodput_ratio", "gauge", "Productive share.", (), "ratio"), {(): 0.75}),
        Family(
            Metric("jaxobs_build_info", "gauge", "Versions.", ("version", "jax")), {("0.1.0", "0.10.2"): 1.0}
        ),
        Family(
            Metric("jaxobs_step_seconds", "histogram", "Step time.", ("loop",), "seconds", STEP_SECONDS),
            {("train",): histogram},
        ),
    )


def _serving() -> Iterator[Callable[..., Running]]:
    """A function that starts a server of given families on a free port; all are stopped in the end."""
    running: list[Running] = []

    def start(
        families: tuple[Family, ...] = (),
        limits: Limits | None = None,
        token: Token | None = None,
        ask: Callable[[float, bool], str | None] = lambda seconds, keep: None,
        tls: ssl.SSLContext | None = None,
        hosts: AllowedHosts = LOOPBACK,
        **resource: str,
    ) -> Running:
        listener, address = listen(Address("localhost", 0), may_move=True)
        lines: list[str] = []
        pages = Pages(resource)
        if families:
            pages.show(SnapshotData(0, {}, families))
        server = HttpServer(
            listener,
            lambda request: answer(request, pages, hosts, token, ask),
            lines.append,
            limits,
            lambda: tls,
        )
        server.start()
        running.append(Running(server, address.port, lines, pages))
        return running[-1]

    yield start
    for each in running:
        each.server.stop(5)


serve = pytest.fixture(_serving, name="serve")
module_serve = pytest.fixture(_serving, scope="module", name="module_serve")
