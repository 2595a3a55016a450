"""Describes a Python stack to the user: the line of theirs, what a library waits for below it, and the activity.

Only code objects are read: names of files and functions, flags and instructions. Nothing of the user's is called.
"""

from __future__ import annotations

import inspect
from types import CodeType, FrameType
from typing import NamedTuple

from jaxobs.jax_compat.jit import JITTED
from jaxobs.probe.main_thread.call_site import NOWHERE, CallSites, Site, kind_of_callee
from jaxobs.probe.main_thread.packages import OWN, STANDARD_LIBRARY, USER, module, owner_of
from jaxobs.vocabulary.activities import (
    COMPILE,
    DEVICE,
    DISPATCH,
    INPUT,
    MARKED_INPUT,
    PROCESSOR,
    UNKNOWN,
    WAITING,
)

DEEPEST = 40
"""Most frames that are read: while JAX traces there are many, of a model's layers, and the innermost are enough."""

BEYOND = 8
"""Most frames read outside the innermost of the user's: they show a generator that calls it, and what iterates that."""

STACKS_KEPT = 500
"""Most stacks whose description is remembered. A loop has some dozens, and each takes a kilobyte or two."""

JAX = frozenset({"jax", "jaxlib"})

LOADERS = frozenset(
    {"grain", "tensorflow_datasets", "datasets", "webdataset", "mosaicml_streaming", "streaming"}
)
"""Packages that only load data."""

LOADER_FILES = ("/torch/utils/data/", "/tensorflow/python/data/", "/keras/src/trainers/data_adapters/")
"""Parts of larger packages that load data."""

QUEUES = frozenset({("queue", "get"), ("queues", "get"), ("pool", "next")})
"""Module and function of the standard library's queues and of `multiprocessing.Pool.imap()`."""

COMPILING = ("/_src/compiler.py", "/interpreters/partial_eval.py", "/interpreters/mlir.py", "/_src/stages.py")
"""Files of JAX (0.6 to 0.10) one of which is on the stack whenever it traces, lowers or compiles."""

PLACING = frozenset(
    {
        "device_put",
        "device_put_sharded",
        "device_put_replicated",
        "array",
        "asarray",
        "make_array_from_process_local_data",
    }
)
"""Functions of JAX that bring a batch to the device, as a loader does, and compute nothing."""

ITERATORS_KEPT = 1_000


class Place(NamedTuple):
    """Where the main thread is: the user's `line`, the call `waits_in` below it (empty for none), and the activity."""

    line: str
    waits_in: str
    activity: str


class _Code(NamedTuple):
    """Identifies a function without a reference to its code."""

    file: str
    line: int
    name: str


class _Seen(NamedTuple):
    """A stack, the innermost frame first. `mine` is the position of the first of the user's frames, None for none.

    `site` is the instruction of the innermost frame. `on_processor` and `in_python` are those of `Stack.place`.
    """

    frames: list[FrameType]
    owners: list[str]
    mine: int | None
    site: Site
    on_processor: bool | None
    in_python: bool

    @property
    def inner(self) -> list[tuple[FrameType, str]]:
        """The frames that the user's line has called, with their owners; all where none is the user's."""
        return list(zip(self.frames, self.owners, strict=True))[: self.mine]


