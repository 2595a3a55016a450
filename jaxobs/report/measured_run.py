"""One measured run of a program against the roofline of its device: what `jaxobs.roofline()` returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from jaxobs.hardware.peaks import Peaks
from jaxobs.model.cost import Cost, ModuleCost, inexact_for
from jaxobs.roofline_model.bottleneck import Modelled, of_executable
from jaxobs.roofline_model.bounds import Bound, Utilization, efficiency, model_flops_utilization, roof, run_on
from jaxobs.vocabulary.units import amount, duration, percent


@dataclass(frozen=True, slots=True)
class Roofline:
    """How near a program came to the roof of its device. An absent value is None, and a reason says why.

    Attributes:
        cost: Work of one run on one device.
        seconds: Median time of one run, s.
        spread_seconds: Distance between the quartiles of those times, s.
        achieved_flops_per_second: `cost.flops` over `seconds`.
        attainable_flops_per_second: `cost.flops` over the bound time.
        efficiency: Bound time over `seconds`, never clamped.
        bound: What the bound time is that of: `compute`, `memory`, or `cache_resident` where the run was faster than
            device memory allows.
        bottleneck: One of the words of docs/how_it_works/bottlenecks.md, with `confidence` (0 to 1) and `runner_up`.
        mfu: Matrix FLOPs without rematerialised ones, over `seconds` and the matrix peak of their types.
        hfu: The same with rematerialised ones.
        device: JAX's `device_kind`.
        peaks: Of that device, each with its provenance.
        reason: Why the efficiency is absent, is of a lower bound, or is above 1.
        utilization_reason: Why `mfu` or `hfu` is absent.
    """

    cost: Cost
    seconds: float
    spread_seconds: float | None
    achieved_flops_per_second: float | None
    attainable_flops_per_second: float | None
    efficiency: float | None
    bound: str | None
    bottleneck: str
    confidence: float
    runner_up: str | None
    mfu: float | None
    hfu: float | None
    device: str
    peaks: Peaks
    reason: str | None
    utilization_reason: str | None

    def utilization(self, model_flops: float) -> Utilization:
        """MFU and HFU where the MFU is of your own count: `model_flops`, the model's FLOPs of one run on one device.

        They are shared out over the element types as the matrix FLOPs of `cost` are.
        """
        return model_flops_utilization(self.cost, self.seconds, self.peaks, model_flops)

    def figures(self) -> Iterator[tuple[str, str]]:
        """Title and text of each known figure; HFU only where it is not the MFU."""
        hfu = self.hfu if self.hfu != self.mfu else None
        ratios = (("efficiency", self.efficiency), ("MFU", self.mfu), ("HFU", hfu))
        yield from ((title, percent(ratio)) for title, ratio in ratios if ratio is not None)
        rates = {"achieved": self.achieved_flops_per_second, "attainable": self.attainable_flops_per_second}
        yield from ((title, amount(rate, "FLOP/s")) for title, rate in rates.items() if rate is not None)

    def __str__(self) -> str:
        """A few lines: the time, the rates, the bottleneck, the work, and what is not known."""
        spread = f", quartiles {duration(self.spread_seconds)} apart" if self.spread_seconds else ""
        second = f", then {self.runner_up}" if self.runner_up else ""
        figures = ", ".join(f"{title} {value}" for title, value in self.figures())
        is_repeated = (self.utilization_reason or "") in (self.reason or "")
        lines = (
            f"{self.device}: {duration(self.seconds)} a run{spread}; {self.bottleneck}{second}",
            figures,
            f"work: {self.cost}",
            *self._other_types(),
            self.reason,
            None if is_repeated else f"MFU, HFU: {self.utilization_reason}",
        )
        return "\n  ".join(filter(None, lines))

    def _repr_html_(self) -> str:
        """A picture and a table, where a notebook shows the object."""
        from jaxobs.report.notebook import roofline_html

        dtypes = [dtype for dtype, flops in self.cost.matrix_flops_by_type.items() if flops]
        roofs = [roof(self.peaks, dtype) for dtype in dtypes or self.cost.vector_flops_by_type]
        return roofline_html(self, [one for one in roofs if one is not None])

    def _other_types(self) -> list[str]:
        """A line that names the types in which the device multiplies float32, where they are others."""
        if not self.cost.matrix_flops_by_type.keys() & {"float32", "complex64"}:
            return []
        run_as = run_on(self.cost, self.peaks).executed_matrix_flops_by_type.keys()
        asked = self.cost.executed_matrix_flops_by_type.keys() | self.cost.matrix_flops_by_type.keys()
        others = run_as - asked
        return [f"products asked for in float32 run in {' and '.join(sorted(others))} here"] if others else []

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        plain = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return plain | {"cost": self.cost.to_dict(), "peaks": self.peaks.to_dict()}


def measured_run(
    module: ModuleCost, bound: Bound, seconds: float, spread: float | None, samples: int, peaks: Peaks
) -> Roofline:
    """The roofline of a module run in `seconds`, a median of `samples` whose quartiles lie `spread` seconds apart."""
    work, reached = module.cost, efficiency(bound, seconds)
    complete = work.exact and not work.unmodelled and bound.knows_large_parts
    operations = sum(operation.executions for operation in module.operations)
    verdict = of_executable(Modelled(bound, complete, operations), seconds, samples)
    used = model_flops_utilization(work, seconds, peaks)
    # Where there is no bound, that has a reason of its own.
    missing = work.why_inexact() + [f"no peak for {name}" for name in bound.missing] if bound.limit else []
    why = peaks.reason if reached.value is None else verdict.reason
    reasons = (reached.reason, inexact_for(missing) if missing else None, why)
    flops = work.flops if work.flops > 0 else None
    return Roofline(
        cost=work, seconds=seconds, spread_seconds=spread,
        achieved_flops_per_second=flops and flops / seconds,
        attainable_flops_per_second=flops / bound.seconds if flops and bound.limit and bound.seconds else None,
        efficiency=reached.value, bound=reached.limit, reason="; ".join(filter(None, reasons)) or None,
        bottleneck=verdict.label, confidence=verdict.confidence, runner_up=verdict.runner_up,
        mfu=used.mfu, hfu=used.hfu, utilization_reason=used.reason,
        device=peaks.device_kind, peaks=peaks,
    )  # fmt: skip
