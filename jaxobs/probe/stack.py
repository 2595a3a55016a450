"""Describes a Python stack to the user: the line of theirs, what a library waits for below it, and the activity.

Only code objects are read: names of files and functions, flags and instructions. Nothing of the user's is called.
"""

from __future__ import annotations

import dis
import functools
import gc
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path, PurePath
from types import CodeType, FrameType
from typing import Any, NamedTuple

from jaxobs.model.source_files import DEMONSTRATION, is_installed
from jaxobs.plugin.frames import collector_paused
from jaxobs.plugin.wrapping import INTERNAL
from jaxobs.vocabulary.activities import (
    CALLBACK,
    COMPILE,
    DEVICE,
    DISPATCH,
    INPUT,
    MARKED_INPUT,
    PROCESSOR,
    UNKNOWN,
    WAITING,
)

MAX_FRAMES = 100
"""While JAX traces a small step up to 70 of its own frames lie below the user's line, and more in a model's layers."""

MAX_OUTSIDE = 8
"""Frames looked at outside the innermost of the user's: they show a generator that calls it, and what iterates that."""

MAX_STACKS = 500
"""Stacks whose description is remembered. A loop has some dozens, and each takes a kilobyte or two."""

MAX_CODE_BYTES = 8_000
"""Longer functions are not searched for what they call: these 4 000 instructions take 5 ms, once for each place."""

USER = ""
STANDARD_LIBRARY = "(standard library)"
OWN = "jaxobs"

_OWN_FILES = str(Path(__file__).parents[1]) + "/"
_PLUGINS = "/jaxobs_plugins/"
"""In the path of our plugins' files, which lie in another folder in a checkout: some wrap what a library calls."""

JAX = frozenset({"jax", "jaxlib"})

COMPILING = ("/_src/compiler.py", "/interpreters/partial_eval.py", "/interpreters/mlir.py", "/_src/stages.py")
"""Files of JAX (0.6 to 0.12) one of which is on the stack whenever it traces, lowers or compiles."""

CALLING_BACK = ("/callback.py", "/debugging.py")
"""Files of JAX (0.6 to 0.12) from which a program on the device calls a function of the user's, and waits for it."""

PLACING = frozenset({
    "device_put", "device_put_sharded", "device_put_replicated", "array", "asarray",
    "make_array_from_process_local_data",
})  # fmt: skip
"""Functions of JAX that bring a batch to the device, as a loader does, and compute nothing."""

READING = frozenset({"block_until_ready", "asarray", "array", "asanyarray", "ascontiguousarray", "item"})
"""Methods of arrays and functions of NumPy, written in C, that wait only for a device, whoever calls them."""

LOADERS = frozenset({
    "grain", "tensorflow_datasets", "datasets", "webdataset", "mosaicml_streaming", "streaming",
})  # fmt: skip
"""Packages that only load data."""

LOADER_FILES = ("/torch/utils/data/", "/tensorflow/python/data/", "/keras/src/trainers/data_adapters/")
"""Parts of larger packages that load data."""

TO_THREAD = ("threads", "to_thread")
"""Module and function of asyncio's wait for a function on another thread, which may do anything."""

QUEUES = frozenset({("queue", "get"), ("queues", "get"), ("pool", "next"), ("_base", "result_iterator")})
"""Module and function of the standard library's queues, asyncio's too, of `Pool.imap()`, and of an executor's `map()`."""

ASYNCIO_TASKS = {("runners", "run"): "task", ("base_events", "run_until_complete"): "future"}
"""Functions of asyncio that run a task to its end, and their variable that holds it."""

MAX_TRAINING_ITERATORS = 1_000


class Place(NamedTuple):
    """Where a thread is: the user's `line`, the call `waits_in` below it (empty for none), and the activity.

    `callers` are the lines of the user's that called this one, outermost first, as far as they were looked at.
    """

    line: str
    waits_in: str
    activity: str
    callers: tuple[str, ...] = ()


class Stack(NamedTuple):
    """Frames, the innermost first, and their owners. `mine`: the position of the first of the user's, None for none."""

    frames: list[FrameType]
    owners: list[str]
    mine: int | None

    @property
    def below(self) -> list[tuple[FrameType, str]]:
        """The frames that the user's line has called, with their owners; all where none is the user's."""
        return list(zip(self.frames, self.owners, strict=True))[: self.mine]


