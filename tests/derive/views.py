"""Views read back from documents, so that a case can be written down as the document that it stands for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from jaxobs.derive.profiler_windows.loop_profile import LoopProfile, Part
from jaxobs.derive.snapshot import SnapshotView
from jaxobs.hardware.peaks import Peak, Peaks
from jaxobs.model.cost import Cost
from jaxobs.model.figure import Figure
from jaxobs.roofline_model.bottleneck import Verdict

View = TypeVar("View")

NOT_GIVEN = "the case does not give it"

NO_OPERATION = {
    "executions": 0, "seconds": 0.0, "share": None, "kind": "", "bottleneck": "", "executable": None, "source": "",
    "called_from": "",
}  # fmt: skip


def view_of(kind: type[View], document: Mapping[str, Any]) -> View:
    """A view of figures; what the document does not have is absent, or where no figure stands empty or 0."""
    values: dict[str, Any] = {}
    hints = get_type_hints(kind)
    for name in (each.name for each in fields(kind)):  # type: ignore[arg-type]  # only dataclasses are given
        found = document.get(name)
        if get_origin(hints[name]) is Figure:
            (inner,) = get_args(hints[name])
            reason = document.get(f"{name}_reason") or (NOT_GIVEN if found is None else None)
            values[name] = Figure(None if found is None else _read(inner, found), reason)
        else:
            values[name] = _read(hints[name], found)
    return kind(**values)


def snapshot_of(document: Mapping[str, Any]) -> SnapshotView:
    """The view of a whole snapshot."""
    process = document.get("process") or {}
    compilation = {
        "functions": document.get("functions"),
        "persistent_cache": process.get("persistent_cache"),
    }
    rows = [
        NO_OPERATION | {key: value for key, value in row.items() if value is not None}
        for row in document.get("operations") or ()
        if row is not None
    ]
    wall = sum((loop or {}).get("wall_seconds") or 0.0 for loop in (document.get("loops") or {}).values())
    executables = [each for each in document.get("executables") or () if each is not None]
    labels = ((each.get("function"), each.get("executable") or "") for each in executables)
    spent = (each.get("seconds") or 0.0 for each in executables)
    shares = {of: seconds / wall for of, seconds in zip(labels, spent, strict=True) if wall}
    return view_of(
        SnapshotView,
        {
            **document,
            "device_shares": shares,
            "identity": process,
            "process": process,
            "compilation": compilation,
            "operations": rows,
        },
    )


def _read(kind: Any, found: Any) -> Any:
    origin = get_origin(kind) or kind
    if kind in READERS:
        return READERS[kind](found or {})
    if origin is Mapping:
        inner = get_args(kind)[1]
        return {name: _read(inner, part) for name, part in (found or {}).items() if part is not None}
    if origin is frozenset:
        return frozenset(found or ())
    if origin in (list, Sequence):
        return [_read(get_args(kind)[0], part) for part in found or () if part is not None]
    if is_dataclass(kind):
        return view_of(kind, found or {})  # type: ignore[arg-type]  # it is a class
    return kind() if found is None and kind in (int, float, str, bool) else found


def _verdict(found: Mapping[str, Any]) -> Verdict:
    shares = {word: share for word, share in (found.get("shares") or {}).items() if share is not None}
    return Verdict(
        found.get("label") or "unknown", found.get("confidence") or 0.0, found.get("runner_up"), shares
    )


def _cost(found: Mapping[str, Any]) -> Cost:
    flops, matrix = found.get("flops") or 0.0, found.get("matrix_flops") or 0.0
    written, executed = (
        {dtype: amount for dtype, amount in (found.get(key) or {}).items() if amount is not None}
        for key in ("matrix_flops_by_type", "executed_matrix_flops_by_type")
    )
    return Cost(
        written or {"float32": matrix},
        executed,
        {"float32": max(0.0, flops - matrix)},
        bytes=found.get("bytes") or 0.0,
        exact=found.get("exact") is True,
    )


def _profile(found: Mapping[str, Any]) -> LoopProfile:
    """The gaps are among the seconds by bottleneck already."""
    seconds = {word: spent for word, spent in (found.get("seconds_by_bottleneck") or {}).items() if spent}
    return LoopProfile(
        steps=found.get("steps") or 0.0,
        active_seconds=found.get("seconds") or 0.0,
        busy_seconds=found.get("busy_seconds") or 0.0,
        parts={"0123456789abcdef": Part(seconds=Counter(seconds))},
    )


def _peaks(found: Mapping[str, Any]) -> Peaks:
    matrix = {dtype: peak for dtype, each in (found.get("matrix") or {}).items() if (peak := _peak(each))}
    return Peaks(
        "example", matrix, {}, None, _peak(found.get("memory")), (), None, found.get("memory_capacity"), None
    )


def _peak(found: Mapping[str, Any] | None) -> Peak | None:
    value = found.get("value") if found else None
    return Peak(value, "user", "a test") if value else None


READERS: dict[Any, Callable[[Mapping[str, Any]], Any]] = {
    Verdict: _verdict,
    Cost: _cost,
    LoopProfile: _profile,
    Peaks: _peaks,
}
