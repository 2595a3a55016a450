"""What a script, a test or CI expects of a run: read at the call, judged at the end of a `with` block or of the run.

A figure that is not known neither holds nor fails: it is said to be unknown, with its reason. Where an error is asked
for, that is an error too, as nothing has shown what was expected.
"""

from __future__ import annotations

import functools
import operator
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from jaxobs.model import events
from jaxobs.model.events import Compilation
from jaxobs.model.snapshot import Document
from jaxobs.plugin.settings import meant
from jaxobs.report.sentence import without_quotes
from jaxobs.report.tables import what_changed
from jaxobs.report.values import OF_A_LOOP, main_loop
from jaxobs.vocabulary.units import count, digits, times

RECOMPILATIONS: Final = "recompilations"
FIGURES: Final = (RECOMPILATIONS, *OF_A_LOOP)
"""What can be expected: recompilations, counted while the expectation is open, and a loop's figures in the snapshot."""
THERE_ARE: Final = f"there are {', '.join(FIGURES)}"

ANSWER_SECONDS: Final = 5.0
"""How long the agent is waited for: as for its address, since it may just have been started."""

UNSEEN: Final = (
    "`jax.monitoring.clear_event_listeners()` was called, and what was compiled soon after went unseen"
)

MAX_LINES: Final = 10
"""Different recompilations that are told one by one; the others are counted."""

HOLDS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
UPPER: Final = ("<=", "<", "==")
BOUND: Final = re.compile(r"\s*(<=|>=|==|<|>)\s*(-?\d+(?:\.\d+)?(?:e[-+]?\d+)?)\s*")


class ExpectationError(AssertionError):
    """What was expected of a run is not so, or is not known; the text says which, and why."""


class Bound(NamedTuple):
    """What one figure is expected to be."""

    name: str
    sign: str
    number: float

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {self.number:g}"

    def holds(self, value: float) -> bool:
        return HOLDS[self.sign](value, self.number)


def read_bounds(figures: Mapping[str, Any]) -> list[Bound]:
    """Each expectation, such as `mfu=">=0.3"` or `recompilations=0`. Raises ValueError naming what cannot be read."""
    if not figures:
        raise ValueError(f"expect() needs something to expect, such as recompilations=0; {THERE_ARE}")
    return [_read_bound(name, value) for name, value in figures.items()]


def _read_bound(name: str, value: Any) -> Bound:
    if name not in FIGURES:
        raise ValueError(f"expect({name}=…): no such figure{meant(name, FIGURES)}; {THERE_ARE}")
    if type(value) is int and name == RECOMPILATIONS:
        return Bound(name, "==", value)
    found = BOUND.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(
            f"expect({name}={value!r}): write a comparison and a number as text, such as '>=0.3' or '<=2'"
        )
    return Bound(name, found[1], float(found[2]))


@dataclass
class Expectations:
    """The expectations of a process that are not judged yet, and what they are judged by."""

    document: Callable[[float], Document]
    """The snapshot of now, for which so many seconds are waited at most."""
    steps_ended: Callable[[], int]
    why_uncounted: Callable[[], str]
    """Why it cannot be told what was compiled again; empty where it can."""
    warn: Callable[[str], None]
    over: Callable[[], bool] = lambda: False
    """Whether nothing is observed any more, so that nothing is judged."""
    open: list[Expected] = field(default_factory=list)

    def expect(
        self, figures: Mapping[str, Any], *, on_failure: str, after: int = 0, loop: str | None = None
    ) -> Expected:
        """Begin to expect. Raises ValueError for what cannot be read."""
        bounds = read_bounds(figures)
        if on_failure not in {"warn", "error"}:
            raise ValueError(f"expect(on_failure={on_failure!r}): 'warn' or 'error'")
        if type(after) is not int or after < 0:
            raise ValueError(f"expect(after={after!r}): give a number of steps, from 0 on")
        return Expected(bounds, self, on_failure == "error", after, loop)

    def recompiled(self, event: Compilation) -> None:
        """Take a recompilation, on the thread that compiled."""
        for expected in list(self.open):
            expected.recompiled(event)

    def listeners_restored(self) -> None:
        """Note that JAX's listeners had been cleared, and are back."""
        for expected in list(self.open):
            expected.unseen = UNSEEN

    def asked_once(self, timeout: float = ANSWER_SECONDS) -> Callable[[], Document]:
        """What returns the snapshot of the moment at which it is first called."""
        return functools.cache(lambda: self.document(timeout))

    def end(self, timeout: float = ANSWER_SECONDS) -> str:
        """Judge all by one snapshot, at the end of the run. Returns what is to be raised; empty for nothing."""
        document = self.asked_once(min(timeout, ANSWER_SECONDS))
        return "\n".join(filter(None, (expected.end(document) for expected in list(self.open))))


