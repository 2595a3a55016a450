"""`make readme`: a person who has only the README pastes each command and snippet, and has numbers and a picture in time.

The environment is clean: a new virtual environment, a home without files, and of the variables only those by which pip
reaches the index. The one thing that is not the reader's: `pip install jaxobs` is told to take the wheel just built.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"
FENCE = re.compile(r"(?:^`([\w.]+)`:\n\n)?^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MOST_SECONDS = 300.0
"""The README promises the first numbers and the first picture in five minutes."""
PORT = 9464
KEPT = re.compile(r"(?i)PIP_.*|\w+_proxy|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|LANG|TERM")


class Page(threading.Thread):
    """Looks at the live page meanwhile, as a reader would, until it shows a drawing."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.url = f"http://localhost:{port}/"
        self.seen_after: float | None = None
        self._began = time.monotonic()

    def run(self) -> None:
        while self.seen_after is None:
            time.sleep(1.0)
            try:
                with urllib.request.urlopen(self.url, timeout=5) as answer:
                    if b"<svg" in answer.read():
                        self.seen_after = time.monotonic() - self._began
            except OSError:
                continue  # nothing is served yet


def free_port() -> int:
    """The README's, or where another process has it any other."""
    for port in (PORT, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as server:
                return int(server.getsockname()[1])
        except OSError:
            continue
    raise SystemExit("jaxobs: no port is free")


def clean_environment(folder: Path, wheel: Path, port: int) -> dict[str, str]:
    """What a new shell has, after `source clean/bin/activate`."""
    subprocess.run([sys.executable, "-m", "venv", folder / "clean"], check=True)
    (folder / "constraint.txt").write_text(f"jaxobs @ {wheel.resolve().as_uri()}\n", encoding="utf-8")
    kept = {name: text for name, text in os.environ.items() if KEPT.fullmatch(name)}
    return kept | {
        "HOME": str(folder),
        "PATH": f"{folder / 'clean' / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "PIP_CONSTRAINT": str(folder / "constraint.txt"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_QUIET": "1",
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
    }


def commands(folder: Path) -> Iterator[str]:
    """The lines to paste. The Python snippets are there before: a reader has a script of that name already."""
    fences = FENCE.findall(README.read_text(encoding="utf-8"))
    for name, language, text in fences:
        if language == "python":
            (folder / name).write_text(text, encoding="utf-8")
    for _, language, text in fences:
        if language == "sh":
            yield from text.splitlines()


def main() -> int:
    """The exit status; each command is printed with what it took."""
    (wheel,) = Path(sys.argv[1]).glob("*.whl")
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        environment = clean_environment(folder, wheel, port)
        page, began = Page(port), time.monotonic()
        page.start()
        for command in commands(folder):
            started = time.monotonic()
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            print(f"{time.monotonic() - started:6.1f} s  $ {command}")
            if done.returncode:
                print(
                    f"{done.stdout}\n{done.stderr}\njaxobs: `{command}` of the README failed", file=sys.stderr
                )
                return 1
            if "steps/s" not in done.stdout and not command.startswith("pip "):
                print(f"{done.stdout}\njaxobs: `{command}` of the README showed no steps", file=sys.stderr)
                return 1
        took = time.monotonic() - began
    if page.seen_after is None:
        print(f"jaxobs: no drawing was seen at {page.url}", file=sys.stderr)
        return 1
    print(f"{took:6.1f} s  in all; the first drawing at {page.url} after {page.seen_after:.0f} s")
    if took > MOST_SECONDS:
        print(f"jaxobs: that is more than {MOST_SECONDS:.0f} s", file=sys.stderr)
    return int(took > MOST_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
