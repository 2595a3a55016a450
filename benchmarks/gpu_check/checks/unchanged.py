"""`jaxobs run` on a training script as it is: the script does the same, its loop is found, and it ends as soon."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.gpu_check.checks.labels import LOOPS
from benchmarks.gpu_check.place import Place, told_of
from benchmarks.observed import How
from benchmarks.truths import Figure, label

SECONDS = 15.0
SECONDS_OF_A_CPU = 8.0
EXIT_SECONDS = 1.0
"""What jaxobs may add to a job's exit, by its first promise; more on a processor that others share."""


def unchanged(place: Place) -> Iterator[Figure]:
    """Run the script with and without, and compare what it said of itself with what jaxobs said of it."""
    seconds = SECONDS if place.on_gpu else SECONDS_OF_A_CPU
    ways: tuple[How, How] = ("plain", "observed")
    plain, observed = (
        place.run(how, LOOPS, "unobserved", "compute", str(seconds), "10", how=how, timeout=100.0) for how in ways
    )  # fmt: skip
    place.keep_json("snapshot.json", observed.last)
    yield Figure("exit status without jaxobs", plain.status, 0, note=plain.stderr[-300:])
    yield Figure("exit status", observed.status, 0)
    if not plain.truth or not observed.truth:
        return
    exits = [run.ended - run.truth["told"] for run in (plain, observed)]
    most = exits[0] + (EXIT_SECONDS if place.on_gpu else 3 * EXIT_SECONDS)
    yield Figure("exit", exits[1], between=(0.0, most), unit="s", note=f"without {exits[0]:.2f} s")
    own, without = observed.truth["step_seconds"], plain.truth["step_seconds"]
    # Two processes: XLA may choose other algorithms for the products in each.
    ratio, near = own / without, 0.05 if place.on_gpu else 0.5
    yield Figure("step time over that without jaxobs", ratio, 1.0, relative=near)
    reason = {"step_seconds_reason": "jaxobs found no loop"}
    near = 0.03 if place.on_gpu else 0.3
    yield told_of("step time", observed.loop or reason, "step_seconds", own, relative=near, unit="s")
    yield label()(observed)
