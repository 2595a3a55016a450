import os
import socket
import subprocess
import sys
import urllib.request

PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
from jaxobs.model.addresses import Address
from jaxobs_plugins.prometheus.address import listen
from jaxobs_plugins.prometheus.access import AllowedHosts
from jaxobs_plugins.prometheus.pages import Pages, answer
from jaxobs_plugins.prometheus.server import HttpServer
listener, address = listen(Address("localhost", 0), may_move=True)
pages, hosts = Pages({}), AllowedHosts((), from_network=False)
server = HttpServer(listener, lambda request: answer(request, pages, hosts), lambda line: print(line, flush=True))
server.start()
print(address.port, flush=True)
sys.stdin.read()
server.stop(5)
"""


def test_without_file_descriptors_left_idle_clients_make_room_for_a_scrape() -> None:
    server = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert server.stdin is not None
    assert server.stdout is not None
    port = int(server.stdout.readline())
    idle = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(50)]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/healthy", timeout=10) as response:
        assert response.status == 200
    for client in idle:
        client.close()
    assert server.communicate("")[0] == ""
    assert server.returncode == 0
