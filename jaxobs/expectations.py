"""What a script, a test or CI expects of a run: read at the call, judged at the end of a `with` block or of the run.

A figure that is not known neither holds nor fails: it is said to be unknown, with its reason. Where an error is asked
for, that is an error too, as nothing has shown what was expected.
"""

from __future__ import annotations

import math
import operator
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from jaxobs.model import events
from jaxobs.model.events import Compilation
from jaxobs.model.snapshot import Document
from jaxobs.plugin.settings import meant
from jaxobs.report.sentence import without_quotes
from jaxobs.report.tables import what_changed
from jaxobs.report.values import OF_A_LOOP, main_loop
from jaxobs.vocabulary.units import digits, times

RECOMPILATIONS: Final = "recompilations"
OF_THE_PROCESS: Final = ("goodput",)
FIGURES: Final = (RECOMPILATIONS, *OF_A_LOOP, *OF_THE_PROCESS)
"""What can be expected: recompilations, counted while the expectation is open, and figures of the snapshot."""

ANSWER_SECONDS: Final = 5.0
"""How long the agent is waited for: as for its address, since it may just have been started."""

MAX_LINES: Final = 10
"""Different recompilations that are told one by one; the others are counted."""

HOLDS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<=": operator.le, ">=": operator.ge, "==": operator.eq, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
UPPER: Final = ("<=", "<", "==")
BOUND: Final = re.compile(r"\s*(<=|>=|==|<|>)\s*([-+.\deE_]+)\s*")


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
        raise ValueError(
            f"expect() needs something to expect, such as recompilations=0; there are {_names()}"
        )
    return [_read_bound(name, value) for name, value in figures.items()]


def _read_bound(name: str, value: Any) -> Bound:
    if name not in FIGURES:
        raise ValueError(f"expect({name}=…): no such figure{meant(name, FIGURES)}; there are {_names()}")
    if type(value) is int and name == RECOMPILATIONS:
        return Bound(name, "==", value)
    found = BOUND.fullmatch(value) if isinstance(value, str) else None
    try:
        number = float(found[2]) if found is not None else math.nan
    except ValueError:
        number = math.nan
    if found is None or not math.isfinite(number):
        raise ValueError(
            f"expect({name}={value!r}): write a comparison and a number as text, such as '>=0.3' or '<=2'"
        )
    return Bound(name, found[1], number)


def _names() -> str:
    return ", ".join(FIGURES)


class Sight(NamedTuple):
    """The functions by which an expectation sees the process."""

    document: Callable[[], Document]
    """The snapshot of now."""
    steps_ended: Callable[[], int]
    why_uncounted: Callable[[], str]
    """Why it cannot be told what was compiled again; empty where it can."""
    warn: Callable[[str], None]


class Expectations:
    """The expectations of a process that are not judged yet."""

    def __init__(self, sight: Sight) -> None:
        self.sight = sight
        self.open: list[Expected] = []

    def expect(
        self, figures: Mapping[str, Any], *, on_failure: str, after: int = 0, loop: str | None = None
    ) -> Expected:
        """Begin to expect. Raises ValueError for what cannot be read."""
        bounds = read_bounds(figures)
        if on_failure not in {"warn", "error"}:
            raise ValueError(f"expect(on_failure={on_failure!r}): 'warn' or 'error'")
        if type(after) is not int or after < 0:
            raise ValueError(f"expect(after={after!r}): give a number of steps, from 0 on")
        expected = Expected(bounds, self, raises=on_failure == "error", after=after, loop=loop)
        self.open.append(expected)
        return expected

    def recompiled(self, event: Compilation) -> None:
        """Take a recompilation, on the thread that compiled."""
        for expected in list(self.open):
            expected.recompiled(event)

    def end(self) -> str:
        """Judge all, at the end of the run. Returns what is to be raised; empty for nothing."""
        return "\n".join(filter(None, (expected.end() for expected in list(self.open))))


class Expected(AbstractContextManager["Expected"]):
    """What one call of `expect` expects, from the call or the beginning of its `with` block on."""

    def __init__(
        self, bounds: list[Bound], all_open: Expectations, *, raises: bool, after: int, loop: str | None
    ) -> None:
        self._bounds = bounds
        self._all = all_open
        self._raises = raises
        self._after = after
        self._loop = loop
        self._lock = threading.RLock()  # a signal handler that compiles may run within
        self._begin()

    def _begin(self) -> None:
        self._began = self._all.sight.steps_ended()
        self._count = 0
        self._lines: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        __tracebackhide__ = True  # what pytest shows is the block
        problem = self.end()
        if not problem:
            return
        if error is not None:  # which says more
            self._all.sight.warn(one_line(problem))
        else:
            raise ExpectationError(problem)

    def recompiled(self, event: Compilation) -> None:
        """Count a recompilation, unless it is among the first steps."""
        with self._lock:
            if self._all.sight.steps_ended() - self._began < self._after:
                return
            self._count += 1
            line = recompilation_line(event)
            if len(self._lines) < MAX_LINES or line in self._lines:
                self._lines[line] += 1

    def end(self) -> str:
        """Judge, once. Returns what is to be raised, if that was asked for; else warns."""
        if self not in self._all.open:
            return ""
        self._all.open.remove(self)
        problems = list(self._problems())
        if self._raises:
            return "\n".join(problems)
        for problem in problems:
            self._all.sight.warn(one_line(problem))
        return ""

    def _problems(self) -> Iterator[str]:
        """A text for each figure that is not as expected, or not known."""
        document: Document | None = None
        for bound in self._bounds:
            if bound.name == RECOMPILATIONS:
                yield from self._of_recompilations(bound)
                continue
            document = document or self._all.sight.document()
            value, note, whose = figure_of(document, bound.name, self._loop)
            if value is None:
                yield f"expected {bound}{whose}, and it is not known: {note}"
            elif not bound.holds(value):
                yield f"expected {bound}{whose}, and it is {digits(value)}" + (f" ({note})" if note else "")

    def _of_recompilations(self, bound: Bound) -> Iterator[str]:
        steps = self._all.sight.steps_ended() - self._began
        too_few = f"only {steps} steps have ended" if self._after and steps <= self._after else ""
        unknown = self._all.sight.why_uncounted() or too_few
        expected = f"expected {bound}" + (f" after the first {self._after} steps" if self._after else "")
        if unknown and not (bound.sign in UPPER and self._count > bound.number):
            yield f"{expected}, and it is not known: {unknown}"
        elif not bound.holds(self._count):
            lines = [
                line + (f" ({times(often)})" if often > 1 else "") for line, often in self._lines.items()
            ]
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
    """A figure, its reason or reserve, and whose it is, in words; of the main loop where none is named."""
    if name in OF_THE_PROCESS:
        process = document.get("process") or {}
        return process.get(name), process.get(f"{name}_reason") or document.get("process_reason"), ""
    found = main_loop(document) if loop is None else (loop, (document.get("loops") or {}).get(loop))
    if found is None or found[1] is None:
        reason = document.get("loops_reason") or "no such loop was seen"
        return None, reason, f" of loop {loop}" if loop is not None else ""
    return found[1].get(name), found[1].get(f"{name}_reason"), f" of loop {found[0]}"
