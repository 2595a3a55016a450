"""Programs of which false figures were once shown, or none: each figure with the truth beside it.

    make untrue [ARGS="--only one_call,large_output"]

A figure is right within its tolerance, absent, or WRONG. Exit status 1 where one is WRONG.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.observed import How, Run
from benchmarks.programs.truth import work_in_python
from benchmarks.truths import Case, Figure, Shown, chosen, judge, label, options_of
from jaxobs.probe.host_lines import BEFORE
from jaxobs.report.flame_graph import dearest

PROGRAMS = Path(__file__).with_name("programs")


def step_time(run: Run) -> Figure:
    """Seconds of a step."""
    return Figure("step time", run.loop.get("step_seconds"), run.truth["step_seconds"], 0.10, unit="s")


def rate(run: Run, tolerance: float = 0.10) -> Figure:
    """Steps a second."""
    return Figure("steps/s", run.loop.get("steps_per_second"), 1 / run.truth["step_seconds"], tolerance)


def highest_rate(run: Run) -> Figure:
    """The highest that was shown of any loop at any time."""
    loops = [loop for document in run.snapshots for loop in (document["loops"] or {}).values()]
    rates = [loop["steps_per_second"] for loop in loops if loop["steps_per_second"] is not None]
    return Figure("highest steps/s", max(rates, default=None), 1 / run.truth["step_seconds"], 0.25)


def run_time(run: Run, tolerance: float = 0.10) -> Figure:
    """Seconds of a run of the function that is the whole step."""
    seconds = run.executable.get("seconds_per_run")
    return Figure("run", seconds, run.truth["step_seconds"], tolerance, unit="s")


def _used(name: str, found: float | None, run: Run, tolerance: float) -> Figure:
    """A share of the peak of float32 products that jaxobs has."""
    devices = (run.last or {}).get("devices") or []
    peaks = (((device["peaks"] or {}).get("matrix") or {}).get("float32") for device in devices)
    peak = next(filter(None, peaks), None)
    if peak is None:
        return Figure(name, reason="no peak of this machine is known")
    truth = run.truth["matrix_flops"] / run.truth["step_seconds"] / peak["value"]
    return Figure(name, found, truth, tolerance)


def mfu(run: Run) -> Figure:
    """MFU. A tenth off is a step time that is a tenth off."""
    return _used("MFU", run.loop.get("mfu"), run, 0.10)


def efficiency(run: Run) -> Figure:
    """That of the function. Bound time has the vector work and the sort as well: efficiency lies a little above."""
    return _used("efficiency", run.executable.get("efficiency"), run, 0.25)


def flops(run: Run, tolerance: float = 0.01, *, measured: bool = False) -> Figure:
    """Matrix FLOPs of a run; `measured`: only those that windows measured, else they are a lower bound that says so."""
    cost = run.executable.get("cost") or {}
    known = not measured or any("profiler windows" in why for why in cost.get("inexact_reasons", ()))
    found = cost.get("matrix_flops") if known else None
    return Figure("matrix FLOPs", found, run.truth["matrix_flops"], tolerance)


def quantile(name: str) -> Shown:
    """A quantile of single steps, from the histogram that Prometheus gets."""
    return lambda run: Figure(f"step time {name}", run.quantiles.get(name), run.truth[name], 0.10, unit="s")


def run_of(function: str) -> Shown:
    """Seconds of a run of one function.

    Other work on the machine makes what was timed before and after differ from what was shown.
    """

    def figure(run: Run) -> Figure:
        made = {one["function"]: one["seconds_per_run"] for one in (run.last or {}).get("executables") or []}
        return Figure(f"run of {function}", made.get(function), run.truth["runs"][function], 0.25, unit="s")

    return figure


def rate_of(loop: str) -> Shown:
    """Steps a second of one loop."""

    def figure(run: Run) -> Figure:
        shown = ((run.last or {}).get("loops") or {}).get(loop, {}).get("steps_per_second")
        return Figure(f"{loop} steps/s", shown, run.truth["rates"][loop], 0.25)

    return figure


def one_pace(run: Run) -> Figure:
    """Step time times rate: both are of the same seconds."""
    seconds, per_second = run.loop.get("step_seconds"), run.loop.get("steps_per_second")
    return Figure("step time × steps/s", seconds * per_second if seconds and per_second else None, 1.0, 0.05)


def step_time_with_compiles(run: Run) -> Figure:
    """Between that of the steps that do not compile and that of all."""
    low, high = 0.9 * run.truth["without"], 1.1 * run.truth["step_seconds"]
    return Figure("step time", run.loop.get("step_seconds"), between=(low, high), unit="s")


def operations(run: Run) -> Figure:
    """What most of the time of the longest function's operations is: products, which XLA may put into a fusion."""
    rows: Iterable[dict[str, Any]] = (run.last or {}).get("operations") or []
    largest = max(rows, key=lambda row: row["share"] or 0.0, default={})
    return Figure("largest operation", largest.get("kind"), "compute")