class Describer:
    """Turns stacks into places. `step_iterator` and `dispatch` are the code of `obs.steps()` and of watched calls."""

    def __init__(self, step_iterator: CodeType, dispatch: CodeType) -> None:
        self._step_iterator, self._dispatch = step_iterator, dispatch
        self._known: dict[tuple[object, ...], Place] = {}
        self._training_iterators: set[tuple[str, int]] = set()

    def place(
        self, frames: Sequence[FrameType], *, on_processor: bool | None, in_python: bool = False
    ) -> Place:
        """Where a thread with these frames is.

        `on_processor`: None if the system does not tell. `in_python`: it is known to run Python, and no code in C that
        releases the interpreter lock.
        """
        stack = _stack(frames)
        key = (on_processor, in_python, *_positions(stack))
        if (known := self._known.get(key)) is None:
            if len(self._known) >= MAX_STACKS:
                self._known.clear()
            names = () if in_python else callee(stack.frames[0])
            activity = self._activity(stack, names, on_processor=on_processor, in_python=in_python)
            line = line_of(stack.frames[stack.mine] if stack.mine is not None else _nearest(stack))
            waits_in = _waits_in(stack, names)
            waits_in = "" if waits_in == line else waits_in
            known = Place(line, waits_in, activity, _callers(stack))
            if key[2:] == _positions(stack):  # else the thread has run on meanwhile
                self._known[key] = known
        return known

    def _activity(  # noqa: PLR0911  # a list of cases, first come
        self, stack: Stack, names: tuple[str, ...], *, on_processor: bool | None, in_python: bool
    ) -> str:
        in_jax = None if in_python else self._of_jax(stack, names, on_processor)
        outside = list(zip(stack.frames, stack.owners, strict=True))[len(stack.below) :]
        if any(owner in JAX and frame.f_code.co_filename.endswith(CALLING_BACK) for frame, owner in outside):
            return CALLBACK
        if _compiles(stack):
            in_jax = COMPILE
        iterators = _iterators(stack)
        if in_jax is not None and self._runs_steps(stack, names) and not _places_data(stack):
            self._note_training(iterators)
        if in_jax in {COMPILE, DEVICE}:
            return in_jax
        if any(frame.f_code is self._step_iterator for frame in stack.frames):
            return MARKED_INPUT
        if self._is_input(stack, names, iterators, waits=on_processor is False and not in_python):
            return INPUT
        if in_jax is not None:
            return in_jax
        if in_python:
            return PROCESSOR
        below = [(module(frame.f_code.co_filename), frame.f_code.co_name) for frame, _ in stack.below]
        if on_processor is None or TO_THREAD in below or (on_processor and _may_be_jitted(stack, names)):
            return UNKNOWN
        return PROCESSOR if on_processor else WAITING

    def _of_jax(self, stack: Stack, names: tuple[str, ...], on_processor: bool | None) -> str | None:
        """The activity in a call of JAX's, other than compiling; None outside of one."""
        if _reads(stack, names) and names[-1] != "block_until_ready" and on_processor is not False:
            return None  # it copies
        if not (self._runs_steps(stack, names) or (stack.below and stack.owners[0] in JAX)):
            return None
        return {None: UNKNOWN, True: DISPATCH, False: DEVICE}[on_processor]

    def _runs_steps(self, stack: Stack, names: tuple[str, ...]) -> bool:
        """Whether a watched function is called or a result read, as in training; a loader makes arrays by JAX at most."""
        return _reads(stack, names) or self._dispatch in (each.f_code for each in stack.frames[:2])

    def _is_input(
        self, stack: Stack, names: tuple[str, ...], iterators: list[CodeType], *, waits: bool
    ) -> bool:
        if waits and stack.mine == 0 and (names[-1:] == ("get",) or _advances(stack.frames[0])):
            return True
        for frame, owner in stack.below:
            file, name = frame.f_code.co_filename, frame.f_code.co_name
            if owner in LOADERS or any(part in file for part in LOADER_FILES):
                return True
            if owner == STANDARD_LIBRARY and (module(file), name) in QUEUES:
                return True
        return any(_function(code) not in self._training_iterators for code in iterators)

    def _note_training(self, iterators: list[CodeType]) -> None:
        """Remember iterators that run steps, such as a training loop that yields its losses."""
        if new := {_function(code) for code in iterators} - self._training_iterators:
            if len(self._training_iterators) >= MAX_TRAINING_ITERATORS:
                self._training_iterators.clear()
            self._training_iterators |= new
            self._known.clear()


