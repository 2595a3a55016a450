"""One executable: what is known of it, and how long the device takes for one run."""

from __future__ import annotations

import math
import statistics
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxobs.model.cost import Cost
from jaxobs.roofline_model.bounds import Bound

SAMPLES_KEPT = 21
"""Sampled runs whose median is an executable's device time: enough to outlive a few disturbed ones, few enough to follow
a change within a minute."""


SAMPLES_AT_A_TIME = 3
"""Of a burst of four calls three are timed, and what disturbs one of them disturbs the next."""

UNEVEN = 2.0
"""Times the median that the mean of sampled runs may be. Where a tenth of the runs took eighteen times as long as the
others, the device seemed idle for half of the time in which it was busy throughout. And times the shortest that the
longest may be, of runs that may differ."""

LATEST = 5e-4
"""Seconds. Polls are at least 0.2 ms apart, and a thread wakes late on a busy machine: the end of a run is seen up to
half a millisecond late."""

WINDOWS_COMPARED = 5
"""Windows whose median tells how late polls are: a slow moment in one of them moves it little."""

MEASURED = "the repetitions of its loops are the mean of those seen in profiler windows"


@dataclass(slots=True)
class Windows:
    """What profiler windows saw of an executable, on one device."""

    runs: float = 0.0
    seconds: float = 0.0
    """Of runs from their first operation to the end of their last, or of operations where runs are not told apart."""
    beside: tuple[tuple[float, float | None], ...] = ()
    """Of the last windows that tell runs apart: seconds a run there, and of runs sampled at about that time."""
    labels: Counter[str] = field(default_factory=Counter)
    """Device seconds by what they are charged to."""
    executions: Counter[str] = field(default_factory=Counter)
    """By operation, over all devices."""
    runs_counted: float = 0.0
    """Runs on all devices in the windows that report them."""

    @property
    def seconds_per_run(self) -> float | None:
        """None where they saw no run."""
        return self.seconds / self.runs if self.runs > 0 else None