def line_of_another_thread(run: Run) -> Figure:
    """Whether lines of the main thread are shown of a loop that another thread runs."""
    lines = [row["line"] for row in run.loop.get("host_lines") or ()]
    found = [line for line in lines if re.search(r"_wait_for|work_in_python|threads$", line)]
    return Figure("the loop's lines", ", ".join(found) or "its own", "its own")


def whole_call(run: Run) -> Figure:
    """Calls that are a whole training each: a compile and the runs after it are all the time there was."""
    seconds = run.executable.get("seconds")
    if run.last is not None and seconds is not None:
        seconds += sum(run.last["functions"]["descend"]["seconds"].values())
    return Figure("compile and runs", seconds, run.truth["seconds"], 0.10, unit="s")


def advice_to_launch(run: Run) -> Figure:
    """One line says that each rank is to be launched."""
    told = run.summary.strip()
    return Figure("what to do", told and ("rank" in told or "child" in told), True, note=told[:120])


def ended_by_sigterm(run: Run) -> Figure:
    """How it ended."""
    return Figure("status", run.status, -15, absolute=0)


def summary_left(run: Run) -> Figure:
    """What was known of a killed job is left behind."""
    return Figure("summary left", any("train_step" in text for text in run.summaries) or None, True)


def little_initialisation(run: Run) -> Figure:
    """Epochs are training: importing and starting takes some seconds, and the epochs are none of it."""
    line = re.search(r"(?m)^\s*the run:.*$", run.summary)
    took = re.search(r"initialisation ([0-9.]+) (ms|s)", line.group()) if line else None
    seconds = 0.0 if took is None else float(took[1]) * (0.001 if took[2] == "ms" else 1.0)
    most = 5.0 + 0.5 * run.truth["step_seconds"] * run.truth["epochs"]
    return Figure("initialisation", seconds if line else None, between=(0.0, most), unit="s")


def dearest_lines(run: Run) -> Figure:
    """The functions whose lines can be left out, the dearest first."""
    cost, found = run.truth["cost"], Counter[str]()
    for line in dearest(((run.last or {}).get("device_time") or {}).get("by_line", ())):
        found[line["name"].rpartition(".")[2]] += line["seconds"]
    shown = ", ".join(name for name, _ in found.most_common() if name in cost)
    return Figure("dearest lines", shown or None, ", ".join(cost))


def share(part: str) -> Shown:
    """The share of a part of the loop in its seconds, by the sampler of the loop's thread.

    Of each stretch of Python the last 5 ms, the interpreter's switch interval, are told as what ran before the call that
    follows; here that is the first part. At three samples a second a share is off by three points (a standard deviation)
    after a minute, by less than two after three.
    """

    def figure(run: Run) -> Figure:
        seen, parts = Counter[str](), run.truth["parts"]
        for row in (run.last or {}).get("process", {}).get("host_lines") or ():
            name = work_in_python.__name__ if row["waits_in"] == BEFORE else row["line"].split()[-1]
            seen[name] += row["seconds"]
        whole = sum(parts.values())
        return Figure(part, seen[part] / whole if seen else None, parts[part] / whole, absolute=0.05)

    return figure


def sampler(run: Run) -> Figure:
    """The share of a core that the sampling thread took."""
    samples = (run.last or {}).get("process", {}).get("host_samples")
    return Figure("of a core", run.truth["sampler"], between=(0.0, 0.001), note=f"{samples} samples")


