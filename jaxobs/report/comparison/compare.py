"""The whole comparison of two records: step time by loop, causes, and tables of what else differs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from jaxobs.report.comparison import compilations, step_time, surroundings, tables, work
from jaxobs.report.comparison.finding import Comparison, Finding, Row
from jaxobs.report.record import Record
from jaxobs.vocabulary.units import count, duration


def compare(before: Record, after: Record) -> Comparison:
    """Compare the second run with the first. Pure: the same records give the same comparison."""
    loops = _common(before, after)
    shown: dict[str, tuple[Row, ...]] = {}
    times = []
    for loop in loops:
        time = step_time.step_time(loop, before, after)
        times.append(time)
        rows = (step_time.step_row(time), *step_time.component_rows(loop, before, after))
        shown[f"seconds a step of {loop}"] = rows
        shown[f"rates of {loop}"] = tuple(tables.rate_rows(loop, before, after))
    shown["executables"] = tuple(tables.executable_rows(before, after))
    shown["operations that came or went"] = tuple(tables.operation_rows(before, after))
    shown["compiling"] = tuple(compilations.compile_rows(before, after))
    shown["memory"] = tuple(tables.memory_rows(before, after))
    return Comparison(
        before.name,
        after.name,
        tuple(_headers(before, after)),
        tuple(times),
        tuple(_findings(loops, before, after)),
        {title: rows for title, rows in shown.items() if rows},
        tuple(_not_compared(before, after)),
        {loop: (_components(before, loop), _components(after, loop)) for loop in loops},
    )


def _components(record: Record, loop: str) -> dict[str, float]:
    return dict(step_time.component_seconds(record.part("windows", loop)))


def _findings(loops: list[str], before: Record, after: Record) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for loop in loops:
        found = [*work.batch_findings(loop, before, after), *step_time.slower_loader(loop, before, after)]
        # A record does not say which loop runs a function, so work is compared once, with the first and longest loop.
        found += [] if loop != loops[0] else work.work_findings(loop, before, after)
        for finding in found:
            if (finding.cause, finding.subject) not in seen:
                seen.add((finding.cause, finding.subject))
                yield finding
    yield from compilations.recompile_findings(before, after)
    yield from surroundings.load_findings(before, after)
    yield from surroundings.device_findings(before, after)
    yield from surroundings.version_findings(before, after)
    yield from surroundings.settings_findings(before, after)


def _common(before: Record, after: Record) -> list[str]:
    """The names of the loops that both runs have, the longest first."""
    one, other = (record.part("snapshot", "loops") for record in (before, after))
    wall = {name: _wall(one, name) + _wall(other, name) for name in one.keys() & other.keys()}
    return sorted(wall, key=lambda name: (-wall[name], name))


def _wall(loops: Any, name: str) -> float:
    return float(loops[name].get("wall_seconds") or 0.0)


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


def _headers(before: Record, after: Record) -> Iterator[Row]:
    yield Row("record", before.name, after.name)
    yield Row("began", _moment(before.content.get("began")), _moment(after.content.get("began")))
    one, other = (record.part("snapshot", "process") for record in (before, after))
    yield Row("run", str(one.get("run") or ""), str(other.get("run") or ""))
    yield Row("lasted", duration(one.get("seconds") or 0.0), duration(other.get("seconds") or 0.0))
    yield Row("steps", _steps(before), _steps(after))
    ranks = [
        f"{process.get('process_index', 0)} of {process.get('process_count') or 1}"
        for process in (one, other)
    ]
    if ranks != ["0 of 1", "0 of 1"]:
        yield Row("rank", *ranks)


def _steps(record: Record) -> str:
    loops = record.part("snapshot", "loops")
    return ", ".join(f"{name} {count(loop.get('steps') or 0)}" for name, loop in loops.items())


def _moment(unix: object) -> str:
    if not isinstance(unix, int | float):
        return "unknown"
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
