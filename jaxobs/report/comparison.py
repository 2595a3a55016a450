"""Compares the records of two runs: whether a step became slower, by its interval, and what differs, largest first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, Literal, NamedTuple

from jaxobs.model.snapshot import Document, executable_size
from jaxobs.report.flame_graph import shares_by_function
from jaxobs.report.noise import CONFIDENCE, RUN_TO_RUN, Change, quantile, ratio
from jaxobs.report.record import Record
from jaxobs.report.tables import known_columns, plain_table, text, words
from jaxobs.report.text_table import PLAIN_WIDTH, to_text
from jaxobs.vocabulary.text import EAGER
from jaxobs.vocabulary.units import (
    amount,
    digits,
    duration,
    or_absent,
    percent,
    rough_percent,
    signed_percent,
    times,
)

NOTHING: Final = "Nothing else that is compared differs."

INTERVALS: Final = (
    f"The intervals are of {percent(CONFIDENCE)}, from how the runs varied within themselves; below "
    f"{percent(RUN_TO_RUN)} two runs differ anyway. What differs is one value of each run."
)

RARE: Final = ("compile", "checkpoint")
"""Components that occur in few steps. Step time is compared without them."""


SAME_WORK: Final = 0.01
"""Share by which FLOPs may differ and still count as equal: another version of XLA may rewrite a reduction."""


SMALL_TYPE: Final = 0.05
"""Share of the FLOPs of products below which an element type is not named."""


SMALL_FUNCTION: Final = 0.05
"""Share of all FLOPs below which a function is left out."""


IN_PROPORTION: Final = 0.1
"""Share by which the growth of FLOPs may differ from that of the batch and still be explained by it: some FLOPs, such
as an optimiser's, do not grow with the batch."""


LONGER_WAIT: Final = 0.05
"""Share of a step by which the wait for input must change to be a difference. In two runs of one program, one of them on
a busy machine, it differed by 2.5 % (measured), as less of the loader's work was hidden."""


DEVICE_TIME: Final = 0.05
"""Share of device time by which that of a function must differ to be a difference: windows repeat it to some per cent."""

NOT_SPEED: Final = frozenset({
    "run", "run_directory", "keep_runs", "run_interval", "file_sd_directory", "jsonl_directory", "metrics_host",
    "metrics_port", "metrics_token_file", "metrics_tls_certificate", "metrics_tls_key", "metrics_hosts",
    "cache_directory", "tensorboard_directory", "shutdown_timeout", "slowdown_alarms_per_hour",
    "out_of_memory_reports", "peak_flops", "peak_bytes_per_second", "tensorfloat32",
})  # fmt: skip
"""Settings that do not affect speed, as they say where something is written or served, what is told, or what figures are
held against."""


