"""Whether a loop's label is right: loops on the CPU, each built so that its cause is at least three times its runner-up.

    python -m benchmarks.labels [--runs 5] [--seconds-of-a-run 7] [--only compute,input]
    python -m benchmarks.labels --only asynchronous
    python -m benchmarks.labels --only long,large,unmarked [--loaded]
    python -m benchmarks.labels --seconds        # known seconds: what was injected, and what came back

Eight loops wait for the device in each step. Asynchronous ones let the host run ahead of it, as most training does, and
wait every tenth or twentieth step only: for a loss, or for the state that a checkpoint copies. `long` has one operation
of more than a second, `large` an output of 64 MiB that is not donated, and `unmarked` ones run under `jaxobs run` and
call nothing of it. Of these three, and of all with two busy processes beside them (--loaded), `unknown` is right as
well: a label may be absent, and is never wrong; a confidence below 0.1 is shown as none clear. Where a loaded machine
compiles for most of a short loop, that is right.

Each run is a process of its own that marks its steps. In the eight no function is watched, so what the device did is
known from profiler windows alone; the asynchronous ones run both ways. Exit status 1 where fewer than 39 of 40 labels
of either table are right, where a loop of three steps is not `unknown`, or where known seconds are off by more than 5
%; and where one of those that may be `unknown` is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.beside import busy
from benchmarks.observed.runs import run as observe
from jaxobs.report.sentence import CLEAR

LABELS = ("compute", "memory", "input", "host", "compile", "latency", "checkpoint", "communication")


class Asynchronous(NamedTuple):
    """A loop whose host waits for the device only every so many steps.

    The checkpoint of `copying` takes no time but that of the device, for which it waits; that of `checkpoint` does.
    """

    turns: str
    every: int
    label: str


ASYNCHRONOUS = (
    Asynchronous("compute", 10, "compute"),
    Asynchronous("memory", 10, "memory"),
    Asynchronous("latency", 20, "latency"),
    Asynchronous("input", 10, "input"),
    Asynchronous("host", 20, "host"),
    Asynchronous("checkpoint", 20, "checkpoint"),
    Asynchronous("copying", 20, "compute"),
)
UNUSUAL = ("long", "large")
UNMARKED = ("compute", "memory", "latency", "input", "host", "compile", "large")
UNMARKED_SECONDS = 8.0
"""Seconds that they run longer: a loop is found after some turns, and the first window comes after it."""

COMPILED = 0.5
"""Share of an unmarked loop that its first turn takes, by its own clock, from which on `compile` is a right label too."""

LONG_SECONDS = 20.0
"""Seconds that steps of a second run longer: a label takes five of them, and the first window as long as they do."""

LONGER = 5.0
"""Seconds that they run longer: of a host that runs ahead a window may tell less, and the next one comes later."""

INJECTED = ("input", "host", "checkpoint", "compile")
INJECTED_ASYNCHRONOUSLY = ("input", "host", "checkpoint")
EVERY = 20
DEVICES = {"communication": "8"}
ENOUGH = 39 / 40
TOLERANCE = 0.05
SUM_TOLERANCE = 0.01
LOOPS = Path(__file__).with_name("loops.py")


class DiedError(RuntimeError):
    """A run ended without an answer."""


def run(arguments: list[str], devices: str | None = None) -> dict[str, Any]:
    """The answer of a run in a process of its own. Raises DiedError, with all that it said."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
    if devices is not None:
        environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "benchmarks.labels.loops", *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise DiedError(f"{' '.join(arguments)} ended with status {done.returncode}:\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def run_unmarked(name: str, seconds: float, every: int) -> dict[str, Any]:
    """What `jaxobs run` says of a loop that calls nothing of it. Raises DiedError."""
    arguments = ["--loop", name, "--seconds", str(seconds), "--every", str(every), "--unobserved"]
    done = observe(LOOPS, *arguments, how="observed")
    if done.status or done.last is None:
        raise DiedError(f"{' '.join(arguments)} ended with status {done.status}:\n{done.stderr}")
    for document in reversed(done.documents[0]):
        loops = sorted(document["loops"].values(), key=lambda loop: -loop["wall_seconds"])
        if loops and loops[0]["steps_per_second"] is not None:
            windows = (loops[0]["profile"] or {}).get("windows", 0)
            return {**loops[0]["bottleneck"], "windows": windows, "compiled": float(done.stdout.split()[-1])}
    return {"label": "unknown", "confidence": 0.0, "shares": {}, "windows": 0, "reason": "no loop was found"}


def judge_unusual(names: list[str], runs: int, seconds: float) -> bool:
    """Whether none of those that may be `unknown` is wrong."""
    right = True
    for name in UNUSUAL:
        for watched in ([], ["--watched"]) if name in names else ():
            lasting = seconds + LONG_SECONDS * (name == "long")
            arguments = ["--loop", name, "--seconds", str(lasting), *watched]
            title = name + (", watched" if watched else "")
            right = never_wrong(title, "compute", partial(run, arguments), runs) and right
    for name in UNMARKED if "unmarked" in names else ():
        label = "compute" if name in UNUSUAL else name
        for every in (1,) if name in {"compile", "large"} else (1, 10):
            title = f"{name}, unmarked" + (", asynchronous" if every > 1 else "")
            answer = partial(run_unmarked, name, seconds + UNMARKED_SECONDS, every)
            right = never_wrong(title, label, answer, runs) and right
    return right


def never_wrong(title: str, label: str, answer: Callable[[], dict[str, Any]], runs: int) -> bool:
    """Whether each run's label is right or `unknown`."""
    good = True
    for _ in range(runs):
        try:
            found = answer()
        except DiedError as died:
            print(f"DIED   {title:30} {died}", flush=True)
            good = False
            continue
        right = {label, "unknown"} | ({"compile"} if found.get("compiled", 0.0) > COMPILED else set())
        ok = found["label"] in right or found["confidence"] < CLEAR
        good = good and ok
        print(describe("right" if ok else "WRONG", title, found), flush=True)
    return good


def describe(verdict: str, title: str, found: dict[str, Any]) -> str:
    """One line of a run."""
    label = found["label"] if found["confidence"] >= CLEAR or found["label"] == "unknown" else "none clear"
    shares = sorted(found["shares"].items(), key=lambda item: -item[1])[:3]
    told = ", ".join(f"{word} {share:.0%}" for word, share in shares)
    return (
        f"{verdict:6}{title:30} -> {label:14} {found['confidence']:.2f}  {found['windows']} windows  {told}"
    )


def judge_labels(names: list[str], runs: int, seconds: float) -> bool:
    """Whether enough labels are right, and a loop of three steps is `unknown`."""
    enough = judge([(name, [], name, name) for name in names if name in LABELS], runs, seconds, "")
    short = run(["--loop", "compute", "--steps", "3", "--seconds", "60"])
    print(f"three steps: {short['label']} ({short['reason']})", flush=True)
    return enough and short["label"] == "unknown"


def judge_asynchronous_labels(runs: int, seconds: float) -> bool:
    """The same for those in which the host runs ahead of the device."""
    return judge(asynchronous_cases(), runs, seconds + LONGER, " of asynchronous loops")


def asynchronous_cases() -> list[tuple[str, list[str], str, str]]:
    """Each loop by name, with further arguments, title and true label."""
    cases = []
    for case in ASYNCHRONOUS:
        every = ["--every", str(case.every)]
        cases.append((case.turns, every, f"{case.turns}, host ahead", case.label))
        cases.append((case.turns, [*every, "--watched"], f"{case.turns}, watched, host ahead", case.label))
    return cases


def judge(cases: list[tuple[str, list[str], str, str]], runs: int, seconds: float, what: str) -> bool:
    """Of loops by name, with further arguments, title and true label: whether enough are told."""
    right = total = 0
    for name, arguments, title, label in cases:
        for _ in range(runs):
            total += 1
            try:
                found = run(["--loop", name, "--seconds", str(seconds), *arguments], DEVICES.get(name))
            except DiedError as died:
                print(f"DIED  {title:20} {died}", flush=True)
                continue
            ok = found["label"] == label
            right += ok
            print(describe("right" if ok else "WRONG", title, found), flush=True)
    print(f"{right} of {total} labels{what} are right", flush=True)
    return right >= ENOUGH * total


def judge_seconds(names: list[str], seconds: float) -> bool:
    """Whether the seconds that were injected come back."""
    good = True
    cases = [(name, 1) for name in INJECTED] + [(name, EVERY) for name in INJECTED_ASYNCHRONOUSLY]
    for name, every in cases:
        if name not in names and (every == 1 or "asynchronous" not in names):
            continue
        found = run(["--inject", name, "--seconds", str(seconds), "--every", str(every)])
        off = found["found"] / found["injected"] - 1
        rest = sum(found["components"].values()) / found["wall"] - 1
        ok = abs(off) <= TOLERANCE and abs(rest) <= SUM_TOLERANCE
        good = good and ok
        title = name + (", asynchronous" if every > 1 else "")
        print(
            f"{'right' if ok else 'WRONG':6}{title:25} injected {found['injected']:.3f} s, found {found['found']:.3f} s "
            f"({off:+.1%}); components over wall time {rest:+.2%}",
            flush=True,
        )
        if not ok:
            print(
                "      ", {word: round(amount, 3) for word, amount in found["components"].items() if amount}
            )
    return good


def main() -> int:
    """Run what was asked for; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.labels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds-of-a-run", type=float, default=7.0)
    parser.add_argument("--only", default=",".join((*LABELS, "asynchronous", *UNUSUAL, "unmarked")))
    parser.add_argument("--seconds", action="store_true")
    parser.add_argument("--loaded", action="store_true", help="with two busy processes beside each run")
    options = parser.parse_args()
    from jaxobs.cli.demonstration.peaks import ensure_peaks
    from jaxobs.config import load_settings

    ensure_peaks(load_settings())  # without peaks of this machine nothing is compute or memory
    names = options.only.split(",")
    with busy(2 if options.loaded else 0):
        return 0 if judge_all(names, options) else 1


def judge_all(names: list[str], options: argparse.Namespace) -> bool:
    """What was asked for, one table after the other."""
    runs, seconds = options.runs, options.seconds_of_a_run
    if options.seconds:
        return judge_seconds(names, seconds)
    if options.loaded:
        good = True
        for name in (name for name in names if name in LABELS):
            answer = partial(run, ["--loop", name, "--seconds", str(seconds)], DEVICES.get(name))
            good = never_wrong(name, name, answer, runs) and good
        for name, arguments, title, label in asynchronous_cases() if "asynchronous" in names else ():
            answer = partial(run, ["--loop", name, "--seconds", str(seconds + LONGER), *arguments])
            good = never_wrong(title, label, answer, runs) and good
        return judge_unusual(names, runs, seconds) and good
    good = not set(names) & set(LABELS) or judge_labels(names, runs, seconds)
    if "asynchronous" in names:
        good = judge_asynchronous_labels(runs, seconds) and good
    return judge_unusual(names, runs, seconds) and good


if __name__ == "__main__":
    sys.exit(main())
