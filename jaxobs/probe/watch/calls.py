"""The state behind the calls of one watched function: its executables, and how arguments tell which of them ran.

It is an object apart from `Watched`, because attributes of a class with `__getattr__` are looked up three times slower,
and a call looks up a dozen.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxobs.jax_compat.jit import cache_size_of, jit_switch
from jaxobs.model.clock import now
from jaxobs.model.events import FunctionWatched
from jaxobs.plugin.guard import Suppressed, raised_by_signal_handler
from jaxobs.probe.steps.loops import Loops
from jaxobs.probe.watch.completions import Completions, Output
from jaxobs.probe.watch.signatures import (
    OutputLeaf,
    Signature,
    is_transformed,
    leaf_signature,
    leaves_by_path,
    placed_signature,
    reader,
    signature,
    telling_paths,
)
from jaxobs.probe.watch.watchable import is_jitted, name_of


@dataclass(slots=True)
class Created:
    """One executable that appeared: its number, the function it was compiled for, the thread that compiled it.

    `before` counts those that appeared before it. `maker` refers to the function whose call was seen to compile it.
    """

    executable: int
    function: str
    thread: int
    time: int = 0
    before: int = 0
    maker: weakref.ref[Any] | None = None


EXECUTABLES_KEPT = 4_000
"""Executables that are remembered, the latest: 1 MB. No call compiles as many, and few jobs do."""

MAX_SIGNATURES = 64
"""Most executables of one function that are told apart: by then each further one costs some milliseconds."""


class Executables:
    """The executables so far. The probe that sees compiles appends to it; watched functions read it.

    `count` is a plain attribute so that the hot path can tell with one look whether anything was compiled meanwhile.
    """

    def __init__(self) -> None:
        self.count = 0
        self._created: deque[Created] = deque(maxlen=EXECUTABLES_KEPT)
        self.number = itertools.count(1).__next__
        self._lock = threading.RLock()  # a finalizer that compiles may run within

    def created(self, function: str, executable: int) -> None:
        with self._lock:
            self._created.append(Created(executable, function, threading.get_ident(), now(), self.count))
            self.count += 1

    def since(self, count: int) -> list[Created]:
        """The executables that the current thread made after `count` was read."""
        thread, kept = threading.get_ident(), list(self._created)
        forgotten = kept[0].before if kept else 0
        return [made for made in kept[max(0, count - forgotten) :] if made.thread == thread]

    def of(self, name: str, function: Any) -> list[int]:
        """All executables of that name so far, by any thread, but for those that another function compiled.

        With a 0 among them where some may be forgotten.
        """
        found = [each for each in self._created.copy() if each.function == name]
        own = [each for each in found if each.maker is None or each.maker() is _wrapped(function)]
        return [each.executable for each in own] + [0] * (self.count > EXECUTABLES_KEPT)


def _wrapped(function: Any) -> Any:
    """The function that was jitted: jitted twice it has one executable."""
    return getattr(function, "__wrapped__", function)


def reference(thing: Any) -> weakref.ref[Any] | None:
    """A weak reference; None to what has none, such as a NamedTuple with methods, which then may be any."""
    try:
        return weakref.ref(thing)
    except TypeError:
        return None


LAMBDA = "<lambda>"
"""The name of every lambda: it does not identify a function."""


NOT_SEEN = "it was compiled before it was watched, or ahead of its calls together with others of its name"
NOT_JITTED = "it is no function of jax.jit: jit it first, or watch the jitted functions that it calls"
TRANSFORMED = "it runs others under jax.grad or jax.vmap outside jit: put the transformation inside jit"
OF_JAX = "it is a function of JAX's own, whose work is not read: jit a function of yours that calls it"
MADE_BESIDE = "executables of its name were made beside its calls, and nothing shows whether they ran"
TOO_MANY = f"it has over {MAX_SIGNATURES} executables, which are more than are told apart"
NOT_TOLD = "it has several executables, and shapes and types of its arguments do not tell which one ran"


Read = Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, ...]]


LEARNED = ("run", "read", "complete", "size_seen", "_known", "_numbers", "_table")
"""Attributes of `Calls` that a later observer need not learn anew."""


class Calls:
    """One watched function's calls. `number` (negative) stands for it where it is not visible which executable ran."""

    def __init__(
        self,
        function: Callable[..., Any],
        number: int,
        loops: Loops,
        executables: Executables,
        completions: Completions,
    ) -> None:
        self.function = self.jitted = function  # another may be put around the first, the second stays
        self.number = number
        self.current = loops.current
        self.unmarked = loops.unmarked
        self.executables = executables
        self.completions = completions
        self.leaf = OutputLeaf()
        self.read: Read | None = None
        self.run = number  # what a call runs while there is only one executable
        self.cache_size, self.jit_is_off = cache_size_of(function), jit_switch()
        self.size_seen: int | None = -1
        """The `cache_size` when its executables were last learned; -1 before its first call."""
        self._emit = loops.ring.emit
        self._failed = loops.failed
        self._name = name_of(function)
        self._known: list[Signature] = []
        self._numbers: list[int] = []
        """The executable of each; 0 if it has several."""
        self._table: dict[tuple[Any, ...], int] = {}
        self._earlier = self.cache_size(self.jitted)
        self.complete = True  # whether every executable it has is known here
        module = str(getattr(getattr(function, "__wrapped__", None), "__module__", ""))
        unseen = OF_JAX if module.partition(".")[0] == "jax" else NOT_SEEN
        self._explain(unseen if is_jitted(function) else NOT_JITTED)

    def compiled_ahead(self, created: Created) -> None:
        """Note that the function is a program compiled ahead of time, which runs this executable alone."""
        self._name, self.run = created.function, created.executable
        self.size_seen = self.cache_size(self.jitted)
        self._explain(NOT_SEEN)

    def learned(self) -> dict[str, Any]:
        """What a later observer need not learn anew."""
        return {name: getattr(self, name) for name in LEARNED}

    def inherit(self, learned: dict[str, Any]) -> None:
        """Go on from what an earlier observer learned, if no executable was compiled or released since."""
        if self._earlier == learned["size_seen"] is not None:
            for name, value in learned.items():
                setattr(self, name, value)
            self.run = self.run if self.run > 0 else self.number

    def failed(self, error: BaseException, count: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle an error that the function raised; learn what it compiled before, which may serve later calls."""
        if self.executables.count != count and (self.cache_size(self.jitted) or 0) > len(self._known):
            self.learn(count, args, kwargs, (self.run, self.read, self.complete))
        self._failed(error, self._name)

    def which(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        """Which of several executables ran, by the arguments; the function's own number where they do not show it."""
        assert self.read is not None
        with Suppressed(Exception):  # arguments may be structured otherwise than those seen
            return self._table.get(self.read(args, kwargs)) or self.number
        return self.number

    def learn(
        self, count: int, args: tuple[Any, ...], kwargs: dict[str, Any], known: tuple[int, Read | None, bool]
    ) -> int | None:
        """Remember for which arguments this function was compiled, if it is what was compiled during the call.

        If it got an executable otherwise, it is not known any more which one runs.
        `count` is that of `executables` before the call; `known` is what `run`, `read` and `complete` were before it.
        Returns when the newest executable of the call was made; None where none was.
        """
        try:
            self.run, self.read, self.complete = known
            before, self.size_seen = self.size_seen, self.cache_size(self.jitted)
            numbers = self._made_since(count)
            if before == -1:
                if not numbers and self.size_seen == 1 and self._name != LAMBDA:
                    # It was called before it was watched, or compiled ahead of its calls: the executable is the one
                    # seen under its name, if there is one alone that no other function was seen to compile.
                    seen = self.executables.of(self._name, self.jitted)
                    numbers = seen if len(seen) == 1 else []
                    self.complete = bool(numbers)
                else:
                    self.complete = bool(numbers) and not self._earlier
            elif numbers and self.size_seen == 1:
                # Those of which nothing is known are gone, by `clear_cache()` or the like.
                self.complete = True
            elif self.complete and not numbers and self.size_seen != before and self._has_others():
                self._give_up(MADE_BESIDE)
            leaves = dict(leaves_by_path((args, kwargs)))
            if is_transformed(leaves.values()):
                self._give_up(TRANSFORMED)
            elif numbers and self.complete:
                self._remember(signature(leaves), numbers[-1])
        except BaseException as error:
            self._give_up(f"{NOT_TOLD} ({type(error).__name__})")
            if not isinstance(error, Exception) or raised_by_signal_handler(error):
                raise  # it is the user's; anything else never gets into the user's call
        made = self.executables.since(count)
        return made[-1].time if made else None

    def called_outside(self, run: int, started: int, ended: int, compiled: int | None) -> Output | None:
        """Note a call outside any step. Returns what is to be asked of it."""
        turn = self.unmarked
        number = turn.note(run, started, ended) if self.current.phase is None else 0
        if number == 0:
            thread = threading.get_ident()
            turn.others[thread].append(run)
            self.completions.called_beside(thread, started)
        if (number and turn.asks(number, started)) or compiled is not None:
            return Output(turn, number, run, started, ended, compiled)
        return None

    def _made_since(self, count: int) -> list[int]:
        """The executables that the call compiled, which other functions of its name did not."""
        made = [each for each in self.executables.since(count) if each.function == self._name]
        for each in made:
            each.maker = reference(_wrapped(self.jitted))
        return [each.executable for each in made]

    def _has_others(self) -> bool:
        """Whether it may run executables of its name that are not known here.

        Else what JAX's cache holds anew is known: it has one entry for NumPy's arrays and another for JAX's.
        """
        return not set(self._numbers).issuperset(self.executables.of(self._name, self.jitted))

    def _remember(self, seen: Signature, executable: int) -> None:
        if self.size_seen == 1:
            # The earlier ones are gone: by `jax.clear_caches()`, or released with a function.
            self._known, self._numbers = [], []
        if seen in self._known:  # the same shapes, another static argument or sharding: both are alive
            self._numbers[self._known.index(seen)] = 0
            self._explain(NOT_TOLD)
        else:
            self._known.append(seen)
            self._numbers.append(executable)
        if len(self._known) == 1:
            self.read, self.run = None, self._numbers[0] or self.number
            return
        self.run = self.number
        few = len(self._known) <= MAX_SIGNATURES
        for of_leaf, signatures in (  # the first without the sharding that the second adds
            (leaf_signature, [{path: leaf[:-1] for path, leaf in known.items()} for known in self._known]),
            (placed_signature, self._known),
        ):
            paths = telling_paths(signatures) if few else None
            if paths is not None:
                self._table = {
                    tuple(known[path] for path in paths): number
                    for known, number in zip(signatures, self._numbers, strict=True)
                }
                self.read = reader(paths, of_leaf)
                return
        self._give_up(NOT_TOLD if few else TOO_MANY)

    def _give_up(self, reason: str) -> None:
        self.read, self.run, self.complete = None, self.number, False
        self._known, self._numbers = [], []
        self._explain(reason)

    def _explain(self, reason: str) -> None:
        self._emit(FunctionWatched(self.number, self._name, reason, now()))
