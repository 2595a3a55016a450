"""All programs of the suite."""

from benchmarks.accuracy import (
    attention,
    convolutions,
    distributed,
    linear_algebra,
    loops,
    memory,
    networks,
    products,
)
from benchmarks.accuracy.program import Program
from benchmarks.truths import chosen

ROOMS = (products, convolutions, networks, attention, linear_algebra, loops, memory, distributed)


def programs(only: str | None = None) -> list[Program]:
    """Those of the files named in ``only``, separated by commas; all without it."""
    return chosen(
        only, ((room.__name__.rpartition(".")[2], program) for room in ROOMS for program in room.PROGRAMS)
    )
