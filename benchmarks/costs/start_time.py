"""Import time, start, and the first page of metrics, in fresh processes: `make benchmark NAME=start_time`.

They have imported jax. *Start* is what follows the import until the tool can be used, such as `jaxobs.instrument()` or
`start_http_server()`; the first page is from the call of `jaxobs.instrument()` until `/metrics` has been read.
"""

from __future__ import annotations

from functools import partial

from benchmarks.costs.peers import TOOLS, missing
from benchmarks.costs.processes import Asked
from benchmarks.costs.sections import Section, middle, ratio, table
from benchmarks.paired import paired_ratio, take_turns

ROUNDS = 7


def measure() -> Section:
    """Every tool that is installed, jaxobs first."""

    def fresh(name: str) -> dict[str, float]:
        with Asked("benchmarks.costs.peers", name.removesuffix(" again")) as process:
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
        table("Import and start", ("tool", "import", "start", "jaxobs / it, both together"), rows),
        table("The first page", ("first page",), [[middle(of("jaxobs", "page"))]], [control]),
    ]
    return Section("Start", tables, missing=missing(TOOLS))
