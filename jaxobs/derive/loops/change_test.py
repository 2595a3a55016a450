"""Tells a lasting change of a noisy level from its noise, with a given rate of false alarms.

Page's test (Biometrika 41, 1954) in its tabular form for correlated values of any distribution: a sum of what the values
exceed their mean by, less a reference value k, never below 0, is held against a limit h. The limit is that at which
Siegmund's approximation gives the wanted average number of values to a false alarm, with the variance parameter of the
correlated values in place of the variance of independent ones (Kim, Alexopoulos, Tsui and Wilson, A distribution-free
tabular CUSUM chart for autocorrelated data, IIE Transactions 39, 2007, equation 5):

    values to a false alarm = V / (2 k²) · (exp(z) - 1 - z),   z = 2 k (h + 1.166 √V) / V

Mean and V are those of the values before the sum last left 0, so they follow a level that drifts. V knows of one level
with noise about it: where two take turns, as with batches of two lengths, the limit is passed too soon. So a change must
also lie where too few of the values before it did, whatever their distribution.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from operator import mul
from typing import Final, NamedTuple

MIN_REFERENCE: Final = 24
"""Values that are learned before any is tested: with fewer no batches of three show how they are correlated."""

MAX_REFERENCE: Final = 180
"""Newest values that mean and variance are taken from: half an hour of ten seconds each."""

MIN_BATCHES: Final = 8
"""Batches from which on their variance is taken: with fewer it is off by half and more."""

CLIPPED: Final = 3.0
"""Standard deviations (by the median absolute deviation, which is 0.6745 of one) from the median at which values of the
reference are clipped, so that one disturbed value does not hide a change from then on."""

MAX_CORRELATION: Final = 0.95
"""Largest correlation of neighbours that is assumed: with 1 nothing would be known of the mean."""

UNSETTLED: Final = 0.25
"""Share of the variance of a mean below which fewer values must bring it: by chance the deviation of a part is seldom
less than half of that of the whole."""

TRUNCATIONS: Final = 4
"""Beginnings that are tried, as evenly as they go into the first half: each takes as long as the test itself."""

ROUNDING: Final = 1e-9
"""Share of the limit by which the sum of as many values as it takes may miss it."""

SIEGMUND: Final = 1.166
"""What the sum exceeds its limit by on average, in standard deviations (Siegmund, Sequential Analysis, 1985)."""


class Changed(NamedTuple):
    """A lasting change: how many of the newest values lie after it, and the means before and after."""

    values: int
    before: float
    after: float


class _Reference(NamedTuple):
    """What is known of the values before a change: mean, reference value and limit of the sum."""

    mean: float
    low: float
    high: float
    """Values count as no lower and no higher than these, those before a change and those that are tested."""
    allowance: float
    limit: float

    def clipping(self, lasting: int) -> _Reference:
        """Itself, clipping values so that none counts for more than its part of the fewest that make a change."""
        reach = self.allowance + self.limit / lasting
        return self._replace(low=self.mean - reach, high=self.mean + reach)

    def counted(self, values: Iterable[float]) -> list[float]:
        return [min(max(value, self.low), self.high) for value in values]


class ChangeTest:
    """Tests one value after the other.

    `min_shift`: a lasting difference smaller than half of it is none. `false_alarms`: how many there may be a value, on
    average, above 0. `lasting`: fewest values that a change takes: none of them counts for more than that part of it.
    """

    def __init__(self, min_shift: float) -> None:
        self._min_shift = min_shift
        self._before: deque[float] = deque(maxlen=MAX_REFERENCE)
        self._suspects: list[float] = []
        """The values since both sums were 0."""
        self._sums = [0.0, 0.0]
        """How far the values are above and below the mean."""
        self._since = [0, 0]
        """Values since each sum was 0."""
        self._meanwhile: _Reference | None = None
        """After a change, until enough is known of the new level: its mean, with the noise of before."""

    @property
    def mean(self) -> float | None:
        """The mean before a change that may be under way; None while it is learned."""
        if len(self._before) >= MIN_REFERENCE:
            return statistics.fmean(_clipped(self._before))
        return None if self._meanwhile is None else self._meanwhile.mean

    def add(self, value: float, *, false_alarms: float, lasting: int) -> Changed | None:
        """Test the next value. Returns the change that it makes certain; then what is after it is the new level."""
        if len(self._before) >= MIN_REFERENCE:
            known = self._reference(false_alarms, lasting)
        elif self._meanwhile is not None:
            known = self._meanwhile
        else:
            self._before.append(value)
            return None
        self._suspects.append(value)
        away = known.counted([value])[0] - known.mean
        for side, sign in enumerate((1, -1)):
            self._sums[side] = max(0.0, self._sums[side] + sign * away - known.allowance)
            self._since[side] = self._since[side] + 1 if self._sums[side] > 0 else 0
            is_over = self._sums[side] >= known.limit * (1 - ROUNDING) and self._since[side] >= lasting
            if is_over and (changed := self._changed(known, sign, self._since[side], false_alarms)):
                return changed
        settled = len(self._suspects) - max(self._since)
        self._before.extend(self._suspects[:settled])
        del self._suspects[:settled]
        return None

    def _changed(self, known: _Reference, sign: int, since: int, false_alarms: float) -> Changed | None:
        """The change at the value at which it is likeliest (Hinkley, Biometrika 57, 1970); None if it may be chance.

        The sum may have left 0 by chance before that.
        """
        values = self._suspects[-since:]
        middle = (known.mean + statistics.fmean(_clipped(values))) / 2
        excess, best, count = 0.0, 0.0, since
        for at, value in enumerate(reversed(values), 1):
            excess += sign * (value - middle)
            if excess >= best:
                best, count = excess, at
        newest = values[-count:]
        level, unsure = statistics.fmean(_clipped(newest)), known.limit / count
        is_chance = _chance(self._before, newest, (known.mean + level) / 2, sign) > false_alarms
        if is_chance and since < MAX_REFERENCE:
            return None
        self._before.clear()
        self._before.extend(newest)
        self._suspects, self._sums, self._since = [], [0.0, 0.0], [0, 0]
        low, high = known.low - known.mean + level, known.high - known.mean + level
        self._meanwhile = known._replace(
            mean=level, low=low - unsure, high=high + unsure, allowance=known.allowance + unsure
        )
        return Changed(count, known.mean, level)

    def _reference(self, false_alarms: float, lasting: int) -> _Reference:
        """By the values before, as far as they count.

        Where they are clipped follows from their noise, so it is found in two steps; their mean is that of values
        clipped as those are that are summed, or the sum would drift.
        """
        values = _settled(self._before)
        known = _bounds(_clipped(values), self._min_shift / 2, false_alarms).clipping(lasting)
        known = _bounds(known.counted(values), self._min_shift / 2, false_alarms).clipping(lasting)
        return known._replace(mean=statistics.fmean(known.counted(values)))


def _chance(before: Collection[float], after: Sequence[float], bound: float, sign: int) -> float:
    """How likely so many values after a change lie beyond a bound, by how many before it do, if all are of one kind.

    So the second of two levels that take turns is no change, nor is what is disturbed often. Before one value is known,
    each share of them is equally likely to lie beyond the bound (Laplace's rule of succession, for several values).
    """
    among, count = len(before), len(after)
    known, found = (sum(sign * (value - bound) > 0 for value in values) for values in (before, after))
    ways = sum(
        math.comb(among, known) * math.comb(count, each) / math.comb(among + count, known + each)
        for each in range(found, count + 1)
    )
    return ways * (among + 1) / (among + count + 1)


def _bounds(values: Sequence[float], least: float, false_alarms: float) -> _Reference:
    """Mean, reference value and limit by these values; the reference value is at least `least`.

    The mean of n values is off by √(V/n), which multiplies the rate of false alarms, exp(-2 k h / V), by exp(2 h² / n V)
    on average over its errors: a reference value larger by h / n takes that back. The deviation is off by 1/√(2n) of it,
    and is taken one such error above.
    """
    mean, deviation = sum(values) / len(values), _deviation(values) * (1 + 1 / math.sqrt(2 * len(values)))
    if deviation < least / 100:
        return _Reference(mean, mean, mean, least, least)
    allowance = max(deviation / 2, least)
    limit = deviation * _limit(allowance / deviation, 1 / false_alarms)
    return _Reference(mean, mean, mean, allowance + limit / len(values), max(limit, least))


def _settled(before: Iterable[float]) -> list[float]:
    """The values without a part of the first half, where they had not settled by then: a run drifts after its start.

    So many are left out that the variance of the mean of the others is the smallest (White, An effective truncation
    heuristic for bias reduction in simulation output, Simulation 69, 1997), if it is less than UNSETTLED of that of all.
    """
    values = list(before)
    clipped = _clipped(values)
    latest = min(len(values) // 2, len(values) - MIN_REFERENCE)
    starts = [latest * part // TRUNCATIONS for part in range(TRUNCATIONS + 1)]
    variances = [_deviation(clipped[start:]) ** 2 / (len(values) - start) for start in starts]
    best = min(variances)
    return values[starts[variances.index(best)] :] if best < UNSETTLED * variances[0] else values


def _clipped(values: Sequence[float] | deque[float]) -> list[float]:
    """The values, none farther from their median than CLIPPED deviations."""
    middle = statistics.median(values)
    room = CLIPPED * statistics.median(abs(value - middle) for value in values) / 0.6745
    return [min(max(value, middle - room), middle + room) for value in values]


def _deviation(values: Sequence[float]) -> float:
    """The root of the variance parameter: n times the variance of the mean of n correlated values, for large n.

    For a first-order process it is the variance times (1 + r) / (1 - r), where r is the correlation of neighbours (Zwiers
    and von Storch, Journal of Climate 8, 1995), here at the upper end of what it may be: an estimate of n values is off
    by 1/√n. What stays correlated for longer shows in batches of values, whose largest variance counts.
    """
    count = len(values)
    mean = sum(values) / count
    away = [value - mean for value in values]
    squares = sum(map(mul, away, away))
    if squares <= 0:
        return 0.0
    correlation = sum(map(mul, away, away[1:])) / squares + 2 / math.sqrt(count)
    correlation = min(MAX_CORRELATION, max(0.0, correlation))
    largest, size = squares / (count - 1) * (1 + correlation) / (1 - correlation), 2
    while count // size >= MIN_BATCHES:
        sums = [sum(away[at : at + size]) for at in range(count % size, count, size)]
        middle = sum(sums) / len(sums)
        largest = max(largest, sum((each - middle) ** 2 for each in sums) / (len(sums) - 1) / size)
        size *= 2
    return math.sqrt(largest)


def _limit(allowance: float, length: float) -> float:
    """The limit, in deviations, of a sum with that reference value that is passed once in `length` values by chance."""
    wanted = 1 + 2 * allowance**2 * length
    z = math.log(wanted)
    for _ in range(20):  # a contraction: its derivative is 1 / (wanted + z)
        z = math.log(wanted + z)
    return max(0.0, z / (2 * allowance) - SIEGMUND)
