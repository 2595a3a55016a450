"""What each program is run with, and what of it is compared with its truth. Pure, but for the list of programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from benchmarks.observed.runs import How, Run

PROGRAMS = Path(__file__).with_name("programs")

Document = Mapping[str, Any]
Truth = Mapping[str, Any]


class Figure(NamedTuple):
    """One figure: the truth, what is shown, and whether that is right."""

    name: str
    truth: str
    shown: str
    verdict: Literal["right", "absent", "WRONG"]


class Case(NamedTuple):
    """A program of this folder. `observed` ones are unchanged; `plain` ones call jaxobs themselves."""

    name: str
    program: str
    how: How
    figures: Callable[[Run, Truth], Iterator[Figure]]
    arguments: tuple[str, ...] = ()
    terminate_after: float | None = None


def number(name: str, truth: float, shown: float | None, tolerance: float) -> Figure:
    """A number is right within a share of the truth."""
    if shown is None:
        return Figure(name, f"{truth:.4g}", "–", "absent")
    off = shown / truth - 1
    return Figure(
        name, f"{truth:.4g}", f"{shown:.4g} ({off:+.1%})", "right" if abs(off) <= tolerance else "WRONG"
    )


def holds(name: str, truth: str, shown: str, right: bool | None) -> Figure:
    """What is no number; None: nothing was said."""
    return Figure(name, truth, shown, "absent" if right is None else "right" if right else "WRONG")


def loop_of(run: Run) -> Document | None:
    """The loop that took longest, with its rates: from the last snapshot that has some."""
    for document in reversed(run.documents[0] if run.documents else []):
        loops: Sequence[Document] = list((document["loops"] or {}).values())
        rated = [loop for loop in loops if loop["steps_per_second"] is not None]
        if rated:
            return max(rated, key=lambda loop: loop["wall_seconds"])
    return None


def executable_of(run: Run) -> Document | None:
    """The one with the most matrix FLOPs."""
    made = (run.last or {}).get("executables") or []
    known = [one for one in made if one["cost"]]
    return max(known, key=lambda one: one["cost"]["matrix_flops"], default=None)


def peak_of(run: Run) -> float | None:
    """Matrix FLOP/s of float32, as jaxobs has it."""
    for device in (run.last or {}).get("devices") or []:
        peak = ((device["peaks"] or {}).get("matrix") or {}).get("float32")
        if peak:
            return float(peak["value"])
    return None


def used(run: Run, truth_flops_per_second: float, loop: Document | None) -> Iterator[Figure]:
    """MFU, where the peak is known. A tenth off is a step time that is a tenth off."""
    peak = peak_of(run)
    if peak is not None:
        yield number("MFU", truth_flops_per_second / peak, loop["mfu"] if loop else None, 0.10)


def launcher(run: Run, truth: Truth) -> Iterator[Figure]:
    """One line says that each rank is to be launched."""
    said = run.summary
    told = "rank" in said or "child" in said
    yield holds(
        "what to do", f"{truth['ranks']} children use JAX", said.strip() or "nothing", told if said else None
    )


def killed(run: Run, truth: Truth) -> Iterator[Figure]:
    """What was known of a job that SIGTERM ended is left behind; the truth is a moment older than the end."""
    yield holds("ended by", "SIGTERM", f"status {run.status}", run.status == -15)
    loop = loop_of(run)
    yield number("step time (s)", truth["step_seconds"], loop["step_seconds"] if loop else None, 0.10)
    left = [path for path in run.summaries if "train_step" in path]
    yield holds("summary left", "one", str(len(left)), bool(left) or None)


def large_output(run: Run, truth: Truth) -> Iterator[Figure]:
    """A step whose output cannot be kept for a poll: what is known of its time."""
    loop, made = loop_of(run), executable_of(run)
    yield number("step time (s)", truth["step_seconds"], loop["step_seconds"] if loop else None, 0.10)
    yield number("run (s)", truth["step_seconds"], made["seconds_per_run"] if made else None, 0.10)
    yield from used(run, truth["matrix_flops"] / truth["step_seconds"], loop)


def donated_outputs(run: Run, truth: Truth) -> Iterator[Figure]:
    """A step whose outputs are gone when the next begins."""
    loop = loop_of(run)
    yield number("step time (s)", truth["step_seconds"], loop["step_seconds"] if loop else None, 0.10)
    yield number("steps/s", 1 / truth["step_seconds"], loop["steps_per_second"] if loop else None, 0.10)
    yield from used(run, truth["matrix_flops"] / truth["step_seconds"], loop)


def one_call(run: Run, truth: Truth) -> Iterator[Figure]:
    """Calls that are a whole training each: a compile and the runs after it are all the time there was."""
    made = executable_of(run)
    shown = None
    if run.last is not None and made is not None and made["seconds"] is not None:
        compiling = run.last["functions"]["descend"]["seconds"]
        shown = made["seconds"] + sum(compiling.values())
    yield number("compile and runs (s)", truth["seconds"], shown, 0.10)
    flops = made["cost"]["matrix_flops"] if made else None
    yield number("matrix FLOPs", truth["matrix_flops"], flops, 0.01)


def long_operations(run: Run, truth: Truth) -> Iterator[Figure]:
    """Neither the function's efficiency nor the loop's MFU is above what the clock says."""
    made, peak, loop = executable_of(run), peak_of(run), loop_of(run)
    achieved = truth["matrix_flops"] / truth["step_seconds"]
    yield number("run (s)", truth["step_seconds"], made["seconds_per_run"] if made else None, 0.10)
    if peak is not None:
        # Bound time has the vector work and the sort as well, so that efficiency lies a little above.
        yield number("efficiency", achieved / peak, made["efficiency"] if made else None, 0.25)
    yield number("step time (s)", truth["step_seconds"], loop["step_seconds"] if loop else None, 0.10)
    yield from used(run, achieved, loop)


def slow_steps(run: Run, truth: Truth) -> Iterator[Figure]:
    """Quantiles of single steps, from the histogram that Prometheus gets; and the rate beside them."""
    for quantile in ("p50", "p95", "p99"):
        yield number(f"step time {quantile} (s)", truth[quantile], run.quantiles.get(quantile), 0.10)
    loop = loop_of(run)
    yield number("steps/s", truth["steps_per_second"], loop["steps_per_second"] if loop else None, 0.05)


def short_steps(run: Run, truth: Truth) -> Iterator[Figure]:
    """The quantiles that its pauses make; which of a hundred is the slowest, the machine's other work decides."""
    for quantile in ("p50", "p95"):
        yield number(f"step time {quantile} (s)", truth[quantile], run.quantiles.get(quantile), 0.10)


