"""What a program of this folder knows of its own training, by its own clock; it is printed as the last line.

A program wraps its loop in `steps` and its jitted function in `watch`, and both give back what they were given, so
that it is a program without jaxobs. With JAXOBS_TEST_MARK=1 they are those of jaxobs: the marked run, with which an
unmarked one is compared.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

MARKED = os.environ.get("JAXOBS_TEST_MARK") == "1"


@functools.cache
def _observer() -> Any:
    """Made at its first use: a loader's worker process imports the program too, and is not to be observed."""
    import jaxobs

    return jaxobs.instrument()


def steps(items: Iterable[Any], **options: Any) -> Any:
    """The items as they are."""
    return _observer().steps(items, **options) if MARKED else items


def step(**options: Any) -> Any:
    """A context that does nothing."""
    return _observer().step(**options) if MARKED else contextlib.nullcontext()


def watch(function: Any) -> Any:
    """The function as it is."""
    return _observer().watch(function) if MARKED else function


def digest(tree: Any) -> str:
    """A short hash of every bit of a result, so that two runs of one program can be compared."""
    import jax

    sha = hashlib.sha256()
    for leaf in jax.tree.leaves(jax.device_get(tree)):
        sha.update(np.ascontiguousarray(leaf).tobytes())
    return sha.hexdigest()[:16]


def report(
    functions: str | tuple[str, ...],
    steps: int,
    seconds: float,
    result: Any,
    *,
    matrix_flops: float | None = None,
    iterations: int | None = None,
    evaluation: str | None = None,
) -> None:
    """Print the truth.

    Args:
        functions: names that a reader would give the function of the loop, the best first.
        steps: calls of it in the loop, from the second on: the first compiles.
        seconds: the wall time of these.
        result: arrays that come out the same in each run.
        matrix_flops: of one call on one device, by a closed form; None where there is no easy one.
        iterations: of a loop on the device in one call; None where one call is one step.
        evaluation: the function of a loop of its own that is no training.
    """
    names = [functions] if isinstance(functions, str) else list(functions)
    truth = {
        "functions": names, "steps": steps, "seconds": seconds, "steps_per_second": steps / seconds,
        "matrix_flops": matrix_flops, "iterations": iterations, "evaluation": evaluation, "result": digest(result),
    }  # fmt: skip
    print(json.dumps({"truth": truth}), flush=True)


def dense_flops(batch: int, *widths: int) -> float:
    """Matrix FLOPs of a training step of dense layers: forward, gradient of the weights, gradient of the inputs.

    2 m n k for each of the three products of a layer; the first layer's inputs need no gradient.
    """
    products = [2.0 * batch * inner * outer for inner, outer in itertools.pairwise(widths)]
    return 3 * sum(products) - products[0]
