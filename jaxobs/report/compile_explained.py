"""Why a compile took long, in words: what `jaxobs.explain_compile()` returns, and what is told of compiles in a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from html import escape
from typing import Any, Final

from jaxobs.model.contents import CACHED_FROM, Contents, facts_in_words, remedies
from jaxobs.model.figure import Figure, plain
from jaxobs.model.snapshot import Document
from jaxobs.vocabulary.units import byte_size, count, duration
from jaxobs.vocabulary.words import PHASES

MAX_LINES: Final = 4
"""Lines of a trace that are shown, those with the most time."""

MAX_LONG: Final = 3
"""Long compiles of a run that are explained: most programs have one or two, and the rest is in the snapshot."""

MOSTLY: Final = 0.5
"""Share of a compile from which on it is mostly tracing."""


@dataclass(frozen=True, slots=True)
class CompileExplanation:
    """What compiling a function took, and why. A `Figure` has a `value`, or None and the `reason`.

    Attributes:
        function: Its name.
        seconds: Seconds by phase: `trace`, `lower`, `backend` (the compiler), `cache_read`, `cache_write`.
        persistent_cache: Whether JAX's persistent cache had the program: `hit`, `miss`, or `off`.
        trace_lines: Seconds of the trace by line, such as `train.py:12 loss`, most first: the innermost line outside
            installed packages, as samples of the stack met it.
        equations: Equations of the jaxpr, those of inner jaxprs at each place that uses them.
        module_bytes: Size of the compiled module.
        contents: Its instructions, the unrolled loop that wrote most of them, if one wrote much, and the arrays of 1 MiB
            and more that were captured.
    """

    function: str
    seconds: Mapping[str, Figure[float]]
    persistent_cache: Figure[str]
    trace_lines: Figure[Mapping[str, float]]
    equations: int
    module_bytes: Figure[int]
    contents: Contents

    def __str__(self) -> str:
        """A line for the phases, one for each fact, one for each piece of advice."""
        known = {phase: each.value for phase, each in self.seconds.items() if each.value is not None}
        absent = {phase: str(self.seconds[phase].reason) for phase in PHASES[:3] if phase not in known}
        if self.trace_lines.value is None:
            by_line = str(self.trace_lines.reason)
        else:
            longest = list(self.trace_lines.value.items())[:MAX_LINES]
            by_line = ", ".join(f"{line} {duration(spent)}" for line, spent in longest)
        size = self.module_bytes
        lines = [
            f"{self.function}: {_took(known, self.persistent_cache.value)}",
            *([f"{', '.join(absent)}: {'; '.join(dict.fromkeys(absent.values()))}"] if absent else []),
            f"tracing by line: {by_line}",
            f"equations: {count(self.equations)}",
            f"module: {size.reason if size.value is None else byte_size(size.value)}",
            *facts_in_words(plain(self.contents)),
        ]
        return "\n  ".join([*lines, *(f"→ {piece}" for piece in self.advice())])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; an absent value is None, with its reason beside it."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**plain(known), "advice": list(self.advice())}

    def advice(self) -> Iterator[str]:
        """What to do, with the seconds or the size that it is about; nothing for what JAX calls short itself."""
        spent = {phase: each.value or 0.0 for phase, each in self.seconds.items()}
        if 0 < sum(spent.values()) < CACHED_FROM:
            return
        yield from remedies(plain(self.contents), spent["lower"] + spent["backend"])
        if self.persistent_cache.value == "off" and spent["backend"] >= CACHED_FROM:
            yield (
                f"up to {duration(spent['backend'])} of the next start: set `jax_compilation_cache_dir` "
                "(JAX_COMPILATION_CACHE_DIR) to a directory that outlives the job"
            )
        if spent["trace"] > MOSTLY * sum(spent.values()):
            yield f"{duration(spent['trace'])} of each start: tracing runs your Python; do less in the lines above"


def _took(seconds: Mapping[str, float], cache: str | None) -> str:
    """Such as `12.3 s to compile: trace 1.2 s, lower 0.1 s, backend 11 s; persistent cache: off`."""
    phases = {phase: seconds[phase] for phase in PHASES if seconds.get(phase)}
    told = ", ".join(f"{phase.replace('_', ' ')} {duration(spent)}" for phase, spent in phases.items())
    whole = f"{duration(sum(phases.values()))} to compile: {told}" if phases else "compiled before"
    return f"{whole}; persistent cache: {cache}" if cache else whole


def long_compiles(document: Document) -> Iterator[tuple[str, list[str]]]:
    """For each function with a long compile what its longest one took and why, and what to do; the longest first."""
    functions = document.get("functions") or {}
    found = [(name, row["long_compile"]) for name, row in functions.items() if row.get("long_compile")]
    for name, row in sorted(found, key=lambda pair: -pair[1]["whole_seconds"])[:MAX_LONG]:
        seconds, contents = dict(row["seconds"]), row.get("contents")
        seconds["backend"] = seconds.get("backend", 0.0) - seconds.get("cache_read", 0.0)
        facts = [str(row.get("contents_reason"))] if contents is None else facts_in_words(contents)
        todo = list(remedies(contents or {}, seconds.get("lower", 0.0) + seconds["backend"]))
        if seconds.get("trace", 0.0) >= MOSTLY * row["whole_seconds"]:
            todo.append("tracing runs your Python: `jaxobs.explain_compile` tells the lines")
        yield f"`{name}` took {'; '.join((_took(seconds, row['persistent_cache']), *facts))}.", todo