Cause = Literal[
    "model", "device time", "batch", "precision", "input", "recompile", "settings", "versions", "devices",
]  # fmt: skip
"""Why a run may be slower or faster than another."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """A loop's step time in both runs: the median over stretches, in seconds, and the change of its logarithm.

    Where a step of one run has more tokens or examples than one of the other, it is the time of one of these.
    """

    loop: str
    before: float | None
    after: float | None
    change: Change | None
    reason: str = ""
    """Why `change` is None, if it is."""
    of: str = "step"
    """`step`, `token` or `example`."""

    @property
    def verdict(self) -> str:
        """The verdict: `slower`, `faster`, `within the noise` or `cannot be told`."""
        if self.change is None:
            return "cannot be told"
        if not self.change.beyond(math.log1p(RUN_TO_RUN)):
            return "within the noise"
        return "slower" if self.change.estimate > 0 else "faster"

    def sentence(self) -> str:
        """Whether the loop became slower or faster, and by how much."""
        if self.change is None:
            return f"Whether `{self.loop}` became slower cannot be told: {self.reason}."
        each = "an example" if self.of == "example" else f"a {self.of}"
        both = f"{duration(self.after or 0.0)} {each} instead of {duration(self.before or 0.0)}"
        apart = math.log(self.after / self.before) if self.after and self.before else 0.0
        if abs(apart - self.change.estimate) <= RUN_TO_RUN:
            figures = f"{both}, {relative(self.change)}"
        else:  # as where stretches are of two kinds, and the medians of different ones
            figures = f"{both} by their medians, {relative(self.change)} stretch by stretch"
        if self.verdict == "within the noise":
            return f"`{self.loop}` is as fast in B as in A, as far as the noise lets one see: {figures}."
        return f"`{self.loop}` is {self.verdict} in B: {figures}."

    def to_dict(self) -> dict[str, Any]:
        """Plain data. A factor that is not known is None, with its reason."""
        change = self.change
        return {
            "loop": self.loop,
            "of": self.of,
            "before_seconds": self.before,
            "after_seconds": self.after,
            "factor": change and math.exp(change.estimate),
            "factor_low": change and math.exp(change.low),
            "factor_high": change and math.exp(change.high),
            "factor_reason": self.reason or None,
            "verdict": self.verdict,
        }


class Difference(NamedTuple):
    """What differs between the runs and may be why one is slower, as text, and how much it changed."""

    cause: Cause
    what: str
    before: str
    after: str
    change: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """The whole comparison of two records. `print(comparison)` shows it, and so does a notebook."""

    before: Record
    after: Record
    step_times: tuple[StepTime, ...]
    differences: tuple[Difference, ...]
    """The largest first; those that are no figures come last."""
    not_compared: tuple[str, ...]
    """What could not be compared, and why."""

    def which(self) -> str:
        """The names of both records, which are called A and B elsewhere."""
        return f"A is {self.before.name}, B is {self.after.name}."

    def rows(self) -> list[dict[str, Any]]:
        """The differences as plain data, for COMPARED."""
        return [each._asdict() for each in self.differences]

    def text(self, *, width: int = PLAIN_WIDTH, bold: bool = False) -> str:
        """The comparison as text, without a newline at its end; A is the first run and B the second."""
        rows = self.rows()
        columns = known_columns(COMPARED, rows)
        shown = plain_table(columns, rows, title=TITLE, write=words) if rows else NOTHING
        parts = [self.which(), *(time.sentence() for time in self.step_times), "", shown]
        if self.not_compared:
            parts += ["", "not compared:", *(f"  {line}" for line in self.not_compared)]
        return to_text([*parts, "", INTERVALS], width=width, bold=bold)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        from jaxobs.report.notebook import comparison_html

        return comparison_html(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for programs: step times with their factors, and differences."""
        return {
            "before": self.before.name,
            "after": self.after.name,
            "step_times": [time.to_dict() for time in self.step_times],
            "differences": self.rows(),
            "not_compared": list(self.not_compared),
        }


TITLE: Final = "what differs, largest first"
COMPARED: Final = (
    text("", "what"), text("A", "before"), text("B", "after"), text("change", "change"), text("kind", "cause"),
)  # fmt: skip
"""The columns of differences as plain data."""


def compare(before: Record, after: Record) -> Comparison:
    """Compare the second run with the first. Pure: the same records give the same comparison."""
    loops = _common_loops(before, after)
    times = tuple(step_time(loop, before, after) for loop in loops)
    found = [
        *_figures_that_differ(loops, before, after),
        *_lines_that_differ(before, after),
        *_recompiles(before, after),
        *_words_that_differ(before, after),
    ]
    largest_first = sorted(found, key=lambda sized: -sized[0])  # what is no figure comes last
    differences = tuple(difference for _, difference in largest_first)
    return Comparison(before, after, times, differences, tuple(_not_compared(before, after)))


def step_time(loop: str, before: Record, after: Record) -> StepTime:
    """A loop's step time, without compiles and checkpoints, in both runs, and its change."""
    # Of another batch the time of a step says nothing: what counts is how fast the work is done.
    windows = [record.part("windows", loop) for record in (before, after)]
    old, new = (_batch(loop, record) for record in (before, after))
    larger = [word for word in old if word in new and not _is_near(new[word] / old[word], SAME_WORK)]
    counted = next((word for word in larger if all(each.get(word) for each in windows)), "steps")
    one, other = (step_seconds(each, counted) for each in windows)
    medians = [quantile(values, 0.5) if values else None for values in (one, other)]
    change, reason = ratio(one, other), ""
    if not one or not other:
        reason = f"{(after if one else before).name} has no step of `{loop}` that was timed"
    elif change is None:
        reason = (
            f"{len(one)} and {len(other)} stretches of a second or more, fewer where neighbours are alike, are too few "
            "to tell noise from change: let the runs last a minute"
        )
    return StepTime(loop, medians[0], medians[1], change, reason, counted.removesuffix("s"))


def relative(change: Change) -> str:
    """A change of logarithms in per cent, such as `+25 % (+20 % to +29 %)`."""
    logarithms = (change.low, change.estimate, change.high)
    low, middle, high = (signed_percent(math.expm1(value)) for value in logarithms)
    return f"{middle} ({low} to {high})"


