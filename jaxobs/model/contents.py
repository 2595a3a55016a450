"""What a module holds that makes it slow to compile: its size, an unrolled loop, large constants, what was autotuned.

The texts are made of plain data, so that they are the same for a module at hand and for a document that was read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jaxobs.model.figure import Figure
from jaxobs.vocabulary.units import byte_size, count, duration, rough_percent

LONG_COMPILE: Final = 5.0
"""Seconds from which on a compile is long: somebody who waits begins to wonder what for."""

CACHED_FROM: Final = 1.0
"""Least compile time, s, of a program that JAX writes to its cache: the default of
`jax_persistent_cache_min_compile_time_secs`."""

MIN_CONSTANT_BYTES: Final = 2**20
"""Least size of a large constant. A smaller one costs little: where the compiler folds `W * 2 + 1` it takes 0.07 s of
processor time for each MiB of `W` (measured on a CPU)."""

MAX_CONSTANTS: Final = 5
"""Constants that are kept and named, the largest."""

ROLL_UP: Final = (
    "if that is a Python loop, which JAX writes out while it traces it, make it a `jax.lax.scan` over stacked "
    "parameters or a `jax.lax.fori_loop`, whose body is compiled once; if it is a `scan`, lower its `unroll`"
)
MAKE_ARGUMENTS: Final = (
    "pass captured arrays as arguments: else they are part of the program, "
    "and the compiler reads, folds and keeps them"
)


@dataclass(frozen=True, slots=True)
class Unrolled:
    """Operations that one place of the program wrote again and again, as an unrolled loop does."""

    times: int
    operations: int
    """Of each time."""
    share: float
    """Of the module's instructions, 0 to 1."""
    line: str
    """The innermost `file:line` that all of them have in common."""
    function: str
    within: str
    """The lines of one function below it that they are of, such as `lines 5 to 6 of layer`; empty for others."""
    called_at: str
    """The `file:line` that calls the line's function; empty where none is known."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A large array that is part of a program."""

    dtype: str
    shape: tuple[int, ...]
    bytes: float
    line: str
    """The `file:line` that uses it; empty where none is known."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a module holds."""

    instructions: Figure[int]
    """Without parameters, constants and tuples, which compute nothing."""
    unrolled: Figure[Unrolled]
    """The unrolled loop that has most of them."""
    constants: tuple[Constant, ...]
    """The large ones, the largest first."""
    autotuned: Figure[int]
    """Operations of a GPU whose kernel XLA chooses by trying several, equal ones together, but for cached ones."""


def largest(constants: Iterable[Constant]) -> tuple[Constant, ...]:
    """The constants that are kept."""
    large = (each for each in constants if each.bytes >= MIN_CONSTANT_BYTES)
    return tuple(sorted(large, key=lambda each: -each.bytes)[:MAX_CONSTANTS])


def facts_in_words(contents: Mapping[str, Any]) -> Iterator[str]:
    """What `Contents` as plain data tell, each in a clause."""
    if (number := contents["instructions"]) is not None:
        yield f"instructions: {count(number)}"
    if unrolled := contents["unrolled"]:
        yield unrolled_in_words(unrolled)
    if constants := contents["constants"]:
        yield constants_in_words(constants)
    if autotuned := contents.get("autotuned"):  # none in records of earlier versions
        yield f"autotuning chooses the kernels of {count(autotuned)} operations, equal ones together"


def remedies(contents: Mapping[str, Any], seconds: float) -> Iterator[str]:
    """What to do about it, with the size that it is about; `seconds` it took to lower and compile all of it."""
    of = f"of a program that took {duration(seconds)} to lower and compile" if seconds else "of the program"
    if unrolled := contents.get("unrolled"):
        yield f"{rough_percent(unrolled['share'])} of the instructions {of}: {ROLL_UP}"
    if constants := contents.get("constants"):
        yield f"{byte_size(sum(each['bytes'] for each in constants))} {of}: {MAKE_ARGUMENTS}"


def unrolled_in_words(unrolled: Mapping[str, Any]) -> str:
    """Which operations were written how often, and where."""
    where = f"{last_name(unrolled['line'])} `{unrolled['function'] or '?'}`"
    within = f", {unrolled['within']}" if unrolled["within"] else ""
    called = f", called at {last_name(unrolled['called_at'])}" if unrolled["called_at"] else ""
    number = unrolled["operations"]
    same = "the same operation" if number == 1 else f"the same {count(number)} operations"
    return (
        f"{rough_percent(unrolled['share'])} of the instructions are {same} {count(unrolled['times'])} times, "
        f"of {where}{within}{called}"
    )


def constants_in_words(constants: Sequence[Mapping[str, Any]]) -> str:
    """The largest constants: type, shape, size, and where they come from as far as that is known."""
    told = []
    for each in constants:
        line = f" used at {last_name(each['line'])}" if each["line"] else ""
        shape = ",".join(map(str, each["shape"]))
        told.append(f"{each['dtype']}[{shape}] ({byte_size(each['bytes'])}){line}")
    return f"captured constants: {', '.join(told)}"


def last_name(path: object) -> str:
    """The path without its folder; empty where it is not known."""
    return str(path or "").rpartition("/")[2]
