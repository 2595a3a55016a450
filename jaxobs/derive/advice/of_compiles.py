"""Advice on compiles: functions that are recompiled, and programs that are compiled anew at each start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from jaxobs.derive.advice.facts import Facts
from jaxobs.derive.advice.finding import LEAST_SAVED, Finding
from jaxobs.derive.compilation import FunctionView, RecompilationView
from jaxobs.vocabulary.units import count, duration, rough_percent, times

LEAST_RECOMPILATIONS = 2
"""Least recompilations by one cause. A single short one (for the last batch of an epoch, or a first evaluation) says
nothing about the next hour."""

LARGE = 1.0
"""Seconds from which on a single recompilation is worth advice, as it is spent again at each start. It is JAX's default
for what is worth keeping on disk (`jax_persistent_cache_min_compile_time_secs`)."""

MOST_FUNCTIONS = 3
"""Functions named in a sentence about several that lost little each."""

MOST_CAUSES = 3
"""Causes of one function's recompilations in a sentence, each with its remedy: nobody would read more."""

LEAST_COMPILE_SECONDS = 10.0
"""Least compiler seconds in one start for a cache on disk to be worth looking after."""

LONGEST = 100
"""Characters of an old or new value in a sentence: enough for shapes and shardings; the snapshot has all of them."""

REMEDIES = {
    "shape": "pad {it} to one shape, or to a few buckets of shapes",
    "dtype": "convert {it} to one element type before the call",
    "weak_type": "pass {it} as an array of a given dtype, `jnp.asarray(x, dtype)`, and not as a Python number",
    "sharding": "place {it} with the same sharding for each call, by `jax.device_put` or `in_shardings`",
    "pytree": "pass {it} with the same structure in each call: the same keys, and no None in place of an array",
    "static_argument": "pass {it} as an array and not as a static argument, or keep it to a few values",
    "redefined": "define and jit the function once, outside of the loop: a new function has nothing compiled",
    "context": "set the configuration, mesh or precision that it is traced under once, before the loop",
}
"""Remedy by cause of recompilation. The cause `other` says nothing, so there is no advice on it."""


@dataclass(slots=True)
class _Recompiled:
    """Recompilations of one function by one cause and argument, those of `example`."""

    example: RecompilationView
    count: float = 0.0
    seconds: float = 0.0

    @property
    def because(self) -> str:
        return _because(self.example)

    @property
    def remedy(self) -> str:
        argument = self.example.argument.value
        return REMEDIES[self.example.cause].format(it=f"`{argument}`" if argument else "what changes")


def recompilation(facts: Facts) -> Iterator[Finding]:
    """Recompilations by known causes: one finding a function, and one for all the functions that lost little each.

    The share is their seconds over the age of the process.
    """
    if facts.age is None:
        return
    minor: dict[str, list[_Recompiled]] = {}
    for function, compiled in facts.functions.items():
        groups = _by_cause(compiled)
        if groups and _seconds(groups) < LEAST_SAVED * facts.age:
            minor[function] = groups
        elif groups:
            yield _finding(
                {"function": function},
                f"`{function}` was compiled again {_whole(groups)}{_why(groups)}",
                groups,
                facts.age,
            )
    if len(minor) > 1:
        ranked = sorted(minor.items(), key=lambda pair: -_seconds(pair[1]))
        all_of_them = [group for _, groups in ranked for group in groups]
        named_ones = [
            f"`{function}` {_whole(groups)}{_why(groups)}" for function, groups in ranked[:MOST_FUNCTIONS]
        ]
        rest = len(ranked) - MOST_FUNCTIONS
        yield _finding(
            {},
            f"{count(len(ranked))} functions were compiled again, {duration(_seconds(all_of_them))} in all: "
            + "; ".join([*named_ones, *([f"{count(rest)} more"] if rest > 0 else [])]),
            [group for _, groups in ranked[:MOST_FUNCTIONS] for group in groups[:1]],
            facts.age,
            _seconds(all_of_them),
        )


def _finding(
    subject: dict[str, str], sentence: str, groups: list[_Recompiled], age: float, lost: float | None = None
) -> Finding:
    """A finding with the remedies of `groups`. `lost`: its seconds, where they are not those of `groups` alone."""
    remedies = dict.fromkeys(group.remedy for group in groups[:MOST_CAUSES])
    return Finding(subject, sentence, "; ".join(remedies), 1.0, min(1.0, (lost or _seconds(groups)) / age))


def _seconds(groups: list[_Recompiled]) -> float:
    return sum(group.seconds for group in groups)


def _whole(groups: list[_Recompiled]) -> str:
    together = " in all" if len(groups) > 1 or groups[0].count > 1 else ""
    return f"{times(sum(group.count for group in groups))}, {duration(_seconds(groups))}{together}"


def _why(groups: list[_Recompiled]) -> str:
    if len(groups) == 1:
        return f", {groups[0].because}"
    causes = [
        f"{times(group.count)} ({duration(group.seconds)}) {group.because}" for group in groups[:MOST_CAUSES]
    ]
    if len(groups) > MOST_CAUSES:
        causes.append(f"the rest for {len(groups) - MOST_CAUSES} more such reasons")
    return f": {', '.join(causes)}"


def _by_cause(compiled: FunctionView) -> list[_Recompiled]:
    """A function's recompilations by known cause and argument, if frequent or long enough; the longest in all first."""
    groups: dict[tuple[str, str], _Recompiled] = {}
    of_cause: defaultdict[str, float] = defaultdict(float)
    for row in compiled.recompilations:
        if row.cause not in REMEDIES or not row.count or not row.seconds:
            continue
        group = groups.setdefault((row.cause, row.argument.value or ""), _Recompiled(row))
        group.count += row.count
        group.seconds += row.seconds
        of_cause[row.cause] += row.count
    enough = [
        group
        for group in groups.values()
        if of_cause[group.example.cause] >= LEAST_RECOMPILATIONS or group.seconds >= LARGE
    ]
    return sorted(enough, key=lambda group: -group.seconds)


def persistent_cache(facts: Facts) -> Iterator[Finding]:
    """A persistent cache that is off. The share is the compile time of what it would keep, over the process's age."""
    cache = facts.persistent_cache
    if cache is None or cache.enabled.value is not False or facts.age is None:
        return
    spent, kept = cache.seconds_without, cache.seconds_not_kept
    if kept > LEAST_COMPILE_SECONDS:
        share = min(1.0, kept / facts.age)
        yield Finding(
            {},
            f"JAX's persistent compilation cache is off: the compiler took {duration(spent)} of this start, of which "
            f"the next one could read {duration(kept)} from disk ({rough_percent(share)} of the time so far)",
            "set JAX_COMPILATION_CACHE_DIR to a directory that outlives the job",
            1.0,
            share,
        )


def _because(row: RecompilationView) -> str:
    cause, argument, old, new = row.cause, row.argument.value, row.old.value, row.new.value
    change = f" ({old[:LONGEST]} → {new[:LONGEST]})" if old and new else ""
    if cause == "redefined":
        return "because it was defined anew"
    if cause == "context":
        return f"because the context it is traced under changed{change}"
    what = {
        "static_argument": "value",
        "pytree": "structure",
        "dtype": "element type",
        "weak_type": "weak type",
    }
    return f"because the {what.get(cause, cause)} of {f'`{argument}`' if argument else 'an argument'} changed{change}"