def _common_loops(before: Record, after: Record) -> list[str]:
    """The names of the loops that both runs have, the longest first."""
    one, other = (record.part("snapshot", "loops") for record in (before, after))

    def wall_seconds(name: str) -> float:
        return sum(float(loops[name].get("wall_seconds") or 0.0) for loops in (one, other))

    return sorted(one.keys() & other.keys(), key=lambda name: (-wall_seconds(name), name))


def _not_compared(before: Record, after: Record) -> Iterator[str]:
    one, other = (record.part("snapshot", "loops") for record in (before, after))
    for name in sorted(one.keys() ^ other.keys()):
        holder = before if name in one else after
        yield f"loop `{name}`: only the record of {holder.name} has it"
    if not one.keys() & other.keys():
        yield "step time: the two have no loop in common"
    for record in (before, after):
        process = record.part("snapshot", "process")
        if process.get("counts_begin_seconds") is not None:
            since = duration(process["counts_begin_seconds"])
            yield f"the first {since} of {record.name}: its agent was lost, and with it what it had counted"


Sized = tuple[float, Difference]
"""A difference, and how large it is beside others; 0 if it is no figure."""


class _Figure(NamedTuple):
    """A figure of one run, how it is written, and by how much that of another must differ to be a difference."""

    value: float
    write: Callable[[float], str]
    margin: float


Key = tuple[Cause, str]


def _figures_that_differ(loops: Sequence[str], before: Record, after: Record) -> Iterator[Sized]:
    one, other = (dict(_figures(loops, record)) for record in (before, after))
    sizes = [(_batch(loop, before), _batch(loop, after)) for loop in loops[:1]]
    batch = next((now[word] / old[word] for old, now in sizes for word in old if word in now), 1.0)
    for (cause, what), old in one.items():
        new = other.get((cause, what))
        if new is None or abs(new.value - old.value) < max(old.margin, new.margin):
            continue
        growth = new.value / old.value if old.value > 0 and new.value > 0 else math.inf
        explained = cause == "model" and batch != 1.0 and _is_near(growth / batch, IN_PROPORTION)
        if not explained:
            change = signed_percent(growth - 1) if growth < math.inf else ""
            size = abs(math.log(growth))
            yield size, Difference(cause, what, old.write(old.value), new.write(new.value), change)


def _figures(loops: Sequence[str], record: Record) -> Iterator[tuple[Key, _Figure]]:
    for loop in loops:
        for word, number in _batch(loop, record).items():
            yield ("batch", f"{word} a step of {loop}"), _Figure(number, digits, SAME_WORK * number)
        # Other components rest on profiler windows: what is `unknown` in one run may be `compute` in the other although
        # nothing has changed.
        columns = record.part("windows", loop)
        pairs = zip(columns.get("steps", ()), columns.get("component/input", ()), strict=False)
        waits = [spent / number for number, spent in pairs if number and spent is not None]
        if waits and (steps := step_seconds(columns)):
            waited = _Figure(quantile(waits, 0.5), duration, LONGER_WAIT * quantile(steps, 0.5))
            yield ("input", f"wait for input, a step of {loop}"), waited
    for name, cost in _costs(record).items():
        if flops := cost.get("flops"):
            yield ("model", f"FLOPs a run of {name}"), _Figure(flops, amount, SAME_WORK * flops)


def _lines_that_differ(before: Record, after: Record) -> Iterator[Sized]:
    """Functions whose share of the device's time has changed; none where one run has no profiler window."""
    trees = [record.part("snapshot", "device_time").get("by_line") for record in (before, after)]
    if not all(trees):
        return
    old, new = (shares_by_function(tree) for tree in trees if tree)
    for name in old | new:
        one, other = old.get(name), new.get(name)
        grew = (other or 0.0) - (one or 0.0)
        if abs(grew) >= DEVICE_TIME:
            # Of one that is not in a tree only the largest lines are known, or no line at all.
            change = "" if one is None or other is None else f"{100 * grew:+.0f} points"
            shown = or_absent(one, percent), or_absent(other, percent)
            yield abs(grew), Difference("device time", f"share of {name}", *shown, change)


def _batch(loop: str, record: Record) -> dict[str, float]:
    """The numbers of `tokens` and `examples` in one step, as far as the script gave them."""
    entry = record.part("snapshot", "loops", loop)
    steps = entry.get("steps")
    return {word: entry[word] / steps for word in ("tokens", "examples") if steps and entry.get(word)}


