"""Compares the records of two runs: whether a step became slower, by its interval, and what differs, largest first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple

from jaxobs.model.snapshot import Document, executable_size
from jaxobs.report.noise import CONFIDENCE, RUN_TO_RUN, Change, ratio
from jaxobs.report.record import Record
from jaxobs.report.tables import known_columns, plain_table, text, words
from jaxobs.report.text_table import PLAIN_WIDTH, to_text
from jaxobs.vocabulary.text import EAGER
from jaxobs.vocabulary.units import amount, digits, duration, rough, rough_percent, signed_percent, times

NOTHING: Final = "Nothing that the records tell of differs."

INTERVALS: Final = (
    f"The intervals are of {CONFIDENCE:.0%}, from how the runs varied within themselves; below {RUN_TO_RUN:.0%} two "
    "runs differ anyway. What differs is one value of each run."
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


OTHER_LOAD: Final = 0.1
"""Share of the host's processors by which the load of other processes must differ to be a difference: the agent's own
profiling, cron and the like stay below it."""


THROTTLED: Final = 0.05
"""Processors by which what a container's limit holds back must differ to be a difference."""


NOT_SPEED: Final = frozenset({
    "run", "run_directory", "keep_runs", "run_interval", "file_sd_directory", "jsonl_directory", "metrics_host",
    "metrics_port", "metrics_token_file", "metrics_tls_certificate", "metrics_tls_key", "metrics_hosts",
    "cache_directory", "tensorboard_directory", "shutdown_timeout", "slowdown_alarms_per_hour",
    "out_of_memory_reports", "peak_flops", "peak_bytes_per_second", "tensorfloat32",
})  # fmt: skip
"""Settings that do not affect speed, as they say where something is written or served, what is told, or what figures are
held against."""


class Cause(StrEnum):
    """Why a run may be slower or faster than another."""

    MODEL = "model"
    BATCH = "batch"
    PRECISION = "precision"
    INPUT = "input"
    RECOMPILE = "recompile"
    LOAD = "load"
    SETTINGS = "settings"
    VERSIONS = "versions"
    DEVICES = "devices"


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
        if self.change.low <= apart <= self.change.high:
            figures = f"{both}, {relative(self.change)}"
        else:  # stretches of two kinds: the medians are of different ones
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
    size: float = 0.0
    """How large it is beside others; 0 if it is no figure."""


@dataclass(frozen=True, slots=True)
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
        return [
            {name: value for name, value in each._asdict().items() if name != "size"}
            for each in self.differences
        ]

    def text(self, *, width: int = PLAIN_WIDTH, bold: bool = False) -> str:
        """The comparison as text, without a newline at its end; A is the first run and B the second."""
        rows = self.rows()
        shown = (
            plain_table(known_columns(COMPARED, rows), rows, title=TITLE, write=words) if rows else NOTHING
        )
        parts = [self.which(), *(time.sentence() for time in self.step_times), "", shown]
        if self.not_compared:
            parts += ["", "not compared:", *(f"  {line}" for line in self.not_compared)]
        return to_text([*parts, "", INTERVALS], width=width, bold=bold)

    def __str__(self) -> str:
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
    return Comparison(
        before,
        after,
        tuple(step_time(loop, before, after) for loop in loops),
        tuple(differences(loops, before, after)),
        tuple(_not_compared(before, after)),
    )


def step_time(loop: str, before: Record, after: Record) -> StepTime:
    """A loop's step time, without compiles and checkpoints, in both runs, and its change."""
    # Of another batch the time of a step says nothing: what counts is how fast the work is done.
    windows = [record.part("windows", loop) for record in (before, after)]
    larger = [word for word, old, new in _examples(loop, before, after) if not _is_near(new / old, SAME_WORK)]
    counted = next((word for word in larger if all(each.get(word) for each in windows)), "steps")
    one, other = (step_seconds(each, counted) for each in windows)
    of = counted.removesuffix("s")
    old, new = (median(values) if values else None for values in (one, other))
    change, reason = ratio(one, other), ""
    if not one or not other:
        reason = f"{(after if one else before).name} has no step of `{loop}` that was timed"
    elif change is None:
        reason = (
            f"{len(one)} and {len(other)} stretches of a second or more, fewer where neighbours are alike, are too few "
            "to tell noise from change: let the runs last a minute"
        )
    return StepTime(loop, old, new, change, reason, of)


def relative(change: Change) -> str:
    """A change of logarithms in per cent, such as `+25 % (+20 % to +29 %)`."""
    low, middle, high = (
        signed_percent(math.exp(value) - 1) for value in (change.low, change.estimate, change.high)
    )
    return f"{middle} ({low} to {high})"