def case(name: str, file: str, words: str, *figures: Shown, how: How = "plain", **rest: Any) -> Case:
    """A program of `programs/`: its file, and its name in it with its arguments."""
    return Case(name, PROGRAMS / f"{file}.py", figures, how, tuple(words.split()), **rest)


QUANTILES = tuple(quantile(name) for name in ("p50", "p95", "p99"))
WIDTHS = ("1024", "448", "640")
"""The smallest product takes 0.7 ms: the program's own clock has some 0.06 ms of waking up in it."""
IN_TURN = tuple(run_of(f"product_{width}") for width in WIDTHS)

CASES = (
    case("children of a launcher", "processes", "launcher", advice_to_launch, how="observed"),
    case("ended by SIGTERM", "processes", "killed", ended_by_sigterm, step_time, summary_left, how="observed"),
    case("large output", "runs", "large_output", step_time, run_time, mfu),
    case("donated, host ahead", "queues", "donated_outputs", step_time, rate, mfu),
    case("donated, host waits", "queues", "donated_outputs waits", step_time, rate, mfu),
    case("training in one call", "runs", "one_call", whole_call, flops),
    case(
        "long operations", "runs", "long_operations", run_time, efficiency, step_time, mfu, how="observed",
    ),
    case("slow steps, host waits", "step_times", "slow_steps", *QUANTILES, partial(rate, tolerance=0.05)),
    case("slow steps, host ahead", "step_times", "slow_steps ahead", *QUANTILES, partial(rate, tolerance=0.05)),
    # Which of a hundred is the slowest, the machine's other work decides.
    case("short steps", "step_times", "short_steps 60", *QUANTILES[:2]),
    case("long steps", "step_times", "long_steps", step_time, run_time, operations, label(), how="observed"),
    case("steps that compile", "step_times", "compiling", one_pace, step_time_with_compiles),
    case("compute, host ahead", "loops", "unobserved compute 12 20", label(), step_time, how="observed"),
    case("data that runs out", "queues", "runs_out 2 50 1020", label(), step_time, rate, how="observed"),
    case("long steps, data runs out", "queues", "runs_out 100 8 28", label(), step_time, run_time, how="observed"),
    case("small between large", "runs", f"in_turn 1 {' '.join(WIDTHS)}", *IN_TURN),
    case("small between large, host ahead", "runs", f"in_turn 20 {' '.join(WIDTHS)}", *IN_TURN),
    case("few runs in a window", "runs", "in_turn 1 3072 1024", run_of("product_3072"), run_of("product_1024")),
    case("evaluation behind a queue", "queues", "evaluation", run_of("train_step"), run_of("evaluate")),
    case(
        "passes nobody marked", "queues", "passes 40 10 0.3", rate_of("train_step"), rate_of("evaluate"),
        how="observed",
    ),
    case(
        "branches that differ", "runs", "branches", partial(flops, tolerance=0.15, measured=True),
        partial(run_time, tolerance=0.15), how="observed",
    ),
    case("epochs of short steps", "queues", "epochs 512 30 20", rate, highest_rate, mfu),
    case("epochs of long steps", "queues", "epochs 2048 12 3", rate, highest_rate, mfu),
    case("scan outside jit", "runs", "scan_outside_jit", step_time, little_initialisation, how="observed"),
    case("sleeping host", "hosts", "sleeping", label(), step_time),
    case("helper beside a host loop", "hosts", "helper", label(), step_time),
    *(case(f"lines, {kind}", "lines", f"lines {kind}", dearest_lines) for kind in ("plain", "remat", "scan")),
    case(
        "lines of the host", "hosts", "parts 180", *map(share, ("work_in_python", "asleep", "native")), sampler,
        environment=dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
    ),
    case("loop of a thread", "hosts", "threads", label("host"), line_of_another_thread, step_time, how="observed"),
)  # fmt: skip


def main() -> int:
    """Run what was asked for; the exit status."""
    options = options_of(__doc__).parse_args()
    cases = chosen(options.only, ((one.arguments[0], one) for one in CASES))
    return judge(cases)


if __name__ == "__main__":
    sys.exit(main())
