"""The state behind the calls of one watched function: its executables, and how arguments tell which of them ran.

It is an object apart from `Watched`, because attributes of a class with `__getattr__` are looked up three times slower,
and a call looks up a dozen.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxobs.jax_compat.jit import executables_alive
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
    placed_signature,
    reader,
    signature,
    telling_paths,
    unplaced,
)
from jaxobs.probe.watch.watchable import is_jitted, name_of


@dataclass(frozen=True, slots=True)
class Created:
    """One executable that appeared: its number, the function it was compiled for, the thread that compiled it."""

    executable: int
    function: str
    thread: int
    time: int = 0


class Executables:
    """All executables so far. The probe that sees compiles appends to it; watched functions read it.

    `count` is a plain attribute so that the hot path can tell with one look whether anything was compiled meanwhile.
    """

    def __init__(self) -> None:
        self.count = 0
        self._created: list[Created] = []
        self._makers: dict[int, weakref.ref[Any] | None] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()  # a finalizer that compiles may run within

    def number(self) -> int:
        return next(self._numbers)

    def created(self, function: str, executable: int) -> None:
        with self._lock:
            self._created.append(Created(executable, function, threading.get_ident(), now()))
            self.count = len(self._created)

    def since(self, count: int) -> list[Created]:
        """The executables that the current thread made after `count` was read."""
        thread = threading.get_ident()
        return [made for made in self._created[count:] if made.thread == thread]

    def compiled_by(self, function: Any, executables: list[int]) -> None:
        """Note that a call of this jitted function was seen to compile these executables."""
        self._makers.update(dict.fromkeys(executables, reference(_wrapped(function))))

    def of(self, name: str, function: Any) -> list[int]:
        """All executables of that name so far, by any thread, but for those that another function compiled."""
        wrapped = _wrapped(function)
        found = [created.executable for created in self._created if created.function == name]
        return [one for one in found if (maker := self._makers.get(one)) is None or maker() is wrapped]


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
NOT_JITTED = (
    "what is watched is no function of jax.jit: jit it first, or watch the jitted functions that it calls"
)
TRANSFORMED = (
    "it is called under jax.grad or jax.vmap outside jit, which runs other executables than it has itself: put the "
    "transformation inside jit"
)
NOT_TOLD = "it has several executables, and shapes and types of its arguments do not tell which one ran"


Read = Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, ...]]


class Learned(NamedTuple):
    """What one observer learned about a function's executables, whose numbers are 0 where it is not visible which ran."""

    known: list[tuple[Signature, int]]
    table: dict[tuple[Any, ...], int]
    read: Read | None
    run: int
    complete: bool


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
        self.function = function
        self.number = number
        self.current = loops.current
        self.unmarked = loops.unmarked
        self.executables = executables
        self.completions = completions
        self.leaf = OutputLeaf()
        self.read: Read | None = None
        self.run = number  # what a call runs while there is only one executable
        self.new = True
        self._emit = loops.emit
        self._failed = loops.failed
        self._name = name_of(function)
        self._known: list[tuple[Signature, int]] = []
        self._table: dict[tuple[Any, ...], int] = {}
        self._earlier = executables_alive(function)
        self.complete = True  # whether every executable it has is known here
        self._explain(NOT_SEEN if is_jitted(function) else NOT_JITTED)

    def compiled_ahead(self, created: Created) -> None:
        """Note that the function is a program compiled ahead of time, which runs this executable alone."""
        self._name, self.run, self.new = created.function, created.executable, False
        self._explain(NOT_SEEN)

    def learned(self) -> Learned:
        """What a later observer need not learn anew."""
        run = 0 if self.run == self.number else self.run
        return Learned(self._known, self._table, self.read, run, self.complete)

    def inherit(self, learned: Learned) -> None:
        """Go on from what an earlier observer learned, if no executable was compiled or released since."""
        if self._earlier == len(learned.known):
            self._known, self._table, self.read, run, self.complete = learned
            self.run = run or self.number
            self.new = False

    def failed(self, error: BaseException, count: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Handle an error that the function raised; learn what it compiled before, which may serve later calls."""
        with Suppressed(Exception):  # an object of the user's may answer anything about its executables
            if self.executables.count != count and (executables_alive(self.function) or 0) > len(self._known):
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
    ) -> None:
        """Remember for which arguments this function was compiled, if it is what was compiled during the call.

        `count` is that of `executables` before the call; `known` is what `run`, `read` and `complete` were before it.
        """
        try:
            self.run, self.read, self.complete = known
            made = self.executables.since(count)
            if numbers := [each.executable for each in made if each.function == self._name]:
                self.executables.compiled_by(self.function, numbers)
            if self.new:
                self.new = False
                if not numbers and self._earlier in {0, 1} and self._name != LAMBDA:
                    # It was called before it was watched, or compiled ahead of its calls: the executable is the one
                    # seen under its name, if there is one alone that no other function was seen to compile.
                    seen = self.executables.of(self._name, self.function)
                    numbers = seen if len(seen) == 1 else []
                    self.complete = bool(numbers)
                else:
                    self.complete = bool(numbers) and not self._earlier
            elif numbers and executables_alive(self.function) == 1:
                # Those of which nothing is known are gone, by `clear_cache()` or the like.
                self.complete = True
            if is_transformed(args, kwargs):
                self.complete = False
                self._give_up(TRANSFORMED)
            elif numbers and self.complete:
                self._remember(signature(args, kwargs), numbers[-1])
        except BaseException as error:
            self.complete = False
            self._give_up(f"{NOT_TOLD} ({type(error).__name__})")
            if not isinstance(error, Exception) or raised_by_signal_handler(error):
                raise  # it is the user's; anything else never gets into the user's call

    def called_outside(self, run: int, started: int, ended: int, compiled: int | None) -> Output | None:
        """Note a call outside any step. Returns what is to be asked of it."""
        turn = self.unmarked
        number = turn.note(run, started, ended) if self.current.phase is None else 0
        if number == 0:
            turn.others[run] = turn.others.get(run, 0) + 1
        if (number and turn.asks(number, started)) or compiled is not None:
            return Output(turn, number, run, started, ended, compiled)
        return None

    def _remember(self, seen: Signature, executable: int) -> None:
        if executables_alive(self.function) == 1:
            self._known = []  # the earlier ones are gone: by `jax.clear_caches()`, or released with a function
        for index, (known, _) in enumerate(self._known):
            if known == seen:
                # The same shapes, another static argument or sharding: both are alive.
                self._known[index] = (known, 0)
                self._explain(NOT_TOLD)
                break
        else:
            self._known.append((seen, executable))
        if len(self._known) == 1:
            self.read, self.run = None, self._known[0][1] or self.number
            return
        self.run = self.number
        for of_leaf, signatures in (
            (leaf_signature, [unplaced(known) for known, _ in self._known]),
            (placed_signature, [known for known, _ in self._known]),
        ):
            paths = telling_paths(signatures)
            if paths is not None:
                self._table = {
                    tuple(known[path] for path in paths): number
                    for known, (_, number) in zip(signatures, self._known, strict=True)
                }
                self.read = reader(paths, of_leaf)
                return
        self._give_up(NOT_TOLD)

    def _give_up(self, reason: str) -> None:
        self.read, self.run = None, self.number
        self._explain(reason)

    def _explain(self, reason: str) -> None:
        self._emit(FunctionWatched(self.number, self._name, reason, now()))
