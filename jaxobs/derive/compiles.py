"""Compiles: how many, how long and of which function, what was compiled again and why, what the cache saved.

A function that is compiled while another one is traced is counted by itself: of a recompile, its seconds are subtracted
from those of the function around it, so that no second is in two rows.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import le
from typing import Any, Final

from jaxobs.derive.catalogue import COMPILE_BUCKETS
from jaxobs.derive.refusal import require
from jaxobs.derive.series import Heaviest, Histogram
from jaxobs.model import events
from jaxobs.model.clock import seconds
from jaxobs.model.contents import CACHED_FROM, LONG_COMPILE, Contents
from jaxobs.model.cost import NOT_ANALYSED
from jaxobs.model.events import CACHE_SECONDS_SAVED, Compilation, CompilePhaseEnded, ExecutableCreated
from jaxobs.model.figure import REASON_WHERE_ABSENT, Figure, figure, plain
from jaxobs.model.intervals import Span, joined, overlap
from jaxobs.vocabulary.text import EAGER
from jaxobs.vocabulary.words import CAUSES, PHASES

MAX_LISTED: Final = 300
"""Functions listed in a snapshot: of thousands that were compiled, those that took longest matter."""

MAX_ROWS: Final = 50
"""Distinct (cause, argument, call site) kept for each function; more are summed by cause alone."""

MAX_SPANS: Final = 1_000
"""Stretches of compiles remembered for each thread. Where a function makes more executables than this while it is
traced, the time of the oldest of them is counted as its own."""

LOST_IN: Final = ("trace", "lower", "backend")
"""Phases whose time a recompile costs. Reading the persistent cache is part of the backend phase."""

LONG_USE: Final = 10
"""How many times as long as a larger shape took to compile, the one before it was in use, if sizes grow on purpose."""

SHAPE: Final = re.compile(r"\[(\d+(?:,\d+)*)\]")

NOT_COMPILED = "nothing was compiled yet"
NOT_LONG = f"none of its compiles took more than {LONG_COMPILE:.0f} s"
NO_ARGUMENT = {
    "redefined": "the function itself is new, not an argument",
    "context": "a setting changed, not an argument",
}


@dataclass(frozen=True, slots=True)
class RecompilationView:
    """Recompiles of a function for one reason, with the latest example of it."""

    cause: str
    argument: Figure[str]
    old: Figure[str]
    new: Figure[str]
    differences: int
    call_site: Figure[str]
    count: int
    seconds: float
    grows: bool
    """Whether a shape grew each time, from one that had been in use for a long time: as sizes do that grow on purpose."""


@dataclass(frozen=True, slots=True)
class LongCompile:
    """The longest compile of a function that has a long one; `seconds` by phase, `backend` with `cache_read` in it."""

    executable: int
    whole_seconds: float
    seconds: Mapping[str, float]
    persistent_cache: str
    contents: Figure[Mapping[str, Any]]
    """What its module holds, as plain data of `jaxobs.model.contents.Contents`."""


@dataclass(frozen=True, slots=True)
class FunctionView:
    """What compiling a function took; `seconds` are by phase."""

    compilations: int
    recompilation_count: int
    recompilations: Sequence[RecompilationView]
    """The most expensive reason first."""
    seconds: Mapping[str, float]
    long_compile: Figure[LongCompile] = field(metadata=REASON_WHERE_ABSENT)


@dataclass(frozen=True, slots=True)
class PersistentCacheView:
    """What is shown of the cache. `enabled` is that of the latest compile, with a reason where other compiles differed.

    `seconds_without` is the compile time with the cache off, `seconds_not_kept` the part of it for programs that the
    cache would have kept.
    """

    enabled: Figure[bool]
    hits: int
    misses: int
    compilations_without: int
    seconds_saved: float
    seconds_without: float
    seconds_not_kept: float


@dataclass(frozen=True, slots=True)
class CompilationView:
    """All that is shown of compiles at one moment."""

    functions: Mapping[str, FunctionView]
    """Functions by name, with the most seconds first."""
    left_out: Figure[int]
    """How many functions are not listed."""
    left_out_seconds: float
    changed: Mapping[str, FunctionView]
    """Every function that was compiled since the view before this one, listed or not."""
    with_series: frozenset[str]
    """Functions with series of their own."""
    persistent_cache: PersistentCacheView


class Compiles:
    """Counts and seconds of compiles by function and phase; `series_limit` functions have series of their own."""

    def __init__(self, series_limit: int) -> None:
        self._with_series: Heaviest[str] = Heaviest(series_limit)
        self._largest: Heaviest[str] = Heaviest(MAX_LISTED, 1.0)
        self._count: Counter[str] = Counter()
        self._seconds: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._weights: dict[str, tuple[float, ...]] = {}
        self._seconds_in_all = 0.0
        self._changed: set[str] = set()
        self._listed: dict[str, FunctionView] = {}
        self._long: dict[str, LongCompile] = {}
        self.phases: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(COMPILE_BUCKETS))
        self.recompilations = Recompilations()
        self.cache = PersistentCache()

    def phase_ended(self, event: CompilePhaseEnded) -> None:
        require(event.end >= event.start and event.exclusive >= 0, "a compile phase of negative duration")
        own = seconds(event.exclusive)
        self._seconds_in_all += own
        self._seconds[event.function][event.phase] += own  # type: ignore[assignment]  # Counter adds floats as well
        self._changed.add(event.function)
        self.phases[event.phase].observe(own)

    def compiled(self, event: Compilation) -> None:
        self._count[event.function] += 1
        self._changed.add(event.function)
        self.recompilations.compiled(event)
        self.cache.compiled(event)
        spent = {phase: seconds(end - start) for phase, start, end in event.phases}
        whole = sum(spent.get(phase, 0.0) for phase in LOST_IN)
        known = self._long.get(event.function)
        if whole > (known.whole_seconds if known else LONG_COMPILE) and event.function != EAGER:
            unread: Figure[Mapping[str, Any]] = Figure(None, NOT_ANALYSED)
            self._long[event.function] = LongCompile(
                event.executable, whole, spent, event.persistent_cache, unread
            )

    def created(self, event: ExecutableCreated) -> None:
        """Note why a module cannot be read."""
        if event.proto is None:
            self.analysed(event.function, event.executable, None, event.proto_reason)

    def analysed(self, function: str, executable: int, contents: Contents | None, reason: str) -> None:
        """Add what the module of an executable holds, where it took long to compile."""
        known = self._long.get(function)
        if known is not None and known.executable == executable:
            found: Figure[Mapping[str, Any]] = figure(plain(contents), reason)
            self._long[function] = replace(known, contents=found)
            self._changed.add(function)

    def view(self) -> CompilationView:
        """The view of now. Its cost grows with the functions that changed since the last one, not with all of them."""
        changed, self._changed = sorted(self._changed), set()
        for name in changed:
            self._weights[name] = (sum(self._seconds[name].values()), float(self._count[name]))
        views = {name: self._function(name) for name in changed}
        with_series = frozenset(self._with_series.choose(self._weights, changed))
        known, largest = self._listed | views, self._largest.choose(self._weights, changed)
        self._listed = {name: known.get(name) or self._function(name) for name in largest}
        left_out = len(self._weights) - len(self._listed)
        listed = sum(self._weights[name][0] for name in self._listed)
        return CompilationView(
            self._listed,
            Figure(left_out, f"the {MAX_LISTED} with the most seconds are listed" if left_out else None),
            max(0.0, self._seconds_in_all - listed) if left_out else 0.0,
            views,
            with_series,
            self.cache.view,
        )

    def _function(self, name: str) -> FunctionView:
        reasons = self.recompilations.views(name)
        return FunctionView(
            self._count[name],
            sum(reason.count for reason in reasons),
            reasons,
            {phase: float(self._seconds[name].get(phase, 0.0)) for phase in PHASES},
            figure(self._long.get(name), NOT_LONG),
        )


class Recompilations:
    """Seconds by cause, and a ranked table of reasons for each function."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(CAUSES, 0.0)
        """By cause."""
        self._reasons: defaultdict[str, dict[tuple[Any, ...], RecompilationView]] = defaultdict(dict)
        self._inner: defaultdict[int, deque[Span]] = defaultdict(lambda: deque(maxlen=MAX_SPANS))
        self._last: dict[str, int] = {}
        """When each function was compiled last."""

    def compiled(self, event: Compilation) -> None:
        """Count a recompile. A first compile has no row, but its time is subtracted from a recompile around it."""
        own = self._own_time(event)
        used = event.time - own - self._last.get(event.function, event.time)
        self._last[event.function] = event.time
        if event.recompilation is None:
            return
        lost, cause = seconds(own), event.recompilation
        self.seconds[cause] = self.seconds.get(cause, 0.0) + lost
        known: dict[str, Any] = dict(event.attributes)
        reasons = self._reasons[event.function]
        key: tuple[Any, ...] = cause, known.get(events.MISS_ARGUMENT), call_site(known)
        if key not in reasons and len(reasons) >= MAX_ROWS:
            key, known = (cause,), {}
        before = reasons.get(key)
        old, new = known.get(events.MISS_OLD), known.get(events.MISS_NEW)
        grows = cause == "shape" and _is_larger(old, new) and used >= LONG_USE * own
        why_not = known.get(events.MISS_REASON) or NO_ARGUMENT.get(cause, "too many reasons to keep each")
        reasons[key] = RecompilationView(
            cause,
            figure(known.get(events.MISS_ARGUMENT), why_not),
            figure(old, why_not),
            figure(new, why_not),
            known.get(events.MISS_DIFFERENCES, 0),
            figure(call_site(known), "no frame of the program's own was seen, or it was called from several"),
            1 + (before.count if before else 0),
            lost + (before.seconds if before else 0.0),
            grows and (before is None or before.grows),
        )

    def _own_time(self, event: Compilation) -> int:
        """Nanoseconds of its phases, less those of executables made within them, which were reported earlier."""
        phases = joined((start, end) for name, start, end in event.phases if name in LOST_IN and end > start)
        if not phases:
            return 0
        earlier, within = self._inner[event.thread], []
        while earlier and earlier[-1][1] > phases[0][0]:
            within.append(earlier.pop())
        inner = sum(overlap(one, phase) for one in within for phase in phases)
        earlier.extend(joined([*within, *phases]))
        return sum(end - start for start, end in phases) - inner

    def views(self, function: str) -> list[RecompilationView]:
        """The reasons for a function's recompiles, the most expensive first."""
        reasons = self._reasons.get(function, {}).values()
        return sorted(reasons, key=lambda each: (-each.seconds, -each.count))


