"""Import time, start, and the first page of metrics, in fresh processes: `make benchmark NAME=start_time`."""

from __future__ import annotations

import importlib
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks.paired import median, paired_ratio
from benchmarks.report.peers import EVERY, JAXOBS, TOOLS
from benchmarks.report.results import Cell, Measured, Section, Table
from benchmarks.report.turns import Asked, answer, take_turns

ROUNDS = 7
PAGE_PATIENCE = 30.0

_TEXT = f"""In fresh processes in which jax is imported already, one at a time, {ROUNDS} rounds. *Import* is the
import of the module; *start* is what follows until the tool can be used: `jaxobs.instrument()`, a tracer provider
with a batch processor and an OTLP exporter, `start_http_server()` with a histogram, a `SummaryWriter`, a run that is
kept on this machine."""

_PAGE = """From the call of `jaxobs.instrument()` until the first page of `/metrics` has been read whole: the agent's
process starts, loads its plugins and folds its first snapshot beside the job, which goes on meanwhile."""


def in_a_fresh_process(name: str) -> dict[str, float]:
    """Seconds of each part. Runs in a process of its own."""
    import jax  # noqa: F401  # every job has it

    peer, found = EVERY[name], {}
    began = time.perf_counter()
    importlib.import_module(peer.module)
    imported = time.perf_counter()
    peer.begin()
    started = time.perf_counter()
    found = {"import": imported - began, "start": started - imported, "both": started - began}
    if peer is JAXOBS:
        found["page"] = _first_page() - imported
    return found


def _first_page() -> float:
    import jaxobs

    deadline = time.monotonic() + PAGE_PATIENCE
    while (address := jaxobs.instrument().address) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert address is not None
    with urllib.request.urlopen(address, timeout=PAGE_PATIENCE) as page:
        page.read()
    return time.perf_counter()


def rows(found: Mapping[str, Sequence[Mapping[str, float]]]) -> list[list[Cell]]:
    """One tool a row, jaxobs first."""

    def of(name: str, part: str) -> list[float]:
        return [times[part] for times in found[name]]

    def one(title: str, name: str) -> list[Cell]:
        figures: list[Cell] = [Measured(median(of(name, part)), "s") for part in ("import", "start")]
        ratio = "—" if name == "jaxobs" else Measured(paired_ratio(of("jaxobs", "both"), of(name, "both")))
        return [title, *figures, ratio]

    names = {"jaxobs": "jaxobs", "jaxobs again": "jaxobs again (control)"}
    names |= {name: TOOLS[name].title for name in found if name in TOOLS}
    return [one(title, name) for name, title in names.items()]


def measure() -> Section:
    """Every tool that is installed."""

    def fresh(name: str) -> Mapping[str, float]:
        with Asked(__name__, name.removesuffix(" again")) as process:
            heard: Mapping[str, float] = process.hear()
            return heard

    names = ["jaxobs", "jaxobs again", *(name for name, peer in TOOLS.items() if not peer.missing())]
    found = take_turns({name: partial(fresh, name) for name in names}, ROUNDS)
    pages = {name: [times["page"] for times in found[name]] for name in names[:2]}
    page: list[Cell] = [
        Measured(median(pages["jaxobs"]), "s"),
        Measured(paired_ratio(*reversed(pages.values()))),
    ]
    tables = [
        Table(
            "Import and start", _TEXT, ("tool", "import", "start", "jaxobs / it, both together"), rows(found)
        ),
        Table("The first page", _PAGE, ("first page", "control: jaxobs / jaxobs"), [page]),
    ]
    return Section("Start", tables, (), [reason for peer in TOOLS.values() if (reason := peer.missing())])


if __name__ == "__main__":
    answer(in_a_fresh_process(sys.argv[1]))
