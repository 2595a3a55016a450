"""A fold with executables whose runs were timed."""

from __future__ import annotations

from jaxobs.derive.fold import Fold
from jaxobs.model.events import ExecutableRan, FunctionWatched
from tests.derive.made_up import PEAKS, applied, at, backend, created, module, new_fold


def watched(per_run: dict[int, float], samples: int = 3) -> Fold:
    """A fold with executables whose runs were sampled to take so long: one burst of samples."""
    fold = applied(new_fold(), [backend()])
    fold.bind_peaks("example", PEAKS)
    for number, seconds in per_run.items():
        function = f"f{number}"
        fold.apply(FunctionWatched(-number, function, "it has several executables", at(0)))
        fold.apply(created(number, function))
        fold.analysed(number, module(fingerprint=f"h{number}"))
        for _ in range(samples):
            fold.apply(ExecutableRan(number, seconds, 0.0, at(0.5)))
    return fold
