"""A real Prometheus with a configuration of a test's, and what is asked of it."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.beside import free_port

EXEMPLARS = "--enable-feature=exemplar-storage"


class PromQlServer:
    """A server with Prometheus's API, which runs until `close`."""

    def __init__(self, folder: Path, port: int, *command: str | Path) -> None:
        self.address = f"http://127.0.0.1:{port}"
        self.folder = folder
        with (folder / "server.log").open("w") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self.pid = self._process.pid

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API. Raises OSError while it does not listen yet."""
        url = f"{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                said = error.read().decode()
            if error.code == 503:
                raise ConnectionError(f"it is not ready yet: {said}") from None
            raise AssertionError(f"{parameters.get('query')}: {said}") from None

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of the answer."""
        found: list[dict[str, Any]] = self.get("query", query=expression)["result"]
        return found

    def value(self, expression: str) -> float | None:
        """The value of the one series; None where there is none."""
        found = self.query(expression)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None

    def names(self) -> set[str]:
        """Of all series."""
        return set(self.get("label/__name__/values"))

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)


class PrometheusServer(PromQlServer):
    """A real one. `configuration` is YAML, or JSON, which is YAML too."""

    def __init__(self, binary: Path, folder: Path, configuration: str, *flags: str) -> None:
        port = free_port()
        folder.mkdir(exist_ok=True)
        (folder / "prometheus.yml").write_text(configuration)
        super().__init__(
            folder, port, binary, f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}", *flags,
        )  # fmt: skip
