"""How long the live page of a large job takes to answer: `make benchmark NAME=live_page`."""

from __future__ import annotations

from functools import partial

from benchmarks.costs.scrape import HOSTS, get, serving
from benchmarks.costs.sections import Cell, Demand, Section, Table, middle
from benchmarks.paired import median, take_turns
from jaxobs.derive.executables.view import LISTED
from jaxobs.model.clock import NANOSECONDS
from jaxobs.model.snapshot import SnapshotData
from jaxobs_plugins.prometheus.pages import PAGE_PATH, SNAPSHOT_PATH, Pages, answer
from tests.sample_document import document, loop, recompilation

TURNS = 4_000
"""Snapshots before, a second apart."""

OPERATIONS = 80
ROUNDS = 41
MAX_SECONDS = 0.05
"""A page that follows the run once a second is then at most a twentieth of a core."""

_TEXT = f"""A whole GET from a client on this machine, of a snapshot that nobody asked for before: one of {LISTED}
executables, as many functions that were compiled again, {OPERATIONS} operations, and {TURNS} snapshots before it.
*Again* is the same snapshot once more: its page is kept as it was drawn. {ROUNDS} rounds."""


class LargeJob:
    """What is served of a job of whose executables no more would be listed."""

    def __init__(self) -> None:
        compiled = {"compilations": 2, "recompilation_count": 1, "seconds": {"backend": 0.1}}
        functions = {
            f"f{number}": {**compiled, "recompilations": [recompilation()]} for number in range(LISTED)
        }
        self._document = document(LISTED, OPERATIONS, functions=functions)
        self._seconds = 0
        self.pages = Pages()
        for _ in range(TURNS):
            self.go_on()

    def go_on(self) -> None:
        """The snapshot of the next second."""
        self._seconds += 1
        passed = float(self._seconds)
        loops = {"train": loop(100 * self._seconds, compute=0.6 * passed, input=0.4 * passed)}
        self.pages.show(SnapshotData(self._seconds * NANOSECONDS, self._document | {"loops": loops}))


def measure() -> Section:
    """The page and the snapshot, plain and compressed."""
    job = LargeJob()
    with serving(lambda request: answer(request, job.pages, HOSTS)) as port:

        def ask(path: str, encoding: str) -> tuple[float, float, float]:
            job.go_on()
            took, size = get(port, encoding, path)
            return took, size, get(port, encoding, path)[0]

        asked = [(path, encoding) for path in (PAGE_PATH, SNAPSHOT_PATH) for encoding in ("identity", "gzip")]
        found = take_turns({each: partial(ask, *each) for each in asked}, ROUNDS)
    rows: list[list[Cell]] = []
    slowest = 0.0
    for (path, encoding), each in found.items():
        anew, sizes, again = zip(*each, strict=True)
        how = f"`{path}`, {'plain' if encoding == 'identity' else encoding}"
        rows.append([how, middle(anew), middle(sizes, "B"), middle(again)])
        slowest = max(slowest, median(anew).middle if path == PAGE_PATH else 0.0)
    demand = Demand(f"the page answers within {1e3 * MAX_SECONDS:.0f} ms", slowest <= MAX_SECONDS)
    table = Table("", _TEXT, ("what", "answered in", "body", "again"), rows)
    return Section("The live page", [table], [demand])
