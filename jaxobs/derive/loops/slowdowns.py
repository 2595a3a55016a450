"""Notices a loop that has become slower for good: since when, by how much, and what changed with it.

The pace is tested in blocks of some seconds: the median of what a step takes in pieces of a second, so that a pause that
nobody marked moves nothing. Stretches of compiles and checkpoints are left out, phases lie in none.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, NamedTuple

from jaxobs.derive.executables.registry import Executables
from jaxobs.derive.loops.change_test import MAX_REFERENCE, ChangeTest
from jaxobs.derive.loops.host_lines import NOT_SAMPLED, HostLine
from jaxobs.derive.loops.stretches import MAX_COMPILING, Kind, Stretch, summed
from jaxobs.model.clock import NANOSECONDS, ClockAnchor, seconds
from jaxobs.model.events import Compilation
from jaxobs.model.figure import figure
from jaxobs.vocabulary.text import EAGER
from jaxobs.vocabulary.units import byte_size, duration, percent

PIECE_SECONDS: Final = 1.0
"""Least seconds of a piece: a loader that gives several batches at once makes steps uneven, but seldom seconds."""

BLOCK_SECONDS: Final = 10.0
MIN_PIECES: Final = 3
"""Least seconds of a block, and pieces, of which the median is taken: one of them may have a pause in it."""

TESTED: Final = (Kind.SEEN, Kind.TURNS, Kind.UNWATCHED)
"""Kinds of stretches of which it is known what their steps took."""

LASTING_SECONDS: Final = 60.0
"""A change takes at least so many seconds: below a minute it is a passing one."""

MIN_BLOCKS: Final = 3
"""The same in blocks, where a block is longer than a third of a minute."""

MIN_SHIFT: Final = math.log(1.05)
"""Logarithm of the smallest slowdown that is looked for; what is smaller than half of it is none."""

COMPARED: Final = 30
"""Blocks before a change that those after it are compared with: five minutes."""

ABOUT: Final = 30 * NANOSECONDS
"""Nanoseconds within which something happened about then: to so much a change is dated."""

CLOCK_CHANGED: Final = 0.05
"""Change of a clock, as a share of its highest, from which on it is told."""

MEMORY_CHANGED: Final = 1.1
"""Growth of memory in use from which on it is told."""

KEPT: Final = 5
"""Newest slowdowns that are shown."""

COMPILES_KEPT: Final = 200
"""Newest compiles that may have changed the pace: a slowdown is known minutes after them. Eager ones change none."""

FORGOTTEN: Final = "it took so long to be certain of it that the steps before it are no longer known"

DISTURBED: Final = (
    "compiles or checkpoints lay between all steps, so samples of its thread say nothing of them"
)


class Block(NamedTuple):
    """Some steps one after the other."""

    begin: int
    """In monotonic nanoseconds."""
    wall: float
    """Seconds that its steps took."""
    step_seconds: float
    """The median, over its pieces, of what a step took."""
    runs: frozenset[int]
    """Executables that ran in it, by number."""
    sampled: Mapping[HostLine, float]
    """Sampled seconds of the loop's thread; empty where something lay between the steps that is no step's."""


class Pace:
    """Makes blocks of stretches."""

    def __init__(self) -> None:
        self._piece = Stretch()
        self._pieces: list[Stretch] = []
        self._is_disturbed = False
        self.blocks: deque[Block] = deque()
        """Those that nobody has taken yet."""

    def add(self, stretches: Iterable[Stretch]) -> None:
        """Add stretches that ended."""
        for each in stretches:
            spent = each.compiling + each.checkpoint
            is_left_out = each.kind not in TESTED or spent > MAX_COMPILING * each.wall
            self._is_disturbed |= is_left_out or each.breaks > 0
            if is_left_out:
                continue
            self._piece.add(each)
            self._piece.wall -= spent
            if self._piece.steps and self._piece.wall >= PIECE_SECONDS:
                self._pieces.append(self._piece)
                self._piece = Stretch()
                walls = [piece.wall for piece in self._pieces]
                if len(walls) >= MIN_PIECES and sum(walls) >= BLOCK_SECONDS:
                    self._close()

    def _close(self) -> None:
        pieces, first = self._pieces, self._pieces[0]
        begin, wall = first.end - round(first.wall * NANOSECONDS), sum(each.wall for each in pieces)
        step_seconds = statistics.median(each.wall / each.steps for each in pieces)
        runs = frozenset(run for each in pieces for run in each.runs if run > 0)
        sampled = {} if self._is_disturbed else summed(pieces).sampled
        self.blocks.append(Block(begin, wall, step_seconds, runs, sampled))
        self._pieces, self._is_disturbed = [], False


class State(NamedTuple):
    """What is known of the process at one moment beside its loops: by device, and memory by what holds it."""

    clocks: Mapping[int, float] = {}
    throttled: frozenset[tuple[int, str]] = frozenset()
    memory: Mapping[str, float] = {}


_Blocks = Sequence[tuple[Block, State]]
"""Blocks with the state at the end of each."""


@dataclass(frozen=True, slots=True)
class Slowdown:
    """A loop that takes longer for a step since `began`, or did until `ended`. Times are monotonic nanoseconds."""

    loop: str
    began: int
    before: float
    """Seconds of a step."""
    after: float
    parts: Mapping[str, tuple[float, float]]
    """Seconds of a step before and after, by what the loop's thread did; empty where that is not known."""
    activity: str | None
    """What grew most."""
    line: str | None
    """Where that grew most."""
    reason: str
    """Why these are not known."""
    facts: tuple[str, ...]
    """What else changed about then."""
    ended: int | None = None

    @property
    def ratio(self) -> float:
        return self.after / self.before

    def to_dict(self, now: int, began: int, clock: ClockAnchor, gone: int | None = None) -> dict[str, Any]:
        """The slowdown as plain data; `began` is the start of the job, `gone` the end of a loop that is over."""
        ended = self.ended or gone
        return {
            "loop": self.loop,
            "began_timestamp_seconds": clock.unix_seconds(self.began),
            "began_seconds": seconds(self.began - began),
            "seconds": seconds((ended or now) - self.began),
            "over": ended is not None,
            "step_seconds_before": self.before,
            "step_seconds": self.after,
            "ratio": self.ratio,
            **figure(self.activity, self.reason).under("activity"),
            **figure(self.line, self.reason).under("line"),
            "parts": {name: {"before": old, "after": new} for name, (old, new) in self.parts.items()},
            "facts": list(self.facts),
        }


