"""Reads a trace from bytes, from a file, or from a directory as `jax.profiler.trace` writes it."""

from __future__ import annotations

import mmap
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from google.protobuf.message import DecodeError

from jaxobs.model.trace import HostTrace, Trace
from jaxobs.trace.attribution import clipped, spans_of
from jaxobs.trace.cpu import HostPlane
from jaxobs.trace.gpu import GpuPlane
from jaxobs.trace.modules import ModuleIndex, read_modules
from jaxobs.trace.planes import (
    ERRORS,
    HOSTNAMES,
    PLANES,
    WARNINGS,
    Plane,
    TraceError,
    decoded,
    parts_of,
)
from jaxobs.trace.timeline import Timeline
from jaxobs.trace.tpu import TpuPlane

DEFAULT_MAXIMUM_BYTES: Final = 256 * 2**20
"""Largest trace of one host. Reading one of this size takes up to fifteen times its bytes of memory and 18 s
(measured)."""

_HOST: Final = "/host:CPU"
_METADATA: Final = "/host:metadata"
_GPU: Final = "/device:GPU:"
_TPU: Final = re.compile(r"/device:TPU:\d+\Z")
_DEVICE: Final = "/device:"
_GZIP: Final = b"\x1f\x8b"
_SUFFIX: Final = ".xplane.pb"


Stretches = Mapping[str, Sequence[tuple[float, float]]]
"""Starts and ends in seconds of the trace's clock, by a name."""


def read_trace(
    source: bytes | bytearray | memoryview | Path,
    *,
    maximum_bytes: int = DEFAULT_MAXIMUM_BYTES,
    stretches: Stretches | None = None,
    modules: Mapping[int, bytes] | None = None,
) -> Trace:
    """Read a trace.

    Args:
        source: A serialized XSpace, the path of a file that holds one, or a directory in which the profiler left its
            run: of several runs there the last, with all its hosts.
        maximum_bytes: The most that is read of one host.
        stretches: Parts of a serialized XSpace for which each device's time is given separately.
        modules: Serialized HloModuleProto by program id, for those that a serialized XSpace of the same process lacks.

    Raises:
        TraceError: The bytes are no trace, truncated, corrupted or more than `maximum_bytes`, or the path holds none. Of
            several hosts one that cannot be read is left out, with a note of the first.
    """
    if not isinstance(source, Path):
        return Trace((_read_host(memoryview(source), "", maximum_bytes, stretches, modules),))
    hosts = []
    names: set[str] = set()
    unreadable: list[TraceError] = []
    for path in trace_files(source):
        name = path.name.removesuffix(_SUFFIX)
        try:
            host = _read_file(path, name, maximum_bytes)
        except TraceError as error:
            unreadable.append(error)
            continue
        if host.name in names:  # each host is known by its file where the recorded names are not unique
            own = f"{host.name} ({name})"
            host = replace(host, name=own, devices=tuple(replace(one, host=own) for one in host.devices))
        names.add(host.name)
        hosts.append(host)
    if not hosts:
        raise unreadable[0]
    left_out = tuple(f"left out: {error}" for error in unreadable)
    return Trace((replace(hosts[0], notes=(*left_out, *hosts[0].notes)), *hosts[1:]))


def _read_file(path: Path, name: str, maximum_bytes: int) -> HostTrace:
    try:
        with path.open("rb") as file:
            if not os.fstat(file.fileno()).st_size:  # which cannot be mapped
                return _read_host(memoryview(b""), name, maximum_bytes)
            # Not closed explicitly: where reading fails, the error still holds views of it. The last view closes it.
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return _read_host(memoryview(mapped), name, maximum_bytes)
    except TraceError as error:
        foreign = "" if path.name.endswith(_SUFFIX) else f" (JAX's traces are files *{_SUFFIX})"
        raise TraceError(f"{path}: {error}{foreign}") from None
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}") from None