@dataclass(slots=True)
class Executable:
    """One executable; `number` is the probe's, `fingerprint` the stable hash of its content."""

    number: int
    function: str
    memory: Mapping[str, int]
    devices: int
    donatable_bytes: float | None = None
    iterations: int | None = None
    """Turns of the loop in which a run does most of its work."""
    cost: Cost | None = None
    bound: Bound | None = None
    title: str = ""
    """Its function, told apart from others of that name."""
    fingerprint: str = ""
    cost_reason: str = "its module is being analysed"
    runs: int = 0
    """All that are known, also those of which it is not known yet whether they belong to a loop."""
    untimed: int = 0
    """Runs outside loops whose seconds are not counted yet."""
    seconds: float = 0.0
    room: float = math.inf
    """Seconds that its loops' wall time last had for a run, where its timed runs would have taken longer."""
    samples: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    sample_error: float = 0.0
    """Share to within which the newest sample is known."""
    spacings: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    sample_count: int = 0
    mostly_missed: bool = False
    """Whether polls could time far fewer of its runs than of another one in the same steps."""
    windows: Windows = field(default_factory=Windows)
    measured: Cost | None = None
    """The cost with the measured repetitions, where the module does not tell them."""

    @property
    def work(self) -> Cost | None:
        """What one run must do, as far as it is known: of the module, its repetitions as measured where it has to be."""
        return self.measured or self.cost

    @property
    def is_analysed(self) -> bool:
        """Whether its cost is known, or known not to be had."""
        return bool(self.fingerprint)

    @property
    def seconds_per_run(self) -> float | None:
        """Device seconds of one run: as it was timed, and no more than its loops' wall time had room for."""
        timed = self.timed_seconds_per_run
        return None if timed is None else min(timed, self.room)

    @property
    def timed_seconds_per_run(self) -> float | None:
        """The median of the newest samples less what polls are late, and no more than the spacing of its runs.

        Else it is that of traced runs, which tracing makes longer: the spacing, of untraced ones, bounds it.
        """
        spaced = statistics.median(self.spacings) if self.spacings else math.inf
        if not self.samples_tell:
            traced = self.windows.seconds_per_run
            return None if traced is None else min(traced, spaced)
        sampled = statistics.median(self.samples)
        return min(sampled - self._lateness(sampled), spaced)

    def _lateness(self, sampled: float) -> float:
        """Seconds by which polls see its runs end too late: what sampled runs took longer than traced ones.

        Those are compared that ran at about the same time: a machine that has other work now is slower than it was.
        """
        if not self.windows.beside:
            return 0.0
        then = statistics.median(before or sampled for _, before in self.windows.beside)
        late = statistics.median(
            max(0.0, (before or sampled) - traced) for traced, before in self.windows.beside
        )
        return min(late, LATEST) * min(1.0, sampled / then)

    @property
    def doubt(self) -> float:
        """Share by which the sampled time of a run may be off: the standard error of its median, of few that of a sample.

        Of a normal distribution the former is 0.93 of the distance between the quartiles over the root of the number
        (1.2533 σ / √n, with 1.349 σ between the quartiles). 0 without samples.
        """
        count = len(self.samples)
        if count < 2 * SAMPLES_AT_A_TIME:
            return self.sample_error
        ordered = sorted(self.samples)
        apart = ordered[3 * count // 4] - ordered[count // 4]
        return 0.93 * apart / math.sqrt(count / SAMPLES_AT_A_TIME) / statistics.median(ordered)

    @property
    def hidden_seconds(self) -> float:
        """What their median does not tell of a run, where runs differ by far, as those of `lax.cond` do; 0 else."""
        if len(self.samples) < 2 * SAMPLES_AT_A_TIME:
            return 0.0
        mean, middle = statistics.fmean(self.samples), statistics.median(self.samples)
        return mean - middle if mean > UNEVEN * middle else 0.0

    @property
    def samples_tell(self) -> bool:
        """Whether samples tell the time of a run; else traced runs do, if there are any.

        Of runs that differ it depends on their length which are sampled. So it does of runs that are mostly too short to
        be timed by polls: the few that were are the longest ones. Of a run of 0.7 ms between others one was, of 3 ms.
        """
        few = len(self.samples) < 2 * SAMPLES_AT_A_TIME and self.windows.runs >= SAMPLES_AT_A_TIME
        return bool(self.samples) and not few and not self.mostly_missed and not self.differs

    @property
    def may_differ(self) -> bool:
        """Whether its loops and branches, and so its runs, may take now this long and now that."""
        return self.cost is not None and not self.cost.exact

    @property
    def differs(self) -> bool:
        """Whether runs were seen to differ that may."""
        return self.may_differ and bool(self.samples) and max(self.samples) > UNEVEN * min(self.samples)

    @property
    def lower_bound_reason(self) -> str | None:
        """Why its cost, and so its bound time, is a lower bound; None where it is exact."""
        return None if self.work is None else lower_bound_reason(self.work)

    @property
    def is_modelled(self) -> bool:
        """Whether its bound time holds all work that could dominate it."""
        if self.bound is None or self.work is None or self.lower_bound_reason is not None:
            return False
        if self.work.collective_bytes:
            return False  # how much of its time went to its collectives cannot be told from outside
        return self.bound.knows_large_parts

    @property
    def working_set(self) -> float | None:
        """Bytes it touches on one device, of XLA's memory analysis; aliased outputs are the arguments themselves."""
        if not self.memory:
            return None
        known = {kind: float(amount) for kind, amount in self.memory.items()}
        return sum(known.get(kind, 0.0) for kind in ("argument", "output", "temporary")) - known.get(
            "alias", 0.0
        )


def lower_bound_reason(cost: Cost) -> str | None:
    """Why a cost, and a bound time of it, is a lower bound; None where it is exact, or its repetitions were measured."""
    reasons = tuple(reason for reason in cost.inexact_reasons if reason != MEASURED)
    if not reasons and (cost.exact or MEASURED in cost.inexact_reasons) and not cost.unmodelled:
        return None
    reasons = reasons or tuple(f"{name} is unmodelled" for name in cost.unmodelled)
    return "a lower bound: " + "; ".join(reasons[:3] or ("its cost is",))
