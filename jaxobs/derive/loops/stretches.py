"""A loop's time by completed steps: what lies between two completions that were seen is a stretch.

Each device finishes in order what one thread dispatched, so one completion tells that all steps before it are done. Where
the host waits for the device in each step, or nothing is watched, the host's own clock tells as much, and each turn is a
stretch. Every figure of a loop is a function of its newest stretches.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import takewhile

from jaxobs.derive.loops.host_lines import HostLine, HostLines
from jaxobs.derive.refusal import require
from jaxobs.derive.series import MAX_VALUE
from jaxobs.derive.steps import StepLog, Steps
from jaxobs.model.clock import NANOSECONDS, each_in_seconds, seconds
from jaxobs.model.events import StepCompleted, TurnsAsked

WINDOW = 30 * NANOSECONDS
"""Nanoseconds that rates, MFU and bottleneck cover: two scrapes at 15 s, the interval of Prometheus's example file."""

LATE = 3
"""Steps' time after which a loop that ends none has no rates any more, where that is longer than WINDOW."""

FEW_STEPS = 2
"""Steps of long ago that are kept where there are no newer ones: enough for the label of a loop of long steps."""

MIN_SPACED_STEPS = 8
"""Fewest steps of a spacing that tells what a run takes: over this many the polls' uncertainty at both ends, at most a
tenth of a step, is about a hundredth."""

IN_FLIGHT = 32
"""Steps by which a host can be ahead of the device (PJRT's `max_inflight_computations`)."""

MAX_DOUBT = 0.1
"""Largest share of a stretch that may be in doubt: what can be in flight where its ends were not seen, or where the host
was elsewhere in it."""

POLLED = 1_000_000
"""Nanoseconds by which a completion that was polled closely may be off: what one stretch has too much the next has too
little. It is the least time between two polls (`MIN_POLL` of the probe)."""

MAX_COMPILING = 0.1
"""Share of compiles from which on a stretch is in no rate."""

COMPLETIONS_MISSING = 10 * NANOSECONDS
"""Nanoseconds of steps without a completion, or three stretches if that is longer, after which none is waited for."""

ASKED, ENOUGH = 5, 3
"""Newest reports of turns that were asked by which it is judged whether the host waits for the device in each step, and
fewest turns in them: their outputs were finished."""

WAITS = 0.9
"""Share of turns whose output was ready at their end above which the host waits in each: one may end a little early. They
are chosen by count and say it without bias; completions are met most in the turns that wait, as these take longest."""

STEPS_REMEMBERED = 20_000
"""Steps that are kept until completions of them arrive, between two of which lie 5 000 of 0.1 ms, and the profiler window
that holds them: two seconds of these."""

PASSES_REMEMBERED = 100
"""Passes through a loop of which it is kept that their end is not known: some 10 s of passes of a tenth of a second."""

COMPLETIONS_WAITING = 8
"""Completions kept that came before the end of their step was known; the oldest are dropped first."""


class Kind(enum.Enum):
    """What is known of a stretch's length."""

    SEEN = "completions were seen at both ends"
    TURNS = "the host's turns, as it waits for the device in each step"
    UNWATCHED = "the host's turns, as nothing is watched"
    UNSEEN = "the host's turns, as no completion was seen"
    DOUBTFUL = "the host was elsewhere while the device may have worked for the loop"


