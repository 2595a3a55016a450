"""How much code one event and one snapshot go through: functions of jaxobs that run, and the files they are in.

The stream is made up: a loop with one executable, whose steps the device is seen to complete. Nothing fails above the
aims, which no commit has reached yet: a StepEnded in 20 functions and 8 files, a snapshot in 25 files.

    python -m benchmarks.walk
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType

import jaxobs
from jaxobs.derive.fold import Fold
from jaxobs.model.events import StepCompleted, StepEnded
from tests.derive.made_up import PEAKS, at, backend, created, module, new_fold, step

STEPS = 40
STEP_SECONDS = 0.1
SOURCES = str(Path(jaxobs.__file__).parent)


def followed(part: Callable[[], object]) -> set[CodeType]:
    """The functions of jaxobs that run in it; what stands inside a function is part of it."""
    ran: set[CodeType] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCES) and not code.co_name.startswith("<"):
            ran.add(code)

    sys.setprofile(called)
    part()
    sys.setprofile(None)
    return ran


def trained(steps: int) -> Fold:
    """A fold that has seen a loop of so many steps."""
    fold = new_fold()
    fold.bind_peaks("example", PEAKS)
    fold.apply(backend())
    fold.apply(created(1, "train_step"))
    fold.analysed(1, module())
    for number in range(steps):
        for event in one_step(number):
            fold.apply(event)
    fold.snapshot(at(steps * STEP_SECONDS))
    return fold


def one_step(number: int) -> tuple[StepEnded, StepCompleted]:
    """A step, and that the device has completed it."""
    began, ended = number * STEP_SECONDS, (number + 1) * STEP_SECONDS
    return step(number, began, ended, runs=(1,)), StepCompleted("train", number, at(ended), 0)


def walks() -> dict[str, set[CodeType]]:
    """What runs for each of them."""
    fold = trained(STEPS)
    event, completed = one_step(STEPS)
    now = at((STEPS + 1) * STEP_SECONDS)
    return {
        "one StepEnded": followed(lambda: fold.apply(event)),
        "one StepCompleted": followed(lambda: fold.apply(completed)),
        "a snapshot of one loop": followed(lambda: fold.snapshot(now).document),
    }


def main() -> None:
    """Print the numbers, and the names file by file."""
    for name, ran in walks().items():
        functions = sorted((code.co_filename.removeprefix(SOURCES), code.co_qualname) for code in ran)
        files = [(file, list(each)) for file, each in groupby(functions, lambda one: one[0])]
        print(f"{name}: {len(ran)} functions in {len(files)} files")
        for file, each in files:
            print(f"  jaxobs{file}: {', '.join(function for _, function in each)}")


if __name__ == "__main__":
    main()