@dataclass(eq=False, repr=False)
class Expected:
    """What one call of `expect` expects, from the call or the beginning of each of its `with` blocks on."""

    bounds: list[Bound]
    all_open: Expectations
    raises: bool
    after: int
    loop: str | None

    def __post_init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler that compiles may run within
        self.__enter__()

    def __enter__(self) -> None:
        self._began = self.all_open.steps_ended()
        self._count = 0
        self._lines: Counter[str] = Counter()
        self.unseen = ""
        """Why some recompilations may not have been counted."""
        if self not in self.all_open.open and not self.all_open.over():
            self.all_open.open.append(self)

    def __repr__(self) -> str:
        return f"<expected, to be judged at the end: {', '.join(map(str, self.bounds))}>"

    def __deepcopy__(self, _: object) -> Self:
        return self  # a copied trainer that holds it is in the same process

    def __exit__(self, _: object, error: object, __: object) -> None:
        __tracebackhide__ = True  # what pytest shows is the block
        problem = self.end(self.all_open.asked_once())
        if problem and error is None:
            raise ExpectationError(problem)
        if problem:  # the error on its way says more
            self.all_open.warn(one_line(problem))

    def recompiled(self, event: Compilation) -> None:
        """Count a recompilation, unless it is among the first steps."""
        with self._lock:
            if self.all_open.steps_ended() - self._began < self.after:
                return
            self._count += 1
            line = recompilation_line(event)
            if len(self._lines) < MAX_LINES or line in self._lines:
                self._lines[line] += 1

    def end(self, document: Callable[[], Document]) -> str:
        """Judge, once. Returns what is to be raised, if that was asked for; else warns."""
        unknown = self.all_open.why_uncounted() or self.unseen
        try:
            self.all_open.open.remove(self)
        except ValueError:  # judged already: another thread or a signal handler may have ended the run
            return ""
        problems = list(self._problems(unknown, document))
        if self.raises:
            return "\n".join(problems)
        for problem in problems:
            self.all_open.warn(one_line(problem))
        return ""

    def _problems(self, uncounted: str, document: Callable[[], Document]) -> Iterator[str]:
        """A text for each figure that is not as expected, or not known. `uncounted`: why recompilations are not."""
        for bound in self.bounds:
            if bound.name == RECOMPILATIONS:
                yield from self._of_recompilations(bound, uncounted)
                continue
            value, note, loop = figure_of(document(), bound.name, self.loop)
            expected = f"expected {bound} of loop {loop}, and it is"
            if value is None:
                yield f"{expected} not known: {note}"
            elif not bound.holds(value):
                yield f"{expected} {digits(value)}" + (f" ({note})" if note else "")

    def _of_recompilations(self, bound: Bound, uncounted: str) -> Iterator[str]:
        steps = self.all_open.steps_ended() - self._began
        too_few = f"no more than {count(steps, 'step')} ended" if self.after and steps <= self.after else ""
        unknown = uncounted or too_few
        expected = f"expected {bound}" + (f" after {count(self.after, 'step')}" if self.after else "")
        if unknown and not (bound.sign in UPPER and self._count > bound.number):
            yield f"{expected}, and it is not known: {unknown}"
        elif not bound.holds(self._count):
            seen = self._lines.items()
            lines = [line if number == 1 else f"{line} ({times(number)})" for line, number in seen]
            others = self._count - self._lines.total()
            lines += [f"and {others} more"] if others else []
            yield "\n  ".join([f"{expected}, and there were {self._count}", *lines])


def one_line(problem: str) -> str:
    """The text of an error as a warning has it."""
    return "; ".join(line.strip() for line in problem.splitlines())


def recompilation_line(event: Compilation) -> str:
    """What was compiled again, where it was called, and what changed."""
    known = dict(event.attributes)
    path, cause = known.get(events.CALL_FILE), str(event.recompilation).replace("_", " ")
    keys = {"argument": events.MISS_ARGUMENT, "old": events.MISS_OLD, "new": events.MISS_NEW}
    row = {key: known.get(name) for key, name in keys.items()}
    changed = what_changed(row) or known.get(events.MISS_REASON)
    site = f" at {path}:{known.get(events.CALL_LINE)}" if path else ""
    said = without_quotes(f"{cause}, {changed}" if changed else cause)
    return f"`{event.function}` was compiled again{site}: {said}"


def figure_of(document: Document, name: str, loop: str | None) -> tuple[float | None, str | None, str]:
    """A figure, its reason or reserve, and the name of its loop: the main one where none is named."""
    found = main_loop(document) if loop is None else (loop, (document.get("loops") or {}).get(loop))
    if found is None or found[1] is None:
        return None, document.get("loops_reason") or "no such loop was seen", loop or "?"
    return found[1].get(name), found[1].get(f"{name}_reason"), found[0]
