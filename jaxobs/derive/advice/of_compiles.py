"""Advice on compiles: functions that are compiled again, and programs that are compiled anew at each start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from jaxobs.derive.advice.facts import Facts, Finding
from jaxobs.derive.compiles import FunctionView, RecompilationView
from jaxobs.vocabulary.units import duration, rough_percent, times

MIN_SAVED = 0.03
"""Least share of the wall time that a piece of advice must give back: nearly two minutes of an hour. A loop's shares
rest on sampled device times, which are known to within 5 %: where a device is busy for 60 % of the time, their error
alone is three hundredths of the wall time."""

MAX_NAMED = 3
"""Causes of one function's recompilations in a sentence: nobody would read more."""

MAX_LETTERS = 100
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

NAMES = {"static_argument": "value", "pytree": "structure", "dtype": "element type", "weak_type": "weak type"}
"""What of an argument changed, by cause, if that is not the cause's own word."""


def _because(row: RecompilationView) -> str:
    argument, old, new = row.argument.value, row.old.value, row.new.value
    change = f" ({old[:MAX_LETTERS]} → {new[:MAX_LETTERS]})" if old and new else ""
    if row.cause == "redefined":
        return f"because it was defined anew{f', with another `{argument}`{change}' if argument else ''}"
    if row.cause == "context":
        return f"because the context it is traced under changed{change}"
    what, whose = NAMES.get(row.cause, row.cause), f"`{argument}`" if argument else "an argument"
    return f"because the {what} of {whose} changed{change}"


def _remedy(row: RecompilationView) -> str:
    return REMEDIES[row.cause].format(it=f"`{row.argument.value}`" if row.argument.value else "what changes")


def recompilation(facts: Facts) -> Iterator[Finding]:
    """A function is compiled again and again.

    When: at least two recompilations of a function by the same known cause, or one that took 1 s or more. Shapes that
    grow on purpose do not count: each is larger than the one before it, which was in use for ten times as long as the
    new one took to compile.
    Gives back: the seconds of all of them, over the age of the process.
    Why so: a small single one says nothing about the next hour; a large one is spent at each start; the cause `other`
    is no known cause.
    """
    age = facts.view.process.seconds
    for function, compiled in facts.view.compilation.functions.items():
        groups = _by_cause(compiled)
        if not (groups and age):
            continue
        count, spent = sum(group.count for group in groups), sum(group.seconds for group in groups)
        yield Finding(
            {"function": function},
            f"`{function}` was compiled again {times(count)}, {duration(spent)}{' in all' * (count > 1)}{_why(groups)}",
            "; ".join(dict.fromkeys(_remedy(group) for group in groups[:MAX_NAMED])),
            saves_ratio=min(1.0, spent / age),
        )


def _why(groups: list[RecompilationView]) -> str:
    if len(groups) == 1:
        return f", {_because(groups[0])}"
    causes = [
        f"{times(group.count)} ({duration(group.seconds)}) {_because(group)}" for group in groups[:MAX_NAMED]
    ]
    if len(groups) > MAX_NAMED:
        causes.append(f"the rest for {len(groups) - MAX_NAMED} more such reasons")
    return f": {', '.join(causes)}"


def _by_cause(compiled: FunctionView) -> list[RecompilationView]:
    """A function's recompilations by known cause and argument, if frequent or long enough; the longest in all first."""
    groups: dict[tuple[str, str], RecompilationView] = {}
    of_cause: Counter[str] = Counter()
    for row in compiled.recompilations:
        if row.cause not in REMEDIES or not row.count or not row.seconds or row.grows:
            continue
        key = row.cause, row.argument.value or ""
        known = groups.get(key, replace(row, count=0, seconds=0.0))
        groups[key] = replace(known, count=known.count + row.count, seconds=known.seconds + row.seconds)
        of_cause[row.cause] += row.count
    enough = [group for group in groups.values() if of_cause[group.cause] >= 2 or group.seconds >= 1.0]
    return sorted(enough, key=lambda group: -group.seconds)


def persistent_cache(facts: Facts) -> Iterator[Finding]:
    """JAX's persistent compilation cache is off.

    When: it is known to be off, and compiling took more than 10 s in programs that took 1 s or more each.
    Gives back: those seconds, over the age of the process, at the next start.
    Why so: JAX caches programs that took a second to compile, by default; for less than ten seconds a cache is not
    worth its keep.
    """
    cache, age = facts.view.compilation.persistent_cache, facts.view.process.seconds
    spent, kept = cache.seconds_without, cache.seconds_not_kept
    if cache.enabled.value is False and age and kept > 10.0:
        share = min(1.0, kept / age)
        yield Finding(
            {},
            f"JAX's persistent compilation cache is off: the compiler took {duration(spent)} of this start, of which "
            f"the next one could read {duration(kept)} from disk ({rough_percent(share)} of the time so far)",
            "set JAX_COMPILATION_CACHE_DIR to a directory that outlives the job",
            saves_ratio=share,
            is_once=True,
        )