@dataclass(slots=True)
class _Watched:
    """A loop's test, and the newest blocks that it was given, each with the state at its end."""

    test: ChangeTest = field(default_factory=lambda: ChangeTest(MIN_SHIFT))
    blocks: deque[tuple[Block, State]] = field(default_factory=lambda: deque(maxlen=2 * MAX_REFERENCE))


class Slowdowns:
    """Watches the pace of a job's loops."""

    def __init__(self) -> None:
        self.alarms_per_hour = 0.001
        """False alarms of an hour of a loop, on average; with 0 nothing is tested."""
        self.kept: deque[Slowdown] = deque(maxlen=KEPT)
        """The newest slowdowns, the newest last, and of older ones those that last."""
        self.count: Counter[str] = Counter()
        """How many there were, by loop."""
        self._loops: defaultdict[str, _Watched] = defaultdict(_Watched)
        self._compiled: deque[Compilation] = deque(maxlen=COMPILES_KEPT)
        self._news: list[Slowdown] = []

    def take_news(self) -> list[Slowdown]:
        """Take the slowdowns that were found or ended since the last call."""
        news, self._news = self._news, []
        return news

    def ratio(self, loop: str) -> float | None:
        """How many times as long as before its slowdowns a step takes; None while the usual pace is learned."""
        if lasting := self._lasting(loop):
            return lasting[-1].after / lasting[0].before
        return None if self._loops[loop].test.mean is None else 1.0

    def began(self, loop: str) -> int | None:
        """When the newest slowdown began that lasts; None where none does."""
        lasting = self._lasting(loop)
        return lasting[-1].began if lasting else None

    def _lasting(self, loop: str) -> list[Slowdown]:
        return [each for each in self.kept if each.loop == loop and each.ended is None]

    def compiled(self, event: Compilation) -> None:
        if event.function != EAGER:
            self._compiled.append(event)

    def look(self, paces: Mapping[str, Pace], state: State, executables: Executables) -> None:
        """Test the blocks of these loops that ended since the last call."""
        for name, pace in paces.items():
            while pace.blocks:
                block = pace.blocks.popleft()
                if self.alarms_per_hour > 0:
                    self._test(name, block, state, executables)

    def _test(self, name: str, block: Block, state: State, executables: Executables) -> None:
        watched = self._loops[name]
        watched.blocks.append((block, state))
        usual = statistics.median(each.wall for each, _ in watched.blocks)
        lately = statistics.median(each.wall for each, _ in list(watched.blocks)[-MIN_BLOCKS:])
        changed = watched.test.add(
            math.log(block.step_seconds),
            false_alarms=min(0.5, self.alarms_per_hour * usual / 3600),
            lasting=max(MIN_BLOCKS, math.ceil(LASTING_SECONDS / lately)),
        )
        if changed is None:
            return
        blocks = list(watched.blocks)
        first = max(0, len(blocks) - changed.values)
        before, after = blocks[max(0, first - COMPARED) : first], blocks[first:]
        began, level = after[0][0].begin, math.exp(changed.after)
        if changed.after <= changed.before:
            self._faster(name, began, level)
            return
        if level <= _usual(after, blocks[:first]) * math.exp(MIN_SHIFT):
            return
        parts = _parts([block for block, _ in before], [block for block, _ in after])
        both = before, after
        facts = chain(_compiled(self._compiled, began), _ran(*both, executables), _changed_state(*both))
        found = Slowdown(name, began, math.exp(changed.before), level, *parts, tuple(facts) if before else ())
        self.count[name] += 1
        if len(self.kept) == KEPT:  # what is over goes first
            self.kept.remove(next((each for each in self.kept if each.ended is not None), self.kept[0]))
        self.kept.append(found)
        self._news.append(found)

    def _faster(self, name: str, at: int, level: float) -> None:
        """The loop has become faster: a slowdown is over where the pace of before is back."""
        for place, each in enumerate(self.kept):
            if each.loop == name and each.ended is None:
                is_over = level <= each.before * math.exp(MIN_SHIFT)
                self.kept[place] = replace(each, ended=at) if is_over else replace(each, after=level)
                if is_over:
                    self._news.append(self.kept[place])


