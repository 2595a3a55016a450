"""Import time, start, and the first page of metrics, in fresh processes: `make benchmark NAME=start_time`."""

from __future__ import annotations

import importlib
import sys
import time
import urllib.request
from functools import partial

from benchmarks.costs.peers import EVERY, TOOLS, missing
from benchmarks.costs.processes import Asked, answer
from benchmarks.costs.sections import Section, middle, ratio, table
from benchmarks.paired import paired_ratio, take_turns

ROUNDS = 7
PAGE_PATIENCE = 30.0

_TEXT = f"""In fresh processes that have imported jax, {ROUNDS} rounds. *Start* is what follows the import until the tool
can be used, such as `jaxobs.instrument()` or `start_http_server()`."""

_PAGE = """From the call of `jaxobs.instrument()` until the first page of `/metrics` has been read."""


def in_a_fresh_process(name: str) -> dict[str, float]:
    """Seconds of each part. Runs in a process of its own."""
    import jax  # noqa: F401  # every job has it

    peer, began = EVERY[name], time.perf_counter()
    importlib.import_module(peer.module)
    imported = time.perf_counter()
    peer.begin()
    started = time.perf_counter()
    page = _first_page() - imported if name == "jaxobs" else 0.0
    return {"import": imported - began, "start": started - imported, "both": started - began, "page": page}


def _first_page() -> float:
    import jaxobs

    deadline = time.monotonic() + PAGE_PATIENCE
    while (address := jaxobs.instrument().address) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert address is not None
    with urllib.request.urlopen(address, timeout=PAGE_PATIENCE) as page:
        page.read()
    return time.perf_counter()


def measure() -> Section:
    """Every tool that is installed, jaxobs first."""

    def fresh(name: str) -> dict[str, float]:
        with Asked(__name__, name.removesuffix(" again")) as process:
            return dict(process.hear())

    titles = {"jaxobs": "jaxobs", "jaxobs again": "jaxobs again (control)"}
    titles |= {name: peer.title for name, peer in TOOLS.items() if not peer.missing()}
    found = take_turns({name: partial(fresh, name) for name in titles}, ROUNDS)

    def of(name: str, part: str) -> list[float]:
        return [times[part] for times in found[name]]

    rows = [
        [
            title, middle(of(name, "import")), middle(of(name, "start")),
            "—" if name == "jaxobs" else ratio(of("jaxobs", "both"), of(name, "both")),
        ]
        for name, title in titles.items()
    ]  # fmt: skip
    control = paired_ratio(of("jaxobs again", "page"), of("jaxobs", "page"))
    tables = [
        table("Import and start", _TEXT, ("tool", "import", "start", "jaxobs / it, both together"), rows),
        table("The first page", _PAGE, ("first page",), [[middle(of("jaxobs", "page"))]], [control]),
    ]
    return Section("Start", tables, {}, missing(TOOLS))


if __name__ == "__main__":
    answer(in_a_fresh_process(sys.argv[1]))