class Stack:
    """Turns stacks into places. `step_iterator` and `dispatch` are the code of `obs.steps()` and of watched calls."""

    def __init__(self, step_iterator: CodeType, dispatch: CodeType) -> None:
        self._sites = CallSites()
        self._step_iterator, self._dispatch = step_iterator, dispatch
        self._training_iterators: set[_Code] = set()
        self._known: dict[tuple[object, ...], Place] = {}

    def place(self, stack: list[FrameType], *, on_processor: bool | None, in_python: bool) -> Place:
        """Where the main thread is, by its stack, the innermost frame first.

        `in_python`: it held the interpreter lock, so it ran Python, or C code that does not release the lock.
        """
        return self._known_place(stack, on_processor, in_python)

    def call(self, stack: list[FrameType]) -> tuple[str, str]:
        """The line and `waits_in` of a place, if the innermost frame is in a call: nothing is learned of its activity."""
        place = self._known_place(stack, None, None)
        return place.line, place.waits_in

    def _known_place(
        self, stack: list[FrameType], on_processor: bool | None, in_python: bool | None
    ) -> Place:
        """`in_python` is None where the activity is not asked for."""
        frames, owners, positions = _outward(stack)
        key = (on_processor, in_python, *positions)
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._known) >= STACKS_KEPT:
            self._known.clear()
        mine = next((index for index, owner in enumerate(owners) if owner == USER), None)
        site = NOWHERE if in_python else self._sites.at(stack[0])
        seen = _Seen(frames, owners, mine, site, on_processor, bool(in_python))
        found = self._known[key] = self._in_words(
            seen, UNKNOWN if in_python is None else self._activity(seen)
        )
        return found

    def _in_words(self, seen: _Seen, activity: str) -> Place:
        line = _line(seen.frames[seen.mine] if seen.mine is not None else _nearest(seen))
        below = _waits_in(seen)
        return Place(line, "" if below == line else below, activity)

    def _activity(self, seen: _Seen) -> str:  # noqa: PLR0911  # a list of cases, first come
        own = self._of_jax(seen)
        if own is not None and not _places_data(seen):
            for index in self._iterators(seen):
                self._trains(seen.frames[index].f_code)
        if own in {COMPILE, DEVICE}:
            return own
        if any(found.f_code is self._step_iterator for found in seen.frames):
            return MARKED_INPUT
        if self._is_input(seen):
            return INPUT
        if own is not None:
            return own
        if seen.on_processor is None and not seen.in_python:
            return UNKNOWN
        if not (seen.on_processor or seen.in_python):
            return WAITING
        # Native code without a frame: a jitted function in a local variable looks like any other call.
        site = seen.site
        if seen.mine == 0 and site.is_call and not site.is_global and len(site.names) == 1:
            return UNKNOWN
        return PROCESSOR

    def _of_jax(self, seen: _Seen) -> str | None:
        """The activity within JAX; None outside it, and where it runs Python there, which means nothing special."""
        frames, inner, site = seen.frames, seen.inner, seen.site
        if any(owner in JAX and frame.f_code.co_filename.endswith(COMPILING) for frame, owner in inner):
            return COMPILE
        calls = any(frame.f_code is self._dispatch for frame in frames[:2])
        if inner:
            calls = calls or inner[0][1] in JAX
        elif kind_of_callee(site, frames[0].f_globals) == JITTED or site.names[-1:] == ("block_until_ready",):
            calls = True
        if not calls or seen.in_python:
            return None
        if seen.on_processor is None:
            return UNKNOWN
        return DISPATCH if seen.on_processor else DEVICE

    def _is_input(self, seen: _Seen) -> bool:
        site = seen.site
        if seen.mine == 0 and seen.on_processor is False and (site.iteration or site.names[-1:] == ("get",)):
            return True
        for frame, owner in seen.inner:
            file, name = frame.f_code.co_filename, frame.f_code.co_name
            if owner in LOADERS or any(part in file for part in LOADER_FILES):
                return True
            if owner == STANDARD_LIBRARY and (module(file), name) in QUEUES:
                return True
        return any(
            _named(seen.frames[index].f_code) not in self._training_iterators
            for index in self._iterators(seen)
        )

    def _iterators(self, seen: _Seen) -> list[int]:
        """Positions of the user's functions that a `for` or `next()` of another function of the user's runs.

        They are generators, methods of a class, or given to `map()`.
        """
        frames, owners, found = seen.frames, seen.owners, []
        for index, (frame, owner) in enumerate(zip(frames, owners, strict=True)):
            if owner != USER:
                continue
            asking = next(
                (outer for outer in range(index + 1, len(frames)) if owners[outer] in {USER, OWN}), None
            )
            if asking is not None:
                site = self._sites.at(frames[asking])
                by_next = site.names[-1:] == ("next",) and _is_iterator(frame.f_code)
                if site.iteration or by_next:
                    found.append(index)
        return found

    def _trains(self, code: CodeType) -> None:
        """Remember an iterator in which JAX computes, such as a training loop that yields its losses."""
        if _named(code) in self._training_iterators:
            return
        if len(self._training_iterators) >= ITERATORS_KEPT:
            self._training_iterators.clear()
        self._training_iterators.add(_named(code))
        self._known.clear()


def _outward(stack: list[FrameType]) -> tuple[list[FrameType], list[str], list[object]]:
    """The frames from the innermost outwards, their owners, and what tells this stack from others."""
    frames: list[FrameType] = []
    owners: list[str] = []
    positions: list[object] = []
    left = DEEPEST
    for frame in stack:
        code = frame.f_code
        file = code.co_filename
        owner = owner_of(file)
        frames.append(frame)
        owners.append(owner)
        positions += file, code.co_firstlineno, frame.f_lasti
        left = min(left - 1, BEYOND) if owner == USER else left - 1
        if left <= 0:
            break
    return frames, owners, positions


def _is_iterator(code: CodeType) -> bool:
    return bool(code.co_flags & inspect.CO_GENERATOR) or code.co_name == "__next__"


def _places_data(seen: _Seen) -> bool:
    """Whether the user's code has called a function of JAX that only brings data to the device."""
    return any(owner in JAX and frame.f_code.co_name in PLACING for frame, owner in seen.inner)


def _named(code: CodeType) -> _Code:
    return _Code(code.co_filename, code.co_firstlineno, code.co_name)


def _nearest(seen: _Seen) -> FrameType:
    """The frame to show where none is the user's: the innermost of an installed package, else the outermost."""
    installed = (frame for frame, owner in seen.inner if owner not in {STANDARD_LIBRARY, OWN})
    return next(installed, seen.frames[-1])


def _line(frame: FrameType) -> str:
    code = frame.f_code
    file = code.co_filename.rpartition("/")[2]
    return f"{file}:{frame.f_lineno} {code.co_name}"


def _waits_in(seen: _Seen) -> str:
    """What the user's line has called: `queue.get in grain`, `block_until_ready`, `_value in jax`."""
    if seen.mine == 0:
        return ".".join(seen.site.names[-2:]) if seen.site.is_call else ""
    standard: FrameType | None = None
    for frame, owner in seen.inner:
        if owner == OWN:
            continue
        if owner != STANDARD_LIBRARY:
            where = f"in {owner}"
            return f"{_dotted(standard)} {where}" if standard else f"{frame.f_code.co_name} {where}"
        standard = frame
    return _dotted(standard) if standard else ""


def _dotted(frame: FrameType) -> str:
    return f"{module(frame.f_code.co_filename)}.{frame.f_code.co_name}"
