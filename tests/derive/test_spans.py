"""Spans out of events: whose children they are, when there are any, and what they must never be."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.derive.fold import Fold
from jaxobs.model.events import Compilation, Event, SpanContext, SpanEnded, StepCompleted
from jaxobs.model.metrics import Catalogue
from jaxobs.model.spans import Span
from tests.derive.made_up import BEGAN, CLOCK, applied, at, families, new_fold, sound_events, step

APPLICATION = SpanContext(0xA, 0xB, 1)


def compilation(parent: SpanContext | None = None, function: str = "f", number: int = 1) -> Compilation:
    phases = (("trace", at(1), at(2)), ("lower", at(2), at(3)), ("backend", at(3), at(5)))
    return Compilation(function, number, 1, at(5), phases, "miss", "shape", (("jax.old", "f32[2]"),), parent)


def spans(events: list[Event], fold: Fold | None = None) -> list[Span]:
    return applied(fold or new_fold(), events).finished_spans()


def test_a_compile_has_its_phases_as_children() -> None:
    whole, *parts = spans([compilation()])
    assert (whole.name, whole.start, whole.end, whole.parent) == ("jax.compile", at(1), at(5), None)
    assert [part.name for part in parts] == ["trace", "lower", "backend_compile"]
    for part in parts:
        assert part.parent == SpanContext(whole.trace_id, whole.span_id, 1)
        assert part.trace_id == whole.trace_id
        assert whole.start <= part.start <= part.end <= whole.end
    attributes = dict(whole.attributes)
    assert attributes["jax.function"] == "f"
    assert attributes["jax.recompilation.cause"] == "shape"
    assert attributes["jax.old"] == "f32[2]"


def test_a_compile_inside_the_applications_span_is_its_child() -> None:
    whole, *parts = spans([compilation(APPLICATION)])
    assert whole.parent == APPLICATION
    assert {part.trace_id for part in (whole, *parts)} == {APPLICATION.trace_id}


def test_eager_compiles_have_no_children() -> None:
    assert len(spans([compilation(function="(eager)")])) == 1


def test_a_slow_step_inside_the_applications_span_is_its_child() -> None:
    events = [step(i, i, i + 1) for i in range(10)]
    (slow,) = spans([*events, step(10, 10, 20, parent=APPLICATION)])
    assert (slow.name, slow.parent, slow.trace_id) == ("jax.step", APPLICATION, APPLICATION.trace_id)
    assert dict(slow.attributes)["jax.step.why"] == "slow"


def test_step_spans_are_rate_limited_a_loop() -> None:
    """Ten minutes of 1 ms steps, each thousandth slow, each tenth seen to complete."""
    fold = new_fold()
    now = 0.0
    for number in range(60_000):
        length = 0.05 if number % 1_000 == 999 else 0.01
        fold.apply(step(number, now, now + length))
        now += length
        if number % 10 == 0:
            fold.apply(StepCompleted("train", number, at(now), 1_000))
    why = [dict(span.attributes)["jax.step.why"] for span in fold.finished_spans()]
    assert why.count("slow") == 60
    assert now / 10 - 2 <= why.count("sampled") <= now / 10 + 1


def test_a_step_that_is_slow_and_sampled_has_one_span() -> None:
    events: list[Event] = [step(i, i * 0.1, i * 0.1 + 0.1, runs=(1,)) for i in range(10)]
    slow, done = step(10, 1.0, 20.0, runs=(1,)), StepCompleted("train", 10, at(20), 1_000)
    for order in ([slow, done], [done, slow]):
        found = spans([*events, *order])
        assert [dict(span.attributes)["jax.step"] for span in found] == [10]


def test_ranks_of_a_job_put_a_step_into_one_trace_and_strangers_do_not() -> None:
    def trace(instance: str, job: str | None) -> tuple[int, int]:
        resource = {"service.instance.id": instance} | ({"jaxobs.run": job} if job else {})
        fold = Fold(Catalogue(), CLOCK, BEGAN, resource, {}, 100)
        (span,) = spans([step(7, 1, 2), StepCompleted("train", 7, at(2), 0)], fold)
        return span.trace_id, span.span_id

    first, second, stranger, alone = (
        trace("a", "run"), trace("b", "run"), trace("a", "other"), trace("a", None),
    )  # fmt: skip
    assert first[0] == second[0]
    assert first[1] != second[1]
    assert len({first[0], stranger[0], alone[0]}) == 3


def test_two_spans_of_a_plugin_with_one_name_and_time_are_two() -> None:
    ended = SpanEnded("work", at(1), at(2), (("n", 1),), None)
    first, second = spans([ended, ended._replace(attributes=(("n", 2),))])
    assert first.span_id != second.span_id


@settings(max_examples=150, deadline=None)
@given(st.lists(sound_events, max_size=40))
def test_identities_are_never_zero_and_lie_in_range_and_children_lie_in_their_parents(
    events: list[Event],
) -> None:
    found = spans(events)
    # Made-up compilations may share a number, which real ones never do: then one of their spans is the parent.
    own: dict[tuple[int, int], list[Span]] = {}
    for span in found:
        own.setdefault((span.trace_id, span.span_id), []).append(span)
    for span in found:
        assert 0 < span.trace_id < 2**128
        assert 0 < span.span_id < 2**64
        if span.parent is None:
            continue
        assert span.parent.trace_id == span.trace_id
        around = own.get((span.trace_id, span.parent.span_id), [])
        if around and around[0].name == "jax.compile":
            assert any(parent.start <= span.start and span.end <= parent.end for parent in around)


def test_exemplars_hold_the_value_that_was_observed_in_their_bucket() -> None:
    fold = new_fold()
    applied(fold, [step(i, i * 1.0, i * 1.0 + 0.004, gap=0.0, runs=(1,)) for i in range(30)])
    applied(fold, [StepCompleted("train", 0, at(0.5), 1_000), StepCompleted("train", 20, at(21), 1_000)])
    fold.apply(step(30, 30.0, 30.004, runs=(1,)))
    fold.apply(compilation())
    from tests.derive.made_up import compiled

    fold.apply(compiled(3, 5))
    fold.apply(compilation(number=2))
    found = families(fold.snapshot(at(40)))
    seen = 0
    for metric in ("jaxobs_step_seconds", "jaxobs_step_host_seconds", "jaxobs_compile_seconds"):
        for labels, histogram in found[metric].items():
            for count, exemplar in zip(histogram.counts, histogram.exemplars, strict=True):
                assert exemplar is None or count > 0, (metric, labels)
                seen += exemplar is not None
    host = [exemplar.value for exemplar in found["jaxobs_step_host_seconds"]["train",].exemplars if exemplar]
    assert host == [0.004]
    backend = [
        exemplar.value for exemplar in found["jaxobs_compile_seconds"]["backend",].exemplars if exemplar
    ]
    assert backend == [2.0]
    assert seen >= 3
