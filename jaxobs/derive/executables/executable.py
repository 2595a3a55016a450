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
"""Sampled runs whose median is an executable's device time: enough to outlive a few disturbed ones, few enough to
follow a change within a minute."""
SAMPLES_AT_A_TIME = 3
"""Samples of one burst, which are not independent: of four calls three are timed; what disturbs one disturbs all."""

UNEVEN = 2.0
"""Runs are uneven where the mean of the samples is more than this many times their median, or, for executables whose
runs may differ, the longest sample more than this many times the shortest. Where a tenth of the runs took eighteen
times as long as the others, the device seemed idle for half of the time in which it was busy throughout."""

LATEST = 5e-4
"""Most seconds by which the end of a run is seen late: polls are at least 0.2 ms apart, and a thread wakes late on a
busy machine."""

WINDOWS_COMPARED = 5
"""Profiler windows whose median shows how late polls are: a slow moment in one of them moves it little."""

MEASURED = "the repetitions of its loops are the mean of those seen in profiler windows"


@dataclass(slots=True)
class Windows:
    """What profiler windows saw of an executable, on one device."""

    runs: float = 0.0
    seconds: float = 0.0
    """Seconds of runs, from first operation to the end of the last; of operations where traces show no single runs."""
    beside: tuple[tuple[float, float | None], ...] = ()
    """For each of the last windows that show single runs: seconds per run in it, and by the samples of that time."""
    labels: Counter[str] = field(default_factory=Counter)
    """Device seconds by the component that they are charged to."""
    executions: Counter[str] = field(default_factory=Counter)
    """Executions by operation, on all devices."""
    runs_counted: float = 0.0
    """Runs on all devices, to divide `executions` by."""

    @property
    def seconds_per_run(self) -> float | None:
        """Seconds of one traced run; None where the windows saw no run."""
        return self.seconds / self.runs if self.runs > 0 else None


