"""Whether a loop's label is right: loops on the CPU, each built so that its cause is at least three times its runner-up.

    python benchmarks/labels.py [--runs 5] [--seconds-of-a-run 7] [--only compute,input]
    python benchmarks/labels.py --only asynchronous
    python benchmarks/labels.py --seconds        # known seconds: what was injected, and what came back

Eight loops wait for the device in each step. Asynchronous ones let the host run ahead of it, as most training does, and
wait every tenth or twentieth step only: for a loss, or for the state that a checkpoint copies.

Each run is a process of its own that marks its steps. In the eight no function is watched, so what the device did is
known from profiler windows alone; the asynchronous ones run both ways. Exit status 1 where fewer than 39 of 40 labels of
either table are right, where a loop of three steps is not `unknown`, or where known seconds are off by more than 5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

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
LONGER = 5.0
"""Seconds that they run longer: of a host that runs ahead a window may tell less, and the next one comes later."""

INJECTED = ("input", "host", "checkpoint", "compile")
INJECTED_ASYNCHRONOUSLY = ("input", "host", "checkpoint")
EVERY = 20
DEVICES = {"communication": "8"}
ENOUGH = 39 / 40
TOLERANCE = 0.05
SUM_TOLERANCE = 0.01
LOOPS = Path(__file__).with_name("label_loops.py")


class DiedError(RuntimeError):
    """A run ended without an answer."""


def run(arguments: list[str], devices: str | None = None) -> dict[str, Any]:
    """The answer of a run in a process of its own. Raises DiedError, with all that it said."""
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
    if devices is not None:
        environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(LOOPS), *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise DiedError(f"{' '.join(arguments)} ended with status {done.returncode}:\n{done.stderr}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def judge_labels(names: list[str], runs: int, seconds: float) -> bool:
    """Whether enough labels are right, and a loop of three steps is `unknown`."""
    enough = judge([(name, [], name, name) for name in names if name in LABELS], runs, seconds, "")
    short = run(["--loop", "compute", "--steps", "3", "--seconds", "60"])
    print(f"three steps: {short['label']} ({short['reason']})", flush=True)
    return enough and short["label"] == "unknown"


def judge_asynchronous_labels(runs: int, seconds: float) -> bool:
    """The same for those in which the host runs ahead of the device."""
    cases = []
    for case in ASYNCHRONOUS:
        every = ["--every", str(case.every)]
        cases.append((case.turns, every, case.turns, case.label))
        cases.append((case.turns, [*every, "--watched"], f"{case.turns}, watched", case.label))
    return judge(cases, runs, seconds + LONGER, " of asynchronous loops")


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
            shares = sorted(found["shares"].items(), key=lambda item: -item[1])[:3]
            told = ", ".join(f"{word} {share:.0%}" for word, share in shares)
            print(
                f"{'right' if ok else 'WRONG':6}{title:20} -> {found['label']:14} {found['confidence']:.2f}  "
                f"{found['windows']} windows  {told}",
                flush=True,
            )
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
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds-of-a-run", type=float, default=7.0)
    parser.add_argument("--only", default=",".join((*LABELS, "asynchronous")))
    parser.add_argument("--seconds", action="store_true")
    options = parser.parse_args()
    from jaxobs.cli.demonstration.peaks import ensure_peaks
    from jaxobs.config import load_settings

    ensure_peaks(load_settings())  # without peaks of this machine nothing is compute or memory
    names = options.only.split(",")
    if options.seconds:
        return 0 if judge_seconds(names, options.seconds_of_a_run) else 1
    good = not set(names) & set(LABELS) or judge_labels(names, options.runs, options.seconds_of_a_run)
    if "asynchronous" in names:
        good = judge_asynchronous_labels(options.runs, options.seconds_of_a_run) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
