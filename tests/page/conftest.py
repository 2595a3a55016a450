"""A browser, and a real training that it looks at."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PEAKS = {"JAXOBS_PEAK_FLOPS": '{"float32": 2.5e11}', "JAXOBS_PEAK_BYTES_PER_SECOND": "1.8e10"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-screenshots", action="store_true", help="write docs/images/page-*.png anew")


@dataclass
class Training:
    process: subprocess.Popen[str]
    address: str
    """Of its page."""
    shape_file: Path


@pytest.fixture(scope="session")
def node() -> Callable[..., dict[str, Any]]:
    """What a script of `tests/page/node` finds with a browser, which is told in its request."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None or "JAXOBS_PAGE_BROWSER" not in os.environ:
        pytest.fail("run `make prove-page`, with Chromium (apt install chromium) and Node 20 or newer")

    def run(script: str, **wanted: Any) -> dict[str, Any]:
        request = json.dumps({"browser": browser, **wanted})
        ran = subprocess.run(
            ["node", HERE / "node" / script, request],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    return run


@pytest.fixture(scope="session")
def look(node: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """What a browser finds at an address; the parts of `tests/page/node/look.mjs` that are asked for."""
    return lambda url, **wanted: node("look.mjs", url=url, **wanted)


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Training]]:
    """Starts a training with settings of its own; all end with the tests."""
    begun: list[subprocess.Popen[str]] = []

    def one(*arguments: str, **settings: str) -> Training:
        folder = tmp_path_factory.mktemp("job")
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        environment = (
            {name: text for name, text in os.environ.items() if not name.startswith("JAXOBS_")}
            | PEAKS
            | {"OTEL_EXPORTER_PROMETHEUS_PORT": port, "JAX_PLATFORMS": "cpu"}
            | settings
        )
        process = subprocess.Popen(
            [sys.executable, HERE / "job.py", folder / "rows", "600", *arguments],
            env=environment, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        begun.append(process)
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http"), f"the job said {address!r}"
        return Training(process, address.removesuffix("metrics"), folder / "rows")

    yield one
    for process in begun:
        process.kill()
        process.communicate(timeout=30)


@pytest.fixture(scope="session")
def training(start: Callable[..., Training]) -> Training:
    """Records a value whose name is hostile."""
    started = start("<img src=x onerror=alert(1)>")
    time.sleep(6)  # the first compile, and seconds to draw
    return started