def _is_larger(old: object, new: object) -> bool:
    """Whether of two shapes, such as `int32[8,128]`, the second is smaller in no dimension and larger in one."""
    before, after = (
        [int(part) for part in found[1].split(",")] if (found := SHAPE.search(str(each))) else []
        for each in (old, new)
    )
    return before != after and len(before) == len(after) and all(map(le, before, after))


def call_site(attributes: Mapping[str, Any]) -> str | None:
    """The user's file and line, such as `/home/ada/train.py:42`."""
    path, line = attributes.get(events.CALL_FILE), attributes.get(events.CALL_LINE)
    return None if path is None else f"{path}:{line}"


class PersistentCache:
    """Counts hits and misses of JAX's persistent compilation cache as the compiles themselves report them.

    JAX's settings are not read instead: it looks for its cache once, so a cache that is set later may stay off.
    """

    def __init__(self) -> None:
        self.view = PersistentCacheView(Figure(None, NOT_COMPILED), 0, 0, 0, 0.0, 0.0, 0.0)
        self.seconds_gained = 0.0
        """Seconds that it saved where reading it took no longer than compiling: these never fall."""

    def compiled(self, event: Compilation) -> None:
        """Count one executable: a hit, a miss, or compiled with the cache off."""
        known, outcome = self.view, event.persistent_cache
        off = outcome == "off"
        spent = seconds(sum(max(0, end - start) for phase, start, end in event.phases if phase == "backend"))
        saved = dict(event.attributes).get(CACHE_SECONDS_SAVED)
        if not (isinstance(saved, (int, float)) and math.isfinite(saved)):
            saved = 0.0
        self.seconds_gained += max(0.0, saved)
        hits, misses = known.hits + (outcome == "hit"), known.misses + (outcome == "miss")
        without = known.compilations_without + off
        compilations = hits + misses + without
        mixed = f"of the latest compile: {without:,} of {compilations:,} could not use the cache"
        self.view = PersistentCacheView(
            Figure(not off, mixed if 0 < without < compilations else None),
            hits,
            misses,
            without,
            known.seconds_saved + saved,
            known.seconds_without + off * spent,
            known.seconds_not_kept + (spent if off and spent >= CACHED_FROM else 0.0),
        )
