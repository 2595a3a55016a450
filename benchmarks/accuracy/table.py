"""The table: analytic value, then each tool's figure with its ratio to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.accuracy.comparison import Compared

_NAME, _ANALYTIC, _FOUND = 43, 9, 16


@dataclass(frozen=True)
class PeerFigures:
    """What another tool says of a program; ``error`` where it said nothing."""

    flops: float | None
    bytes: float | None
    error: str = ""


def print_header(peer: str | None) -> None:
    """Column names; `peer` is the other tool's name."""
    cells = [
        "matrix",
        "jaxobs",
        "XLA, all FLOPs",
        "vector",
        "jaxobs",
        "bytes",
        "jaxobs",
        "XLA",
        "sent",
        "jaxobs",
    ]
    _print("program", cells + ([f"{peer} FLOPs", f"{peer} bytes"] if peer else []), "", header=True)


def print_row(compared: Compared, peers: Mapping[str, PeerFigures] | None) -> None:
    """One program; at the end what is wrong with jaxobs's cost."""
    program, cost = compared.program, compared.cost
    matrix = None if program.unmodelled else program.matrix_flops
    sent = sum(cost.collective_bytes.values())
    cells = [
        figure(matrix),
        found(cost.matrix_flops, matrix),
        found(compared.xla_flops, matrix or program.vector_flops),
        figure(program.vector_flops),
        found(cost.vector_flops, program.vector_flops),
        figure(program.bytes),
        found(cost.bytes, program.bytes),
        found(compared.xla_bytes, program.bytes),
        figure(program.bytes_sent),
        found(sent, program.bytes_sent) if sent or program.bytes_sent else "—",
    ]
    if peers is not None:
        peer = peers.get(program.name, PeerFigures(None, None, "not run"))
        cells += [found(peer.flops, matrix or program.vector_flops), found(peer.bytes, program.bytes)]
    _print(program.name, cells, ", ".join(compared.faults))


def figure(value: float | None) -> str:
    """Four significant digits and a prefix."""
    if value is None:
        return "—"
    for power, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= power:
            return f"{value / power:.4g} {prefix}"
    return f"{value:.4g}"


def found(value: float | None, expected: float | None) -> str:
    """A figure, and its ratio to the analytic one where there is one."""
    if value is None:
        return "—"
    if expected is None:
        return f"{figure(value)}      —"
    if expected == 0:
        return f"{figure(value)}  {'right' if value == 0 else 'wrong'}"
    return f"{figure(value)}  {value / expected:.3f}"


def _print(name: str, cells: list[str], note: str, *, header: bool = False) -> None:
    analytic = {0, 3, 5, 8}  # the places of the narrow columns
    parts = [cell.rjust(_ANALYTIC if place in analytic else _FOUND) for place, cell in enumerate(cells)]
    print("  ".join([name.ljust(_NAME), *parts, note]).rstrip(), flush=True)
    if header:
        print("-" * (_NAME + sum(len(part) + 2 for part in parts)))