@dataclass(slots=True)
class Executable:
    """State of one executable; `number` is the probe's, `fingerprint` the stable hash of its content."""

    number: int
    function: str
    memory: Mapping[str, int]
    devices: int
    donatable_bytes: float | None = None
    iterations: int | None = None
    """Iterations of the loop in which a run does most of its work."""
    operations: float | None = None
    """Operations that a run executes, those of a loop in each of its iterations."""
    cost: Cost | None = None
    bound: Bound | None = None
    title: str = ""
    """Its function, distinguished from others of that name."""
    fingerprint: str = ""
    cost_reason: str = "its module is being analysed"
    runs: int = 0
    """All known runs, including those that may yet turn out to belong to a loop."""
    untimed: int = 0
    """Runs outside loops whose seconds are not counted yet."""
    seconds: float = 0.0
    room: float = math.inf
    """Seconds per run for which its loops' wall time last had room; infinite where its timed runs fitted in."""
    samples: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    sample_error: float = 0.0
    """Uncertainty of the newest sample, as a share of it."""
    spacings: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    """Seconds per run by the spacing of steps that ran nothing but known executables: upper bounds of a run's time."""
    sample_count: int = 0
    mostly_missed: bool = False
    """Whether polls timed far fewer of its runs than of another executable's in the same steps."""
    windows: Windows = field(default_factory=Windows)
    measured: Cost | None = None
    """The cost with measured repetitions of its loops, where the module does not state them."""

    @property
    def work(self) -> Cost | None:
        """The known work of one run: the module's cost, with measured repetitions where the module states none."""
        return self.measured or self.cost

    @property
    def is_analysed(self) -> bool:
        """Whether its analysis is over: its cost is known, or cannot be known."""
        return bool(self.fingerprint)

    @property
    def seconds_per_run(self) -> float | None:
        """Device seconds of one run: as timed, but no more than its loops' wall time had room for."""
        timed = self.timed_seconds_per_run
        return None if timed is None else min(timed, self.room)

    @property
    def timed_seconds_per_run(self) -> float | None:
        """Device seconds of one run: the median of the newest samples, less the lateness of polls.

        Without samples to rely on, it is the mean of traced runs, which tracing makes longer. Both are bounded by the
        spacing of untraced runs.
        """
        spaced = statistics.median(self.spacings) if self.spacings else math.inf
        if not self.samples_tell:
            traced = self.windows.seconds_per_run
            return None if traced is None else min(traced, spaced)
        sampled = statistics.median(self.samples)
        return min(sampled - self._lateness(sampled), spaced)

    def _lateness(self, sampled: float) -> float:
        """Seconds by which polls see its runs end too late: by how much sampled runs are longer than traced ones.

        Only runs of about the same time are compared: a machine that has other work now is slower than it was.
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
        """Share by which the sampled time of a run may be off: the standard error of the median, relative to it.

        For a normal distribution that is 0.93 of the distance between the quartiles over the root of the number of
        samples (1.2533 σ / √n, with 1.349 σ between the quartiles). With few samples it is the error of the newest one,
        and 0 without any.
        """
        count = len(self.samples)
        if count < 2 * SAMPLES_AT_A_TIME:
            return self.sample_error
        ordered = sorted(self.samples)
        apart = ordered[3 * count // 4] - ordered[count // 4]
        return 0.93 * apart / math.sqrt(count / SAMPLES_AT_A_TIME) / statistics.median(ordered)

    @property
    def hidden_seconds(self) -> float:
        """Seconds by which the samples' mean exceeds their median where runs are uneven, as with `lax.cond`; else 0."""
        if len(self.samples) < 2 * SAMPLES_AT_A_TIME:
            return 0.0
        mean, middle = statistics.fmean(self.samples), statistics.median(self.samples)
        return mean - middle if mean > UNEVEN * middle else 0.0

    @property
    def samples_tell(self) -> bool:
        """Whether samples give the time of a run; otherwise traced runs do, if there are any.

        Where runs differ, their length decides which ones are sampled. So it does where most runs are too short for
        polls to time: the few that are timed are the longest. An executable with runs of 0.7 ms between those of others
        got one sample, of 3 ms.
        """
        few = len(self.samples) < 2 * SAMPLES_AT_A_TIME and self.windows.runs >= SAMPLES_AT_A_TIME
        return bool(self.samples) and not few and not self.mostly_missed and not self.differs

    @property
    def may_differ(self) -> bool:
        """Whether its runs may differ in length, because its loops or branches may."""
        return self.cost is not None and not self.cost.exact

    @property
    def differs(self) -> bool:
        """Whether its runs may differ, and samples show that they do."""
        return self.may_differ and bool(self.samples) and max(self.samples) > UNEVEN * min(self.samples)

    @property
    def lower_bound_reason(self) -> str | None:
        """Why its cost, and so its bound time, is a lower bound; None where it is exact."""
        return None if self.work is None else lower_bound_reason(self.work)

    @property
    def is_modelled(self) -> bool:
        """Whether its bound time covers all work that could dominate its run time."""
        if self.bound is None or self.work is None or self.lower_bound_reason is not None:
            return False
        if self.work.collective_bytes:
            return False  # how much of its time goes to collectives cannot be seen from outside
        return self.bound.knows_large_parts

    @property
    def working_set(self) -> float | None:
        """Bytes that it touches on one device, by XLA's memory analysis; aliased outputs count as arguments alone."""
        if not self.memory:
            return None
        known = {kind: float(amount) for kind, amount in self.memory.items()}
        return sum(known.get(kind, 0.0) for kind in ("argument", "output", "temporary")) - known.get(
            "alias", 0.0
        )


def lower_bound_reason(cost: Cost) -> str | None:
    """Why a cost, and a bound time from it, is a lower bound; None where it is exact, or has measured repetitions."""
    reasons = tuple(reason for reason in cost.inexact_reasons if reason != MEASURED)
    if not reasons and (cost.exact or MEASURED in cost.inexact_reasons) and not cost.unmodelled:
        return None
    reasons = reasons or tuple(f"{name} is unmodelled" for name in cost.unmodelled)
    return "a lower bound: " + "; ".join(reasons[:3] or ("its cost is",))