def _usual(after: _Blocks, before: _Blocks) -> float:
    """What a step took so far where the same was run as in most blocks after a change; 0.0 where it never was.

    Batches of another length that come back, as where they are sorted by it, are no slowdown.
    """
    runs = Counter(block.runs for block, _ in after).most_common(1)[0][0]
    took = [block.step_seconds for block, _ in before if block.runs == runs]
    return statistics.median(took) if took else 0.0


def _parts(
    before: Sequence[Block], after: Sequence[Block]
) -> tuple[Mapping[str, tuple[float, float]], str | None, str | None, str]:
    """Seconds of a step by activity before and after; what grew most, and at which line; or why that is not known."""
    if not before:
        return {}, None, None, FORGOTTEN
    old, new = _by_line(before), _by_line(after)
    if not old or not new:
        sampled = any(block.sampled for block in (*before, *after))
        return {}, None, None, DISTURBED if sampled else NOT_SAMPLED
    grew = {line: new[line] - old[line] for line in new.keys() | old.keys()}
    parts: dict[str, tuple[float, float]] = {}
    for line in grew:
        so_far = parts.get(line.activity, (0.0, 0.0))
        parts[line.activity] = so_far[0] + old[line], so_far[1] + new[line]
    activity = max(parts, key=lambda word: parts[word][1] - parts[word][0])
    place = max((line for line in grew if line.activity == activity), key=lambda line: grew[line])
    return dict(sorted(parts.items(), key=lambda part: -part[1][1])), activity, place.line, ""


def _by_line(blocks: Sequence[Block]) -> Counter[HostLine]:
    """Seconds of a step by line, from the shares that samples have there; empty without any."""
    found: Counter[HostLine] = Counter()
    for block in blocks:
        found.update(block.sampled)
    total = sum(found.values())
    a_step = statistics.median(block.step_seconds for block in blocks) if blocks else 0.0
    for line in found:
        found[line] *= a_step / total  # type: ignore[assignment]  # Counter holds floats as well
    return found


def _compiled(compilations: Iterable[Compilation], began: int) -> Iterator[str]:
    for event in compilations:
        apart = event.time - began
        if abs(apart) <= ABOUT:
            again = f" again ({event.recompilation})" if event.recompilation else ""
            side = "before" if apart < 0 else "after"
            yield f"`{event.function}` was compiled{again} {duration(seconds(abs(apart)))} {side}"


def _ran(before: _Blocks, after: _Blocks, executables: Executables) -> Iterator[str]:
    """Executables that the loop runs since then and did not run before."""
    ran = frozenset[int]().union(*(block.runs for block, _ in before))
    runs = frozenset[int]().union(*(block.runs for block, _ in after[1:]))
    for function in sorted({executables.function_of(run) for run in runs - ran}):
        yield f"it runs an executable of `{function}` that it did not run before"


def _changed_state(before: _Blocks, after: _Blocks) -> Iterator[str]:
    """Clocks, throttling and memory that differ between before and after, in medians and in most blocks."""
    old, new = [state for _, state in before], [state for _, state in after]
    for device in new[-1].clocks:
        clocks = [[each.clocks[device] for each in states if device in each.clocks] for states in (old, new)]
        was, now = (statistics.median(found) if found else None for found in clocks)
        if was is not None and now is not None and abs(now - was) >= CLOCK_CHANGED:
            yield f"the clock of device {device} went from {percent(was)} to {percent(now)} of its highest"
    for device, why in sorted(new[-1].throttled):
        held = [sum((device, why) in state.throttled for state in states) for states in (old, new)]
        if 2 * held[0] <= len(old) and 2 * held[1] > len(new):
            yield f"device {device} is throttled: {why}"
    for name, now in new[-1].memory.items():
        sizes = [state.memory[name] for state in old if name in state.memory]
        if sizes and now > MEMORY_CHANGED * statistics.median(sizes):
            yield f"memory of {name} grew from {byte_size(statistics.median(sizes))} to {byte_size(now)}"