def _common_loops(before: Record, after: Record) -> list[str]:
    """The names of the loops that both runs have, the longest first."""
    one, other = (record.part("snapshot", "loops") for record in (before, after))
    wall = {
        name: sum(float(loops[name].get("wall_seconds") or 0.0) for loops in (one, other))
        for name in one.keys() & other.keys()
    }
    return sorted(wall, key=lambda name: (-wall[name], name))


def _not_compared(before: Record, after: Record) -> Iterator[str]:
    one, other = (record.part("snapshot", "loops") for record in (before, after))
    for name in sorted(one.keys() ^ other.keys()):
        holder = before if name in one else after
        yield f"loop `{name}`: only {holder.name} has it"
    if not one.keys() & other.keys():
        yield "step time: the two have no loop in common"
    for record in (before, after):
        process = record.part("snapshot", "process")
        if process.get("counts_begin_seconds") is not None:
            since = duration(process["counts_begin_seconds"])
            yield f"the first {since} of {record.name}: its agent was lost, and with it what it had counted"
        if record.part("host").get("other_cpus") is None:
            reason = record.part("host").get("other_cpus_reason") or "it has no figures of the host"
            yield f"other load during {record.name}: {reason}"


def differences(loops: Sequence[str], before: Record, after: Record) -> list[Difference]:
    """What differs between the runs, the largest first; what is no figure comes last."""
    found = [
        *chain.from_iterable(_batch(loop, before, after) for loop in loops),
        *chain.from_iterable(_input_wait(loop, before, after) for loop in loops),
        *_work(_batch_growth(loops, before, after), before, after),
        *_recompiles(before, after),
        *_load(before, after),
        *_surroundings(before, after),
    ]
    return sorted(found, key=lambda difference: -difference.size)


def _batch(loop: str, before: Record, after: Record) -> Iterator[Difference]:
    """Another number of tokens or examples in a step."""
    for word, old, new in _examples(loop, before, after):
        if not _is_near(new / old, SAME_WORK):
            yield _difference(Cause.BATCH, f"{word} a step of {loop}", old, new, digits)
            return


def _examples(loop: str, before: Record, after: Record) -> Iterator[tuple[str, float, float]]:
    """`tokens` and `examples` with their numbers in one step of both runs, as far as both scripts gave them."""
    one, other = (record.part("snapshot", "loops", loop) for record in (before, after))
    if one.get("steps") and other.get("steps"):
        for word in ("tokens", "examples"):
            if one.get(word) and other.get(word):
                yield word, one[word] / one["steps"], other[word] / other["steps"]


def _batch_growth(loops: Sequence[str], before: Record, after: Record) -> float:
    """The factor by which a step of the longest loop has more tokens, or else examples; 1 if the script did not say."""
    return next((new / old for loop in loops[:1] for _, old, new in _examples(loop, before, after)), 1.0)


def _input_wait(loop: str, before: Record, after: Record) -> Iterator[Difference]:
    """The wait for input, which is timed in each step.

    Other components rest on profiler windows: what is `unknown` in one run may be `compute` in the other although nothing
    has changed.
    """
    waits, steps = [], []
    for columns in (record.part("windows", loop) for record in (before, after)):
        pairs = zip(columns.get("steps", ()), columns.get("component/input", ()), strict=False)
        waits.append([spent / number for number, spent in pairs if number and spent is not None])
        steps.append(step_seconds(columns))
    if all(waits) and all(steps):
        old, new = map(median, waits)
        if abs(new - old) >= LONGER_WAIT * max(map(median, steps)):
            yield _difference(Cause.INPUT, f"wait for input, a step of {loop}", old, new, duration)


def _work(batch: float, before: Record, after: Record) -> Iterator[Difference]:
    """FLOPs of a run of each large function, if the batch does not explain their growth, and their element types."""
    one, other = (_largest_by_function(record) for record in (before, after))
    for name in sorted(one.keys() & other.keys()):
        old, new = (each[name].get("cost") or {} for each in (one, other))
        if old.get("flops") and new.get("flops"):
            growth = new["flops"] / old["flops"]
            if not _is_near(growth, SAME_WORK) and (
                batch == 1.0 or not _is_near(growth / batch, IN_PROPORTION)
            ):
                title = f"FLOPs a run of {name}"
                yield _difference(Cause.MODEL, title, old["flops"], new["flops"], amount)
        yield from _types(name, old, new)


def _types(name: str, old: Document, new: Document) -> Iterator[Difference]:
    """The element types of matrix products, else those that they run as, else their precision, if they differ."""
    for what, key in (
        ("types of the products in", "matrix_flops_by_type"),
        ("types run as in", "executed_matrix_flops_by_type"),
        ("precision of products in", "float32_flops_by_precision"),
    ):
        before, now = (_listed(cost.get(key) or {}) for cost in (old, new))
        if before and now and before != now:
            yield Difference(Cause.PRECISION, f"{what} {name}", before, now)
            return


