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

ROOMS = (products, convolutions, networks, attention, linear_algebra, loops, memory, distributed)


def programs(only: str = "") -> list[Program]:
    """Those whose name has the text ``only``."""
    return [program for room in ROOMS for program in room.PROGRAMS if only in program.name]