@dataclass(slots=True)
class Stretch:
    """What lies between two completions, or several such summed. Parts of the host's turns lie over the same time."""

    kind: Kind = Kind.SEEN
    end: int = 0  # in monotonic nanoseconds
    wall: float = 0.0
    steps: int = 0
    nested: float = 0.0  # of loops and phases inside its steps: no part of `wall`
    compiling: float = 0.0
    left_out: float = 0.0  # of compiles that are not part of `wall`, as all steps compiled
    input: float = 0.0
    checkpoint: float = 0.0
    examples: float = 0.0
    tokens: float = 0.0
    breaks: int = 0  # how often the host was elsewhere
    runs: Counter[int] = field(default_factory=Counter)
    """Watched calls by number, as in `StepEnded.runs`."""
    within: Counter[int] = field(default_factory=Counter)
    """Nanoseconds in which a run of that number was at all."""
    beside: Counter[int] = field(
        default_factory=Counter
    )  # watched calls on other threads meanwhile, by number
    sampled: defaultdict[HostLine, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds at which the loop's thread was seen, by line and activity."""
    turns: list[float] = field(default_factory=list)
    """Seconds of each step, where they are known one by one."""
    spacing: tuple[int, ...] = ()
    """What each of its steps ran, where that is the same for all and nothing else took time."""
    alone: bool = False
    """Whether it is one run, in a step that began when the device was idle: nothing worked beneath its compile."""
    open_ended: bool = False
    """Whether it may have been over before its end: the host was elsewhere before another loop, nobody saw since when."""
    doubtful: float = 0.0
    """Seconds of `wall` in which the device may have worked for others, or on what was dispatched before."""
    ahead: bool = False
    """Whether the host was ahead of the device throughout, which then worked all the time: it never waited of late."""
    worked: float = 0.0  # seconds that began with all steps dispatched: the device was busy in them
    worked_steps: int = 0

    @property
    def compiled(self) -> bool:
        """Whether compiles took too much of it for a rate."""
        return self.compiling > MAX_COMPILING * self.wall

    def add(self, other: Stretch) -> None:
        """Add the amounts of another stretch."""
        self.end = max(self.end, other.end)
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.examples = min(self.examples + other.examples, MAX_VALUE)
        self.tokens = min(self.tokens + other.tokens, MAX_VALUE)
        for mine, its in ((self.runs, other.runs), (self.within, other.within), (self.beside, other.beside)):
            for run, count in its.items():  # `Counter.update` takes three times as long
                mine[run] += count
        for line, spent in other.sampled.items():
            self.sampled[line] += spent

    def add_turns(self, steps: Steps) -> None:
        """Add what the host did in these steps; the wall time is not theirs alone, and is set elsewhere."""
        self.steps += len(steps)
        self.nested += seconds(steps.nested)
        self.compiling += seconds(steps.compiling)
        self.input += seconds(steps.input_wait)
        self.checkpoint += seconds(steps.checkpoint)
        self.examples += steps.amounts["examples"] or 0.0
        self.tokens += steps.amounts["tokens"] or 0.0
        for run, count in steps.runs.items():
            self.runs[run] += count


_SUMMED = (
    "wall", "doubtful", "worked", "worked_steps", "nested", "steps", "compiling", "input", "checkpoint", "breaks",
)  # fmt: skip


@dataclass(slots=True)
class Entry:
    """A loop's first step after those of another loop on its thread, which the device does before it."""

    step: int
    behind: int
    """The last of the other loop's steps that was dispatched before it."""
    until: int = 0
    """When the device was done with the newest of these, as far as is known: until then it worked for the other loop."""
    is_over: bool = False
    """Whether it was done with all of them."""


def summed(stretches: Iterable[Stretch]) -> Stretch:
    """The sum of stretches."""
    whole = Stretch()
    for each in stretches:
        whole.add(each)
    return whole


class Stretches:
    """The stretches of one loop: those that ended since the last `take`, and sums of those of the last half minute.

    Each is given to `observe` as soon as it has ended.
    """

    def __init__(self, observe: Callable[[Stretch], None]) -> None:
        self._observe = observe
        self.watched = False
        """Whether any step has called a watched function, so that completions can be seen."""
        self.log = StepLog(STEPS_REMEMBERED)
        """The loop's newest steps."""
        self._open: deque[Steps] = deque()
        """Steps that the host has ended and that are in no stretch yet."""
        self.open_ended: deque[int] = deque(maxlen=PASSES_REMEMBERED)
        """Steps of which it is not known when the host was done with them before it turned to another loop."""
        self._mark: int | None = None
        """When the device was done with all steps before the open ones, as far as is known."""
        self._mark_seen = False
        self._in_doubt = False
        """Whether it is not known that the device was done at the mark."""
        self._tail = 0
        """Nanoseconds after the newest step in which the loop waited for an item that never came, until it was left."""
        self._left = 0
        self._entries: dict[int, Entry] = {}
        """Steps behind those of other loops, by their number, that are in no stretch yet."""
        self._followers: list[Entry] = []
        """Steps of other loops that the device does after open ones of this."""
        self._waiting: deque[StepCompleted] = deque(maxlen=COMPLETIONS_WAITING)
        self.done: int | None = None
        """The newest step with which the device was seen to be done."""
        self._asked: deque[TurnsAsked] = deque(maxlen=ASKED)
        self.host_waits = False
        """Whether the host waits for the device in each step, so that its turns are the steps."""
        self.idle_at_ends = 0.0
        """The share of turns at whose end the device was known to be idle, as it was done with their output."""
        self._paces: deque[float] = deque(maxlen=ASKED)
        """Nanoseconds of a step in the newest stretches of enough steps."""
        self._patience = COMPLETIONS_MISSING
        self._ended: list[Stretch] = []
        self._kept: deque[Stretch] = deque()
        self.newest: tuple[int, float] | None = None
        """The newest step of which the spacing of completions is known, and that, s."""

    @property
    def pending_since(self) -> int | None:
        """When the time began that is in no stretch yet; None where there is no such time."""
        return max(self._mark or 0, self._open[0].begin) if self._open else None

    def steps_ended(self, steps: Steps) -> list[StepCompleted]:
        """The host has ended steps; returns their completions that came earlier."""
        self.watched = self.watched or bool(steps.runs)
        self.log.append(steps)
        if steps.last in self.open_ended and len(steps) > 1:
            self._open.append(steps.cut(0, len(steps) - 1))
            steps = steps.cut(len(steps) - 1, len(steps))
        self._open.append(steps)
        self._tail = 0
        completed = []
        while self._waiting and self._waiting[0].step <= steps.last:
            completed.append(self._waiting.popleft())
            self._complete(completed[-1])
        if not self.watched:
            self._close_by_turns(Kind.UNWATCHED)
        elif self.host_waits:
            self._close_by_turns(Kind.TURNS)
        elif self._is_late(steps.begin):
            self._close_by_turns(Kind.UNSEEN)
        return completed

    def loop_ended(self, input_wait: int, time: int) -> None:
        """The iteration is over, and has waited so long for an item that never came."""
        self._tail, self._left = input_wait, time
        if not self._open:
            self._close_tail(Kind.TURNS if self.watched else Kind.UNWATCHED)

    def completed(self, event: StepCompleted) -> None:
        """The device is done with a step; this waits until the host's turns up to that step are known."""
        if self.log.of(event.step) is not None:
            self._complete(event)
        else:
            self._waiting.append(event)

    def asked(self, event: TurnsAsked) -> None:
        require(0 <= event.ready <= event.asked, "more turns with a finished output than were asked")
        self._asked.append(event)
        asked, ready = sum(each.asked for each in self._asked), sum(each.ready for each in self._asked)
        self.host_waits = asked >= ENOUGH and ready > WAITS * asked
        self.idle_at_ends = 1.0 if self.host_waits else ready / max(1, asked)
        if self.watched and self.host_waits:
            self._close_by_turns(Kind.TURNS)

    def followed_by(self, others: Stretches, steps: Steps) -> None:
        """Another loop's next steps are these, done after what the device still has of this loop, unless around it."""
        newest = self.log.newest
        if newest is not None and newest.end <= steps.begin:
            is_over = not (self._open or self._in_doubt)
            entry = Entry(steps.first, newest.last, self._mark or 0, is_over)
            others._entries[steps.first] = entry
            if not is_over:
                self._followers.append(entry)

    def take(self, now: int, host: HostLines, *, wait: bool, final: bool) -> list[Stretch]:
        """Take the stretches that ended since the last call, the last of them with what `host` has seen since then.

        `wait`: a run is known to be under way for long, so completions are still to come. `final`: none is.
        """
        if final or (not wait and self._open and self._is_late(now)):
            self._close_by_turns(Kind.UNSEEN)
        ended, self._ended = self._ended, []
        if ended:
            ended[-1].sampled = host.take(ended[-1].end)
        by_kind: dict[tuple[Kind, bool, bool], Stretch] = {}
        for each in ended:
            if each.open_ended:  # it is not known what of it was the loop's time
                continue
            key = (each.kind, each.compiled, each.alone)
            by_kind.setdefault(key, Stretch(each.kind, alone=each.alone)).add(each)
        self._kept.extend(by_kind.values())
        self._forget_old()
        return ended

    def whole(self) -> Stretch:
        """The sum of the newest stretches."""
        return summed(self._kept)

    def rated(self) -> Stretch:
        """The sum of those that rates are over: not in doubt, and without much compiling, unless all are like that.

        Where the ends of many steps were not seen, those that were do not stand for the others, as they may be of a time
        when the machine was faster. A few are no such thing: with them a loop ends, whose last output is gone before the
        device is done with it.
        """
        told = [each for each in self._kept if each.kind is not Kind.DOUBTFUL]
        known = [each for each in told if each.kind is not Kind.UNSEEN]
        unseen = summed(each for each in told if each.kind is Kind.UNSEEN)
        if unseen.steps > MAX_DOUBT * sum(each.steps for each in told):
            whole = summed(each for each in told if not each.compiled)
            # Of 320 unbroken steps those that may be in flight are few.
            if whole.steps * MAX_DOUBT >= IN_FLIGHT * (1 + unseen.breaks):
                return replace(whole, kind=Kind.UNSEEN)
        newest = takewhile(lambda each: each.kind is Kind.UNSEEN or not each.steps, reversed(self._kept))
        few = sum(each.steps for each in known) < MAX_DOUBT * sum(each.steps for each in self._kept)
        known = [] if few or summed(newest).wall > seconds(self._patience) else known
        whole = summed(each for each in known if not each.compiled)
        if not whole.steps and summed(known).steps >= unseen.steps:
            # Where only completions tell, the device may have worked beneath the compiles.
            whole = summed(each for each in known if each.kind is not Kind.SEEN or each.alone)
            whole = replace(whole, wall=whole.wall - whole.compiling, compiling=0.0, left_out=whole.compiling)
        if any(each.kind is Kind.SEEN for each in known):
            whole.kind = Kind.SEEN
        elif known:
            whole.kind = known[-1].kind
            if whole.kind is Kind.UNWATCHED and summed(known).wall < 1.0:
                whole = Stretch(Kind.UNWATCHED)
        return whole if whole.steps else Stretch(Kind.UNSEEN)

    @property
    def kinds(self) -> set[Kind]:
        """The kinds of the newest stretches."""
        return {each.kind for each in self._kept}

    def turn_of(self, step: int) -> float | None:
        """Seconds of a step's turn, if it is remembered."""
        found = self.log.of(step)
        return None if found is None else seconds(found.turns[step - found.first])

    def _is_late(self, now: int) -> bool:
        """Whether no completion has come for too long, though there are steps to complete."""
        return now - (self.pending_since or now) > self._patience

    def _complete(self, event: StepCompleted) -> None:
        found, newest = self.log.of(event.step), self.log.newest
        if found is None or newest is None:
            return
        self.done = event.step
        at = event.step - found.first
        since = self.pending_since or 0
        if event.step < newest.last and event.uncertainty > POLLED + MAX_DOUBT * (event.time - since):
            return  # a later one is known better
        if self.host_waits:
            self._close_by_turns(Kind.TURNS)
        elif steps := self._take_through(event.step):
            host_ended = found.begin if event.step in self.open_ended else found.ends[at]
            self._close(steps, max(event.time, host_ended), event.uncertainty)
        elif self._mark is not None and event.time > self._mark:
            # The device was behind what was told by the host's turns.
            self._mark, self._mark_seen, self._in_doubt = event.time, True, False
        for entry in self._entries.values():
            entry.is_over |= entry.step <= event.step

    def _take_through(self, step: int) -> list[Steps]:
        """Take the open steps up to that one; none where it is not among them."""
        place = next((n for n, steps in enumerate(self._open) if steps.first <= step <= steps.last), None)
        if place is None:
            return []
        taken = [self._open.popleft() for _ in range(place)]
        last = self._open.popleft()
        cut = step - last.first + 1
        if cut < len(last):
            self._open.appendleft(last.cut(cut, len(last)))
        return [*taken, last.cut(0, cut)]

    def _close(self, steps: list[Steps], end: int, uncertainty: int) -> None:
        """End a stretch at a completion that is known to within so many nanoseconds."""
        first, last, tail = steps[0], steps[-1], 0
        start = max(self._mark or 0, first.begin)
        if not self._open and last.last not in self.open_ended:
            tail, self._tail = self._tail, 0
            end = max(end, last.end + tail)
        ended = Stretch(Kind.SEEN, end, input=seconds(tail))
        for each in steps:
            ended.add_turns(each)
        per_step = max(0, end - start) / ended.steps
        elsewhere, before = 0.0, start
        doubt = float(max(0, uncertainty - POLLED))
        for each in steps:
            away = max(0, each.begin - max(before, start))
            elsewhere += away + each.nested
            doubt += min(away, IN_FLIGHT * per_step)
            doubt += min(each.nested, IN_FLIGHT * per_step) if each is not last else 0.0
            ended.open_ended |= each.last in self.open_ended and each is not last
            ended.breaks += bool(away or each.nested)
            before = each.end
            others, is_doubtful = self._of_others(each, start, end)
            elsewhere += others
            doubt += is_doubtful * (end - start)
        wall = max(0.0, end - start - elsewhere)
        if wall == 0 or doubt > MAX_DOUBT * wall or ended.open_ended:
            ended.kind = Kind.DOUBTFUL
        ended.wall = seconds(round(wall))
        ended.within = Counter(dict.fromkeys(ended.runs, round(wall)))
        ended.alone = start == first.begin and not elsewhere and ended.steps == sum(ended.runs.values()) == 1
        if ended.kind is Kind.SEEN:
            self.newest = (last.last, ended.wall / ended.steps)
            self._patience = max(COMPLETIONS_MISSING, 3 * (end - start))
            own = ended.wall - ended.compiling - ended.input - ended.checkpoint
            alike = {each.each_ran for each in steps}
            is_queued = bool(self._open) and self._open[0].ends[0] <= end and not self.idle_at_ends
            if ended.steps >= MIN_SPACED_STEPS:
                self._paces.append(per_step)
            # In a turn that lasts longer than all that can be queued, at the pace of late, the device runs out of work.
            most = IN_FLIGHT * min((per_step, *self._paces))
            own -= seconds(round(sum(turn - most for each in steps for turn in each.turns if turn > most)))
            ended.ahead = self._mark_seen and is_queued and own > (1 - MAX_DOUBT) * ended.wall
            if self._mark_seen and last.end <= start:
                ended.worked, ended.worked_steps = ended.wall, ended.steps
            if not ended.breaks and len(alike) == 1:
                ended.spacing = alike.pop() or ()
        self._in_doubt = False
        self._mark, self._mark_seen = end, end > last.end
        self._done(last.last, end)
        self._end(ended)

    def _done(self, step: int, end: int) -> None:
        """The device was done with this loop's steps up to that one at `end`: tell those that come after them."""
        for entry in self._followers:
            if step <= entry.behind:
                entry.until, entry.is_over = end, step == entry.behind
        self._followers = [entry for entry in self._followers if step < entry.behind]

    def _of_others(self, steps: Steps, start: int, end: int) -> tuple[int, bool]:
        """How long the device worked for another loop between the two, and whether it may have done so for longer.

        In nanoseconds, as far as is known.
        """
        entry = self._entries.pop(steps.first, None)
        if entry is None:
            return 0, False
        begin = max(start, steps.begin)
        return max(0, min(entry.until, end) - begin), not entry.is_over

    def _close_by_turns(self, kind: Kind) -> None:
        """End a stretch at the host's end of each of the open steps."""
        for steps in self._open:
            mark = steps.begin if self._mark is None else self._mark
            told_before = max(0, min(mark, steps.end) - steps.begin)
            entry = self._entries.get(steps.first)
            others, is_doubtful = self._of_others(steps, mark, steps.end)
            if entry is not None and (is_doubtful or entry.until > steps.end):
                # The host goes on, and waits for the others in a later turn.
                self._entries[steps.last + 1] = entry
            wall = seconds(max(0, sum(steps.turns) - told_before - others))
            open_ended = steps.last in self.open_ended
            known = Kind.DOUBTFUL if is_doubtful or open_ended else kind
            within = Counter(steps.nanoseconds_with())
            ended = Stretch(known, steps.end, wall, within=within, open_ended=open_ended)
            ended.add_turns(steps)
            ended.breaks = int(bool(steps.nested) or steps.begin > mark)
            if kind is Kind.TURNS and not ended.compiled and not (others or is_doubtful):
                ended.turns = each_in_seconds(steps.turns)
                ended.spacing = steps.each_ran or ()
            self._mark, self._mark_seen = max(mark, steps.end), False
            self._end(ended)
        self._in_doubt = kind is Kind.UNSEEN
        self._open.clear()
        self._followers.clear()
        self._close_tail(kind)

    def _close_tail(self, kind: Kind) -> None:
        """End a stretch of what is left of the last wait after the mark: until then the device worked."""
        wait, self._tail = min(self._tail, self._left - (self._mark or 0)), 0
        if wait > 0:
            self._end(Stretch(kind, self._left, seconds(wait), input=seconds(wait)))

    def _end(self, ended: Stretch) -> None:
        ended.doubtful = ended.wall if ended.kind is Kind.DOUBTFUL else 0.0
        self._ended.append(ended)
        self._observe(ended)

    def _forget_old(self) -> None:
        """Forget stretches of before the window, unless newer ones have too few steps and they are not long before."""
        steps = sum(each.steps for each in self._kept)
        end = max((each.end for each in self._kept), default=0)
        while len(self._kept) > 1 and end - (first := self._kept[0]).end > WINDOW:
            others, age = steps - first.steps, seconds(end - first.end)
            if first.steps and others < FEW_STEPS and age * first.steps < LATE * first.wall:
                break
            steps = others
            self._kept.popleft()