def _listed(flops: Mapping[str, float]) -> str:
    whole = sum(flops.values())
    ranked = sorted(flops.items(), key=lambda pair: (-pair[1], pair[0]))
    large = [(name, part) for name, part in ranked if whole and part >= SMALL_TYPE * whole]
    return " and ".join(f"{name} ({rough_percent(part / whole)})" for name, part in large)


def _recompiles(before: Record, after: Record) -> Iterator[Difference]:
    """Functions that were recompiled more or less often, with the dearest reason and what all of them took."""
    one, other = (record.part("snapshot", "functions") for record in (before, after))
    for name in sorted((one.keys() | other.keys()) - {EAGER}):  # many primitives share it, each compiled once
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
            yield Difference(Cause.RECOMPILE, f"{name} compiled again", often, now, why, size)


def _load(before: Record, after: Record) -> Iterator[Difference]:
    """The load by other processes on the host, and what the container's limit held back."""
    one, other = (record.part("host") for record in (before, after))
    cpus = max(one.get("cpus") or 0, other.get("cpus") or 0)
    for key, what, least in (
        ("other_cpus", f"processors of {digits(cpus)} that others kept busy", OTHER_LOAD * cpus),
        ("throttled_cpus", "processors that the container's limit held back", THROTTLED),
    ):
        old, new = one.get(key), other.get(key)
        if old is not None and new is not None and least and abs(new - old) >= least:
            yield _difference(Cause.LOAD, what, old, new, rough)


def _surroundings(before: Record, after: Record) -> Iterator[Difference]:
    """Settings of jaxobs, variables that XLA and the libraries below it read, versions, devices and processes."""
    causes = {"settings": Cause.SETTINGS, "environment": Cause.SETTINGS, "versions": Cause.VERSIONS}
    for part, cause in causes.items():
        one, other = before.part(part), after.part(part)
        for name in sorted((one.keys() | other.keys()) - NOT_SPEED):
            old, new = (
                f"`{each[name]}`" if each.get(name) is not None else "not there" for each in (one, other)
            )
            if old != new:
                yield Difference(cause, name, old, new)
    kinds = [
        Counter(str(device.get("kind")) for device in record.entries("devices")) for record in (before, after)
    ]
    told = [
        (
            "devices",
            [", ".join(f"{n} × {kind}" for kind, n in sorted(each.items())) or "none" for each in kinds],
        )
    ]
    keys = {"processes": "process_count"} | ({"host": "host_name"} if "cpu" in kinds[0] | kinds[1] else {})
    for what, key in keys.items():  # on a CPU the host is the device
        told.append(
            (what, [str(each.part("snapshot", "process").get(key) or "") for each in (before, after)])
        )
    for what, (old, new) in told:
        if old and new and old != new:
            yield Difference(Cause.DEVICES, what, old, new)


def _largest_by_function(record: Record) -> dict[str, Document]:
    """By function, its executable with the most device time, or else with the most FLOPs; small ones are left out."""
    found: dict[str, Document] = {}
    for entry in sorted(record.entries("executables"), key=executable_size, reverse=True):
        found.setdefault(entry["function"], entry)
    flops = {name: float((entry.get("cost") or {}).get("flops") or 0.0) for name, entry in found.items()}
    work = {name: each * float(found[name].get("runs") or 1.0) for name, each in flops.items()}
    return {name: found[name] for name, each in work.items() if each >= SMALL_FUNCTION * sum(work.values())}


def _difference(cause: Cause, what: str, old: float, new: float, write: Callable[[float], str]) -> Difference:
    size = abs(math.log(new / old)) if old > 0 and new > 0 else math.inf
    change = signed_percent(new / old - 1) if old and new else ""
    return Difference(cause, what, write(old), write(new), change, size)


def step_seconds(columns: Mapping[str, Any], of: str = "steps") -> list[float]:
    """Seconds of a step, or of one of its `tokens` or `examples`, in each stretch, without what occurs in few steps."""
    rare = (columns.get(f"component/{name}") or () for name in RARE)
    spent = zip_longest(columns.get(of, ()), columns.get("seconds", ()), *rare)
    own = (
        (number, wall - sum(filter(None, less)))
        for number, wall, *less in spent
        if number and wall is not None
    )
    return [seconds / number for number, seconds in own if seconds > 0]


def median(values: Sequence[float]) -> float:
    """The median of at least one value. Not by `statistics`: a notebook's own module may have that name."""
    ordered = sorted(values)
    return (ordered[len(ordered) // 2] + ordered[(len(ordered) - 1) // 2]) / 2


def _is_near(growth: float, margin: float) -> bool:
    return 1 / (1 + margin) <= growth <= 1 + margin