@functools.lru_cache(4_096)
def owner_of(file: str) -> str:
    """The owner of a file, by its name alone: USER, STANDARD_LIBRARY, or the name of the package. No file is opened."""
    own = file.startswith(_OWN_FILES) and DEMONSTRATION not in file
    if own or _PLUGINS in file or file == INTERNAL:
        return OWN
    if not is_installed(file):
        return USER
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in file:
            return file.rpartition(folder)[2].partition("/")[0].removesuffix(".py")
    return STANDARD_LIBRARY


def _owner(code: CodeType) -> str:
    """The owner of a function. What the standard library writes, for dataclasses and named tuples, is its own."""
    written = code.co_filename == "<string>" and (code.co_name == "<lambda>" or code.co_name.startswith("__"))
    return STANDARD_LIBRARY if written else owner_of(code.co_filename)


def module(file: str) -> str:
    """The name of a file's module, for display: `queue` for `/usr/lib/python3.11/queue.py` or `<frozen queue>`."""
    path = PurePath(file.removeprefix("<frozen ").removesuffix(">"))
    return path.parent.name if path.stem == "__init__" else path.stem


def callee(frame: FrameType) -> tuple[str, ...]:
    """The names by which a frame calls something at this moment: `("numpy", "dot")`; empty if it does not, or by none.

    A function in C, such as `x.block_until_ready()`, has no frame of its own that would tell.
    """
    code, at = frame.f_code, frame.f_lasti
    if not 0 <= at < len(code.co_code) <= MAX_CODE_BYTES:
        return ()
    instructions = list(dis.get_instructions(code))
    call = next((each for each in instructions if each.offset == at), None)
    if call is None or call.positions is None or not call.opname.startswith(("CALL", "PRECALL")):
        return ()
    names: list[str] = []
    place = call.positions.lineno, call.positions.col_offset
    if None in place:  # as under `-X no_debug_ranges`: all names in the line would be taken for its own
        return ()
    for each in instructions:
        if each.offset >= at or each.positions is None or not isinstance(each.argval, str):
            continue
        same = (each.positions.lineno, each.positions.col_offset) == place
        if same and each.opname in ("LOAD_METHOD", "LOAD_ATTR"):
            names.append(each.argval)
        elif same and each.opname.startswith(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF")):
            names = [each.argval]
    return tuple(names)


def _stack(frames: Sequence[FrameType]) -> Stack:
    """The frames as far as they tell something; those of a coroutine that asyncio waits for come before asyncio's own."""
    owners = [_owner(frame.f_code) for frame in frames]
    mine = owners.index(USER) if USER in owners else None
    for frame, owner in zip(frames[:mine], owners, strict=False):
        variable = ASYNCIO_TASKS.get((module(frame.f_code.co_filename), frame.f_code.co_name))
        if variable is not None and owner == STANDARD_LIBRARY:
            with collector_paused():
                awaited = awaiting(frame.f_locals.get(variable))
            if any(owner_of(each.f_code.co_filename) == USER for each in awaited):
                return _stack(awaited)
    end = len(frames) if mine is None else mine + MAX_OUTSIDE
    return Stack(list(frames[:end]), owners[:end], mine)


def awaiting(task: Any) -> list[FrameType]:
    """The frames of the coroutines in which a task of asyncio waits, the innermost first. With the collector paused."""
    kind = getattr(sys.modules.get("asyncio"), "Task", None)
    if kind is None or type(task) is not kind:
        return []
    frames: list[FrameType] = []
    waits: Any = task.get_coro()
    while waits is not None and len(frames) < MAX_FRAMES:
        if type(waits).__name__ in ("async_generator_asend", "async_generator_athrow"):
            waits = next(iter(gc.get_referents(waits)), None)  # it does not tell its generator in another way
        for kind_of_code in ("cr", "ag", "gi"):
            if inspect.isframe(frame := getattr(waits, f"{kind_of_code}_frame", None)):
                frames.insert(0, frame)
                waits = getattr(waits, "gi_yieldfrom" if kind_of_code == "gi" else f"{kind_of_code}_await")
                break
        else:
            break
    return frames


def _positions(stack: Stack) -> tuple[object, ...]:
    """Where each frame is at this moment."""
    return tuple(part for frame in stack.frames for part in (*_function(frame.f_code), frame.f_lasti))


def _function(code: CodeType) -> tuple[str, int]:
    """Identifies a function without a reference to its code."""
    return code.co_filename, code.co_firstlineno


def _compiles(stack: Stack) -> bool:
    return any(owner in JAX and frame.f_code.co_filename.endswith(COMPILING) for frame, owner in stack.below)


def _reads(stack: Stack, names: tuple[str, ...]) -> bool:
    """Whether a result is read. Where JAX itself calls NumPy's functions, it makes constants, as while it traces."""
    by_jax = any(owner in JAX for _, owner in stack.below) and names[-1:] != ("block_until_ready",)
    return not (by_jax or READING.isdisjoint(names[-1:]))


def _places_data(stack: Stack) -> bool:
    """Whether the user's code has called a function of JAX that only brings data to the device."""
    return any(owner in JAX and frame.f_code.co_name in PLACING for frame, owner in stack.below)


def _may_be_jitted(stack: Stack, names: tuple[str, ...]) -> bool:
    """Whether the user's line calls something in C by a plain name, as it would a jitted function that is not watched."""
    return stack.mine == 0 and len(names) == 1 and names[0] not in vars(sys.modules["builtins"])


def _iterators(stack: Stack) -> list[CodeType]:
    """Functions of the user's that a `for` or `next()` of another function of the user's runs.

    They are generators, methods of a class, or given to `map()`.
    """
    found = []
    for index, (frame, owner) in enumerate(zip(stack.frames, stack.owners, strict=True)):
        outside = range(index + 1, len(stack.frames))
        asking = next((outer for outer in outside if stack.owners[outer] in {USER, OWN}), None)
        if owner != USER or asking is None:
            continue
        code = frame.f_code
        asynchronous = code.co_flags & inspect.CO_ASYNC_GENERATOR or code.co_name == "__anext__"
        iterates = code.co_flags & inspect.CO_GENERATOR or code.co_name == "__next__"
        if (
            asynchronous
            or _advances(stack.frames[asking])
            or (iterates and callee(stack.frames[asking])[-1:] == ("next",))
        ):
            found.append(code)
    return found


def _advances(frame: FrameType) -> bool:
    """Whether a frame is at a `for`, and asks its iterator for the next item.

    Where Python 3.12 runs a generator, the frame is at the cache entries (0) behind the instruction.
    """
    instructions = frame.f_code.co_code[: frame.f_lasti + 1 : 2].rstrip(b"\0")
    return instructions[-1:] == bytes([dis.opmap["FOR_ITER"]])


def _nearest(stack: Stack) -> FrameType:
    """The frame to show where none is the user's: the innermost of an installed package, else the outermost."""
    installed = (frame for frame, owner in stack.below if owner not in {STANDARD_LIBRARY, OWN})
    return next(installed, stack.frames[-1])


def line_of(frame: FrameType) -> str:
    """Where a frame is: `train.py:12 main`."""
    code = frame.f_code
    file = code.co_filename.rpartition("/")[2]
    return f"{file}:{frame.f_lineno} {code.co_name}"


def _callers(stack: Stack) -> tuple[str, ...]:
    """The lines of the user's outside the innermost, outermost first."""
    if stack.mine is None:
        return ()
    outside = zip(stack.frames[stack.mine + 1 :], stack.owners[stack.mine + 1 :], strict=True)
    return tuple(line_of(frame) for frame, owner in outside if owner == USER)[::-1]


def _waits_in(stack: Stack, names: tuple[str, ...]) -> str:
    """What the user's line has called: `queue.get in grain`, `block_until_ready`, `_value in jax`."""
    if stack.mine == 0:
        return ".".join(names[-2:])
    standard = ""
    for frame, owner in stack.below:
        dotted = f"{module(frame.f_code.co_filename)}.{frame.f_code.co_name}"
        if owner == STANDARD_LIBRARY:
            standard = dotted
        elif owner != OWN:
            return f"{standard or frame.f_code.co_name} in {owner}"
    return standard
