"""Import time, start, and the first page of metrics, in fresh processes: `make benchmark NAME=start_time`.

They have imported jax. *Start* is what follows the import until the tool can be used, such as `jaxobs.instrument()` or
`start_http_server()`; the first page is from the call of `jaxobs.instrument()` until `/metrics` has been read.
"""

from __future__ import annotations

from functools import partial

from benchmarks.costs.peers import TOOLS, here
from benchmarks.costs.processes import Asked
from benchmarks.paired import median, paired_ratio, take_turns
from benchmarks.truths import Rows, interval

ROUNDS = 7


def measure() -> Rows:
    """Every tool that is installed, jaxobs first."""

    def fresh(name: str) -> dict[str, float]:
        with Asked("benchmarks.costs.peers", name.removesuffix(" again")) as process:
            return dict(process.hear())

    titles = {"jaxobs": "jaxobs", "jaxobs again": "jaxobs again (control)"}
    titles |= {name: peer.title for name, peer in here(TOOLS).items()}
    found = take_turns({name: partial(fresh, name) for name in titles}, ROUNDS)

    def of(name: str, part: str) -> list[float]:
        return [times[part] for times in found[name]]

    for name, title in titles.items():
        yield (
            title,
            [
                interval("import", median(of(name, "import")), "s"),
                interval("start", median(of(name, "start")), "s"),
                interval("jaxobs / it, both together", paired_ratio(of("jaxobs", "both"), of(name, "both"))),
            ],
        )
    control = paired_ratio(of("jaxobs again", "page"), of("jaxobs", "page"))
    page = median(of("jaxobs", "page"))
    yield "jaxobs", [interval("the first page", page, "s"), interval("the first page, control", control)]