def _read_host(
    data: memoryview,
    name: str,
    maximum_bytes: int,
    stretches: Stretches | None = None,
    modules: Mapping[int, bytes] | None = None,
) -> HostTrace:
    if len(data) > maximum_bytes:
        raise TraceError(
            f"a trace of {len(data)} bytes is more than the limit of {maximum_bytes}; record for a shorter time, "
            "or raise the limit"
        )
    if not data:
        raise TraceError("the trace is empty; record it again")
    if bytes(data[:2]) == _GZIP:
        raise TraceError("the trace is compressed; unpack it with gunzip first")
    space = parts_of(data, "a trace")
    planes = [Plane(part) for part in space.pop(PLANES, ())]
    if not any(plane.name.startswith(("/device:", "/host:")) or plane.lines for plane in planes):
        raise TraceError(f"{len(data)} bytes hold no plane of a profiler: they are no trace (XSpace)")
    notes = [f"the profiler reported: {decoded(text)}" for text in (*space[ERRORS], *space[WARNINGS])]
    name = next((decoded(text) for text in space[HOSTNAMES]), name)
    try:
        return _read_planes(planes, name, notes, stretches or {}, modules or {})
    except (OverflowError, RecursionError, DecodeError) as error:
        raise TraceError(f"the trace has implausible values: {error}; record it again") from None


def _read_planes(
    planes: list[Plane], name: str, notes: list[str], stretches: Stretches, known: Mapping[int, bytes]
) -> HostTrace:
    versions: dict[str, str] = {}
    modules, buffers = dict(known), dict[int, bytes]()
    for plane in planes:
        if plane.name == _METADATA:
            read_modules(plane, notes, modules, buffers)
            texts = ((key, value) for key, value in plane.stats.items() if isinstance(value, str))
            versions |= {key: value for key, value in texts if key.endswith("_version")}
    index = ModuleIndex(modules, notes)
    hosts = [HostPlane(plane, name, index) for plane in planes if plane.name == _HOST]
    timelines = [device for host in hosts for device in host.devices()]
    copies = {correlation: call for host in hosts for correlation, call in host.copies.items()}
    for plane in planes:
        if plane.name.startswith(_DEVICE):
            timelines += _read_device(plane, name, index, copies, notes)
    devices = tuple(timeline.finish(stretches) for timeline in timelines)
    if not devices:
        notes.append("no operation of a device is in the trace (JAX 0.6 records none of a CPU)")
    return HostTrace(
        name=name,
        devices=devices,
        modules=modules,
        buffers=buffers,
        versions=versions,
        notes=tuple(notes),
        calls=calls_in(stretches, (call for host in hosts for call in host.calls)),
    )


def _read_device(
    plane: Plane, host: str, index: ModuleIndex, copies: dict[bytes, str], notes: list[str]
) -> Iterator[Timeline]:
    """The device of a plane; none if it is of no known kind, or ran nothing."""
    if plane.name.startswith(_GPU):
        timeline = GpuPlane(plane, host, index, copies).device
    elif _TPU.match(plane.name):
        timeline = TpuPlane(plane, host, index).device
    else:
        if plane.lines:
            notes.append(f"the plane {plane.name} is of no kind that is known, and was left out")
        return
    if timeline.intervals:
        yield timeline
    else:
        notes.append(f"{plane.name} ran nothing")


def trace_files(path: Path) -> list[Path]:
    """The files of one run, one for each host. Of several runs, it is the last by name, which is its time.

    Raises TraceError where the path does not exist or holds no trace.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise TraceError(f"{path}: {'neither file nor' if path.exists() else 'no such file or'} directory")
    for folder in (path, path / "plugins" / "profile"):
        here = _files(folder)
        if here:
            return here
        runs = [child for child in sorted(folder.glob("*")) if child.is_dir() and _files(child)]
        if runs:
            return _files(runs[-1])
    raise TraceError(
        f"{path}: no trace in it; give a file *{_SUFFIX}, or the directory that jax.profiler.trace() was given"
    )


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob(f"*{_SUFFIX}") if file.is_file())


Call = tuple[int, int, int, str]
"""Line of the host's plane (a thread), start and negated end in picoseconds, and the function's name."""


def calls_in(stretches: Stretches, calls: Iterable[Call]) -> dict[str, Counter[str]]:
    """Calls that begin in each stretch (starts and ends in seconds), by function; stretches without any are absent."""
    begun = [(start, start + 1, function) for start, function in outermost(calls)] if stretches else []
    inside = {name: clipped(begun, spans_of(parts)) for name, parts in stretches.items()}
    found = {name: Counter(function for *_, function in each) for name, each in inside.items()}
    return {name: counts for name, counts in found.items() if counts}


def outermost(calls: Iterable[Call]) -> Iterable[tuple[int, str]]:
    """Start and function of each call; calls inside one of the same function on the same thread are part of it."""
    open_until: dict[tuple[int, str], int] = {}
    for line, start, negated_end, function in sorted(calls):
        if start >= open_until.get((line, function), -1):
            open_until[line, function] = -negated_end
            yield start, function
