"""Work that is not known, or has no peak, has no verdict: no efficiency, and not the label of what is known of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jaxobs.hardware.peaks import Peak, Peaks
from jaxobs.model.cost import Cost
from jaxobs.model.trace import OperationTime
from jaxobs.roofline_model.bottleneck import Modelled, label_of_busy, of_executable
from jaxobs.roofline_model.bounds import bound_time, efficiency, total_bound
from jaxobs.roofline_model.operation_work import Work


def peak(value: float) -> Peak:
    return Peak(value, "user", "a test")


PEAKS = Peaks(
    device_kind="example",
    matrix={"bfloat16": peak(1e12)},
    vector={"float32": peak(1e11)},
    transcendentals=peak(1e10),
    memory=peak(1e11),
    memory_by_working_set=(),
    link=peak(1e10),
    memory_capacity=None,
    reason=None,
)
KERNEL = Cost(bytes=9e10, exact=False, unmodelled=("my_kernel",))
INTEGERS = Cost({"int8": 1e12}, bytes=9e10)
SENT = Cost(vector_flops_by_type={"float32": 1e6}, bytes=1e9, collective_bytes={"all-reduce": 5e9})


def work_of(cost: Cost, *, kind: str = "compute", peaks: Peaks = PEAKS) -> Work:
    time = OperationTime(
        name="op", instruction="op", module="m", program_id=1, category="custom-call", kind=kind,  # type: ignore[arg-type]
        kernels=(), count=1, executions=1, self_seconds=1.0, charged_seconds=1.0,
    )  # fmt: skip
    work = Work()
    work.add(time, cost, bound_time(cost, peaks), None)
    return work


def test_a_kernel_without_an_estimate_has_no_figures_that_depend_on_its_work() -> None:
    """Its operands alone would take 0.9 s of the 1 s: it may read a small part of them."""
    work = work_of(KERNEL)
    figures = work.figures(1.0)
    for name in (
        "flops",
        "matrix_flops",
        "efficiency",
        "bound",
        "bound_seconds",
        "achieved_flops_per_second",
    ):
        assert figures[name] is None, name
    assert figures["efficiency_reason"] == "the work of my_kernel is not known"
    assert figures["exact"] is False
    assert figures["unmodelled_seconds"] == 1.0
    assert work.label("compute") == "unmodelled"


@pytest.mark.parametrize(("moved", "label"), [(9e10, "memory"), (1e9, "unmodelled")])
def test_a_call_with_a_loop_that_was_counted_once_is_not_limited_by_what_was_counted(
    moved: float, label: str
) -> None:
    """A sampler was `memory` with a high confidence at 0.2 % of its roof: a loop in it ran some hundred times."""
    once = Cost(bytes=moved, vector_flops_by_type={"float32": 1.0}, exact=False, inexact_reasons=("w",))
    assert work_of(once).label("compute") == label


def test_an_executable_that_is_such_a_kernel_is_unmodelled() -> None:
    bound = total_bound([bound_time(KERNEL, PEAKS)])
    verdict = of_executable(Modelled(bound, complete=False), 1.0, 10)
    assert (verdict.label, verdict.confidence) == ("unmodelled", 0.0)
    assert verdict.reason == "the work of my_kernel is not known"
    assert efficiency(bound, 1.0) == (None, "the work of my_kernel is not known", None)


def test_what_is_known_beside_a_kernel_bounds_the_whole() -> None:
    product = bound_time(Cost({"bfloat16": 1e12}), PEAKS)
    both = total_bound([product, bound_time(KERNEL, PEAKS)])
    assert (both.seconds, both.limit, both.unknown) == (1.0, "compute", ("my_kernel",))
    assert both.reason is None


def test_a_product_without_a_peak_is_not_limited_by_memory() -> None:
    bound = bound_time(INTEGERS, PEAKS)
    assert bound.limit is None
    assert label_of_busy(Modelled(bound), 1.0) == "unknown"
    assert of_executable(Modelled(bound), 1.0, 10).reason == "no peak for matrix int8"
    assert efficiency(bound, 1.0) == (None, "no peak for matrix int8", None)
    assert work_of(INTEGERS).label("compute") == "unknown"
    assert work_of(INTEGERS).figures(1.0)["flops"] == 1e12


def test_work_beside_it_keeps_its_limit_where_that_is_certain() -> None:
    slow_vectors = bound_time(replace(INTEGERS, vector_flops_by_type={"float32": 2e11}), PEAKS)
    assert slow_vectors.limit == "compute"
    copies = [bound_time(Cost(bytes=1e11), PEAKS)]
    unclear = bound_time(INTEGERS, PEAKS)
    assert total_bound([*copies, unclear]).limit == "memory"
    assert total_bound([*copies, unclear, unclear]).limit is None


def test_without_a_memory_peak_compute_is_no_verdict_either() -> None:
    bound = bound_time(Cost({"bfloat16": 1e12}, bytes=1e9), replace(PEAKS, memory=None))
    assert (bound.seconds, bound.limit) == (1.0, None)


def test_a_collective_is_held_against_the_link() -> None:
    work = work_of(SENT, kind="collective")
    figures = work.figures(1.0)
    assert figures["efficiency"] == pytest.approx(0.5)
    assert (figures["bound"], figures["bound_seconds"]) == ("communication", pytest.approx(0.5))
    assert work.label("collective") == "communication"
    together = work_of(Cost(bytes=1e10))
    together.merge(work)
    assert together.figures(2.0)["bound"] == "memory", "it may run beside the rest"


def test_a_collective_without_the_links_peak_has_no_efficiency() -> None:
    figures = work_of(SENT, kind="collective", peaks=replace(PEAKS, link=None)).figures(1.0)
    assert figures["efficiency"] is None
    assert figures["efficiency_reason"] == "no peak for link all-reduce"


@pytest.mark.parametrize(("kind", "label"), [("copy", "memory"), ("compute", "unmodelled")])
def test_a_second_without_work_is_no_latency(kind: str, label: str) -> None:
    """The core waits for a copy that another operation began, or works on what lies on the chip."""
    assert work_of(Cost(), kind=kind).label(kind) == label