def compute_alone(run: Run, truth: Truth) -> Iterator[Figure]:
    """A loop that only computes is known to, however far its host runs ahead."""
    loop = loop_of(run)
    verdict = loop["bottleneck"] if loop else None
    told = f"{verdict['label']} {verdict['confidence']:.2f}" if verdict else "nothing"
    right = verdict and verdict["label"] == "compute" and verdict["confidence"] >= 0.5
    yield holds("bottleneck", f"compute, {truth['waited']:.1%} of the time", told, right)
    yield number("step time (s)", truth["step_seconds"], loop["step_seconds"] if loop else None, 0.10)


def small_between(run: Run, truth: Truth) -> Iterator[Figure]:
    """Each function's run. Other work on the machine makes what was timed before and after differ from what was shown."""
    made = {one["function"]: one["seconds_per_run"] for one in (run.last or {}).get("executables") or []}
    for function, seconds in truth["runs"].items():
        yield number(f"run of {function} (s)", seconds, made.get(function), 0.25)


def branches(run: Run, truth: Truth) -> Iterator[Figure]:
    """What one run does and takes, on average over its branches."""
    made = executable_of(run)
    measured = made is not None and any("profiler windows" in why for why in made["cost"]["inexact_reasons"])
    # Else it is told as a lower bound, with its reason.
    shown = made["cost"]["matrix_flops"] if made and measured else None
    yield number("matrix FLOPs", truth["matrix_flops"], shown, 0.15)
    yield number("run (s)", truth["step_seconds"], made["seconds_per_run"] if made else None, 0.15)


def epochs(run: Run, truth: Truth) -> Iterator[Figure]:
    """The rate at the end, and the highest that was shown at any time."""
    loop, own = loop_of(run), truth["steps_per_second"]
    loops = [one for document in run.documents[0] for one in document["loops"].values()]
    rates = [one["steps_per_second"] for one in loops if one["steps_per_second"] is not None]
    yield number("steps/s", own, loop["steps_per_second"] if loop else None, 0.10)
    yield number("highest steps/s", own, max(rates, default=None), 0.25)
    yield from used(run, truth["flops_per_second"], loop)


def scan_outside_jit(run: Run, truth: Truth) -> Iterator[Figure]:
    """A loop of epochs, whose time is no initialisation."""
    loop = loop_of(run)
    yield number("turn (s)", truth["call_seconds"], loop["step_seconds"] if loop else None, 0.10)
    text = run.summary
    line = next(
        (line.strip() for line in text.splitlines() if line.strip().startswith("the run:")), "nothing"
    )
    yield holds("the run", "training, not initialisation", line, _little_initialisation(line, truth))


def _little_initialisation(line: str, truth: Truth) -> bool | None:
    import re

    found = re.search(r"initialisation ([0-9.]+) (ms|s)", line)
    if not line.startswith("the run:"):
        return None
    took = 0.0 if found is None else float(found[1]) * (0.001 if found[2] == "ms" else 1.0)
    # Importing and starting takes some seconds; the epochs are to be none of it.
    return took < 5.0 + 0.5 * float(truth["call_seconds"]) * int(truth["epochs"])


CASES = (
    Case("children of a launcher", "launcher", "observed", launcher),
    Case("ended by SIGTERM", "killed", "observed", killed, terminate_after=25.0),
    Case("large output", "large_output", "plain", large_output),
    Case("donated, host ahead", "donated_outputs", "plain", donated_outputs),
    Case("donated, host waits", "donated_outputs", "plain", donated_outputs, arguments=("waits",)),
    Case("training in one call", "one_call", "plain", one_call),
    Case("long operations", "long_operations", "observed", long_operations),
    Case("slow steps, host waits", "slow_steps", "plain", slow_steps),
    Case("slow steps, host ahead", "slow_steps", "plain", slow_steps, arguments=("ahead",)),
    Case("short steps", "short_steps", "plain", short_steps, arguments=("60",)),
    Case("compute, host ahead", "ahead", "observed", compute_alone),
    Case("small between large", "small_between", "plain", small_between),
    Case("small between large, host ahead", "small_between", "plain", small_between, arguments=("ahead",)),
    Case("branches that differ", "branches", "observed", branches),
    Case("epochs of short steps", "epochs", "plain", epochs, arguments=("512", "30", "20")),
    Case("epochs of long steps", "epochs", "plain", epochs, arguments=("2048", "12", "3")),
    Case("scan outside jit", "scan_outside_jit", "observed", scan_outside_jit),
)