def _recompiles(before: Record, after: Record) -> Iterator[Sized]:
    """Functions that were recompiled more or less often, with the dearest reason and what all of them took.

    How often is not known of one that is not in a record which has left some out: it is not compared.
    """
    one, other = (record.part("snapshot", "functions") for record in (before, after))
    names = (one.keys() | other.keys()) - {EAGER}  # many primitives share it, each compiled once
    for record, held in ((before, one), (after, other)):
        if record.snapshot.get("functions_left_out"):
            names &= held.keys()
    for name in sorted(names):
        functions = [each.get(name) or {} for each in (one, other)]
        old, new = (int(function.get("recompilation_count") or 0) for function in functions)
        if old != new:
            again = functions[new > old].get("recompilations") or [{}]
            dearest = max(again, key=lambda row: float(row.get("seconds") or 0.0))
            cause = str(dearest.get("cause") or "not known").replace("_", " ")
            argument = f" of {dearest['argument']}" if dearest.get("argument") else ""
            spent = duration(sum(float(row.get("seconds") or 0.0) for row in again))
            why = f"{'mostly ' if len(again) > 1 else ''}{cause}{argument}, {spent}"
            often, now = (times(number) if number else "never" for number in (old, new))
            size = abs(math.log((1 + new) / (1 + old)))
            yield size, Difference("recompile", f"{name} compiled again", often, now, why)


MAY_LACK: Final = ("settings", "versions")
"""What a run can be without: that the other has it is a difference."""


def _words_that_differ(before: Record, after: Record) -> Iterator[Sized]:
    one, other = (dict(_words(record)) for record in (before, after))
    for cause, what in dict.fromkeys([*one, *other]):
        old, new = (each.get((cause, what)) for each in (one, other))
        if old != new and (cause in MAY_LACK or (old and new)):
            yield 0.0, Difference(cause, what, old or "not there", new or "not there")


def _words(record: Record) -> Iterator[tuple[Key, str]]:
    """Element types, settings of jaxobs, variables that XLA and the libraries below it read, versions, and devices."""
    for name, cost in _costs(record).items():
        types = _listed(cost.get("matrix_flops_by_type") or {})
        run_as = _listed(cost.get("executed_matrix_flops_by_type") or {})
        precision = _listed(cost.get("float32_flops_by_precision") or {})
        yield ("precision", f"types of the products in {name}"), types
        yield ("precision", f"types run as in {name}"), run_as if run_as != types else ""
        yield ("precision", f"precision of products in {name}"), precision
    causes: dict[str, Cause] = {"settings": "settings", "environment": "settings", "versions": "versions"}
    for part, cause in causes.items():
        for name, value in record.part(part).items():
            if name not in NOT_SPEED and value is not None:
                yield (cause, name), f"`{value}`"
    kinds = Counter(str(device.get("kind")) for device in record.entries("devices"))
    process = record.part("snapshot", "process")
    yield ("devices", "devices"), ", ".join(f"{n} × {kind}" for kind, n in sorted(kinds.items())) or "none"
    yield ("devices", "processes"), str(process.get("process_count") or "")
    if "cpu" in kinds:  # there the host is the device
        yield ("devices", "host"), str(process.get("host_name") or "")


def _listed(flops: Mapping[str, float]) -> str:
    whole = sum(flops.values())
    ranked = sorted(flops.items(), key=lambda pair: (-pair[1], pair[0]))
    large = [(name, part) for name, part in ranked if whole and part >= SMALL_TYPE * whole]
    return " and ".join(f"{name} ({rough_percent(part / whole)})" for name, part in large)


def _costs(record: Record) -> dict[str, Document]:
    """By function, the cost of its executable with the most device time, or else with the most FLOPs; no small ones."""
    found: dict[str, Document] = {}
    for entry in sorted(record.entries("executables"), key=executable_size, reverse=True):
        found.setdefault(entry["function"], entry)
    costs = {name: entry.get("cost") or {} for name, entry in found.items()}
    runs = {name: float(entry.get("runs") or 1.0) for name, entry in found.items()}
    work = {name: runs[name] * float(cost.get("flops") or 0.0) for name, cost in costs.items()}
    return {name: costs[name] for name, flops in work.items() if flops >= SMALL_FUNCTION * sum(work.values())}


def step_seconds(columns: Mapping[str, Any], of: str = "steps") -> list[float]:
    """Seconds of a step, or of one of its `tokens` or `examples`, in each stretch, without what occurs in few steps."""
    rare = (columns.get(f"component/{name}") or () for name in RARE)
    spent = zip_longest(columns.get(of, ()), columns.get("seconds", ()), *rare)
    own = ((n, wall - sum(filter(None, less))) for n, wall, *less in spent if n and wall is not None)
    return [seconds / n for n, seconds in own if seconds > 0]


def _is_near(growth: float, margin: float) -> bool:
    return 1 / (1 + margin) <= growth <= 1 + margin
