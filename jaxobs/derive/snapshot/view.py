"""The view of a snapshot: all that is shown of a job at one moment, before it is written as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxobs.derive.compilation.compilations import FunctionView, LeftOut
from jaxobs.derive.devices.view import DeviceView
from jaxobs.derive.executables.view import ExecutableView
from jaxobs.derive.loops.view import LoopView
from jaxobs.derive.process.view import AgentView, IdentityView, ProcessView, SourceView
from jaxobs.derive.profiler_windows.operations import OperationView, ScopeView
from jaxobs.model.figure import Figure, Later, Rows, plain


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """All that is shown of a job at one moment. Figures that contradict each other are withheld already."""

    identity: IdentityView
    facts: Mapping[str, Any]
    """Plain data that is shown beside `identity` and `process`, under `process` in the document."""
    process: ProcessView
    loops: Mapping[str, LoopView]
    functions: Mapping[str, FunctionView]
    """Functions by name, with the most seconds first."""
    functions_left_out: LeftOut
    executables: Sequence[ExecutableView]
    """The executables with the most device time, in order, and the one that needs the most memory."""
    executables_left_out: Figure[int]
    operations: Figure[list[OperationView]]
    scopes: Figure[list[ScopeView]]
    devices: Figure[list[DeviceView]]
    sources: Later[Mapping[str, SourceView]]
    agent: AgentView


class DocumentWriter:
    """Writes the documents of a job's snapshots; rows of large tables that stay the same are written once."""

    def __init__(self) -> None:
        self._functions, self._executables, self._operations, self._scopes = Rows(), Rows(), Rows(), Rows()

    def outline(self, view: SnapshotView) -> dict[str, Any]:
        """The parts of the document that are drawn over time, each in its place."""
        devices = view.devices.value or ()
        return {
            "process": {"memory": plain(view.process.memory.value)},
            "loops": plain(view.loops),
            "functions": {
                name: {"recompilation_count": function.recompilation_count}
                for name, function in view.functions.items()
            },
            "devices": [{"device": each.device, "memory": plain(each.memory.value)} for each in devices],
        }

    def document(self, view: SnapshotView, advice: list[dict[str, Any]]) -> dict[str, Any]:
        """The whole document of a snapshot, with the `advice` that was derived from its view."""
        functions = self._functions.written(view.functions.values())
        return {
            "process": plain(view.identity) | plain(view.facts) | plain(view.process),
            "loops": plain(view.loops),
            "functions": dict(zip(view.functions, functions, strict=True)),
            **plain(view.functions_left_out),
            "executables": self._executables.written(view.executables),
            **view.executables_left_out.under("executables_left_out"),
            **_table(view.operations, self._operations).under("operations"),
            **_table(view.scopes, self._scopes).under("scopes"),
            **view.devices.under("devices"),
            "sources": plain(view.sources),
            "agent": plain(view.agent),
            "advice": advice,
        }


def _table(figure: Figure[list[Any]], rows: Rows) -> Figure[list[Any]]:
    return figure if figure.value is None else Figure(rows.written(figure.value), figure.reason)
