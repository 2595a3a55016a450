"""Spans out of events: whose children they are, when there are any, and what they must never be."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.derive.fold import Fold
from jaxobs.derive.spans import MAX_NAMES
from jaxobs.model.events import Compilation, Event, PhaseEnded, Span, SpanContext, SpanEnded, StepCompleted
from jaxobs.model.metrics import Catalogue
from tests.derive.made_up import BEGAN, CLOCK, applied, at, compiled, families, new_fold, sound_events, step

APPLICATION = SpanContext(0xA, 0xB, 1)


def compilation(parent: SpanContext | None = None, function: str = "f", number: int = 1) -> Compilation:
    phases = (("trace", at(1), at(2)), ("lower", at(2), at(3)), ("backend", at(3), at(5)))
    return Compilation(function, number, 1, at(5), phases, "miss", "shape", (("jax.old", "f32[2]"),), parent)


def spans(events: list[Event], fold: Fold | None = None) -> list[Span]:
    """Without that of the whole run, with which all that was held back is shown."""
    fold = applied(fold or new_fold(), events)
    fold.end(at(1_000_000), by_itself=True)
    *found, run = fold.spans.take()
    assert run.name == "jax.run"
    return found


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


def test_a_trace_made_long_before_is_no_part_of_the_compile() -> None:
    event = compilation()
    phases = (("trace", at(-90), at(-89)), *event.phases[1:])  # by `jax.eval_shape`
    whole, *parts = spans([event._replace(phases=phases)])
    assert (whole.start, whole.end) == (at(2), at(5))
    assert [part.name for part in parts] == ["lower", "backend_compile"]


def test_a_compile_inside_the_applications_span_is_its_child() -> None:
    whole, *parts = spans([compilation(APPLICATION)])
    assert whole.parent == APPLICATION
    assert {part.trace_id for part in (whole, *parts)} == {APPLICATION.trace_id}


def test_a_compile_is_a_child_of_the_step_it_delayed() -> None:
    """In one trace, to which the exemplar of the compile points too."""
    fold = new_fold()
    events = [compiled(3, 5), compilation(), step(0, 0.5, 6), step(1, 6, 7)]
    delayed, whole, *parts = spans(events, fold)
    assert (delayed.name, delayed.start, delayed.end) == ("jax.step", at(0.5), at(6))
    assert dict(delayed.attributes)["jax.step.why"] == "compiled"
    assert (whole.name, whole.parent) == ("jax.compile", SpanContext(delayed.trace_id, delayed.span_id, 1))
    assert {span.trace_id for span in (whole, *parts)} == {delayed.trace_id}
    histogram = families(fold.snapshot(at(8)))["jaxobs_compile_seconds"]["backend",]
    [exemplar] = [exemplar for exemplar in histogram.exemplars if exemplar]
    assert (int(exemplar.trace_id, 16), int(exemplar.span_id, 16)) == (whole.trace_id, whole.span_id)


def test_without_a_place_for_spans_no_histogram_leads_to_one() -> None:
    fold = new_fold()
    spans([compiled(3, 5), compilation(), step(0, 0.5, 6), step(1, 6, 7)], fold)
    fold.series.exemplars = False
    shown = families(fold.snapshot(at(8)))
    assert shown["jaxobs_compile_seconds"]["backend",].exemplars == ()
    fold.series.exemplars = True  # an exporter has started meanwhile
    assert any(families(fold.snapshot(at(9)))["jaxobs_compile_seconds"]["backend",].exemplars)


@pytest.mark.parametrize("flags", [0, 1])
def test_what_the_application_does_not_sample_no_histogram_leads_to(flags: int) -> None:
    fold, around = new_fold(), APPLICATION._replace(trace_flags=flags)
    slow = step(4, 4, 44, runs=(1,))._replace(parent=around)
    spans(
        [*(step(i, i, i + 1, runs=(1,)) for i in range(4)), slow, compiled(45, 47), compilation(around)], fold
    )
    shown = families(fold.snapshot(at(120)))
    for metric, labels in (
        ("jaxobs_step_host_seconds", ("train",)),
        ("jaxobs_compile_seconds", ("backend",)),
    ):
        exemplars = shown[metric][labels].exemplars
        assert any(exemplars) == bool(flags), metric


def test_a_compile_between_steps_or_on_another_thread_is_no_ones_child() -> None:
    elsewhere = compilation()._replace(thread=compilation().thread + 1)
    first, second, *_ = [
        span for span in spans([compilation(), elsewhere, step(0, 1.5, 6)]) if span.name == "jax.compile"
    ]
    assert (first.parent, second.parent) == (None, None)


def test_inside_the_applications_span_step_and_compile_are_its_descendants() -> None:
    delayed, whole, *_ = spans([compilation(APPLICATION), step(0, 0.5, 6, parent=APPLICATION)])
    assert delayed.parent == APPLICATION
    assert whole.parent == SpanContext(APPLICATION.trace_id, delayed.span_id, 1)


def test_a_compile_in_a_span_that_the_application_opened_in_the_step_stays_there() -> None:
    _, whole, *_ = spans([compilation(SpanContext(0xA, 0xC, 1)), step(0, 0.5, 6, parent=APPLICATION)])
    assert whole.parent == SpanContext(0xA, 0xC, 1)


def test_the_innermost_step_has_the_compile() -> None:
    found = spans([compilation(), step(0, 0.9, 5.5, loop="eval"), step(0, 0, 6)])
    inner, whole = found[:2]
    assert (dict(inner.attributes)["jax.loop"], whole.parent) == (
        "eval",
        SpanContext(inner.trace_id, inner.span_id, 1),
    )
    assert [span.name for span in found].count("jax.step") == 1


def test_a_compile_outside_any_step_is_shown_after_a_minute() -> None:
    fold = applied(new_fold(), [compilation()])
    fold.snapshot(at(64))
    assert fold.spans.take() == []
    fold.snapshot(at(66))
    assert next(span.name for span in fold.spans.take()) == "jax.compile"


def test_phases_are_spans_and_of_many_short_ones_one_a_second() -> None:
    long = PhaseEnded("checkpoint", "train", at(1), at(3), 0)
    short = [PhaseEnded("evaluation", None, at(i / 100), at(i / 100 + 0.005), 0) for i in range(500)]
    found = spans([long, *short])
    assert [(span.name, span.start, span.end) for span in found[:1]] == [("jax.phase", at(1), at(3))]
    assert dict(found[0].attributes) == {"jax.phase": "checkpoint", "jax.loop": "train"}
    assert [dict(span.attributes)["jax.phase"] for span in found].count("evaluation") == 5


def test_short_phases_of_ever_new_names_share_one_span_a_second() -> None:
    phases = [PhaseEnded(f"epoch {i}", None, at(i / 1000), at(i / 1000 + 0.0005), 0) for i in range(900)]
    assert len(spans(list(phases))) == MAX_NAMES + 1


def test_a_span_of_the_whole_run_comes_at_its_end() -> None:
    resource = {"jaxobs.run": "llama", "jaxobs.attempt": "2", "jax.process_index": "1"}
    fold = applied(Fold(Catalogue(CORE_METRICS), CLOCK, BEGAN, resource, {}, 100, job="j"), [step(0, 1, 2)])
    assert [span.name for span in fold.spans.take()] == []
    fold.end(at(10), by_itself=False)
    (run,) = fold.spans.take()
    assert (run.name, run.start, run.end, run.parent) == ("jax.run", at(0), at(10), None)
    attributes = dict(run.attributes)
    assert (attributes["jaxobs.run"], attributes["jaxobs.attempt"]) == ("llama", "2")
    assert (attributes["jax.run.steps"], attributes["jax.run.ended"]) == (1, "killed")


def test_eager_compiles_have_no_children() -> None:
    assert len(spans([compilation(function="(eager)")])) == 1


def test_a_slow_step_inside_the_applications_span_is_its_child() -> None:
    events = [step(i, i, i + 1) for i in range(10)]
    (slow,) = spans([*events, step(10, 10, 20, parent=APPLICATION)])
    assert (slow.name, slow.parent, slow.trace_id) == ("jax.step", APPLICATION, APPLICATION.trace_id)
    assert dict(slow.attributes)["jax.step.why"] == "slow"


def test_step_spans_are_rate_limited_a_loop() -> None:
    """Three minutes of 10 ms steps, each thousandth slow, each tenth seen to complete."""
    fold = new_fold()
    now = 0.0
    for number in range(18_000):
        length = 0.05 if number % 1_000 == 999 else 0.01
        fold.apply(step(number, now, now + length))
        now += length
        if number % 10 == 0:
            fold.apply(StepCompleted("train", number, at(now), 1_000))
    fold.snapshot(at(now))
    why = [dict(span.attributes)["jax.step.why"] for span in fold.spans.take()]
    assert why.count("slow") == 18
    assert now / 10 - 2 <= why.count("sampled") <= now / 10 + 1


def test_a_step_that_is_slow_and_sampled_has_one_span() -> None:
    events: list[Event] = [step(i, i * 0.1, i * 0.1 + 0.1, runs=(1,)) for i in range(10)]
    slow: Event = step(10, 1.0, 20.0, runs=(1,))
    done: Event = StepCompleted("train", 10, at(20), 1_000)
    for order in ([slow, done], [done, slow]):
        found = spans([*events, *order])
        assert [dict(span.attributes)["jax.step"] for span in found] == [10]


def test_ranks_of_a_job_put_a_step_into_one_trace_and_strangers_do_not() -> None:
    def trace(instance: str, job: str | None) -> tuple[int, int]:
        fold = Fold(
            Catalogue(CORE_METRICS), CLOCK, BEGAN, {"service.instance.id": instance}, {}, 100, job=job
        )
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
    applied(fold, [step(i, i * 0.004, (i + 1) * 0.004, runs=(1,)) for i in range(30)])
    applied(fold, [StepCompleted("train", 0, at(0.5), 1_000), StepCompleted("train", 20, at(21), 1_000)])
    fold.apply(step(30, 0.12, 0.124, runs=(1,)))
    fold.apply(compilation())
    fold.apply(compiled(3, 5))
    fold.apply(compilation(number=2))
    fold.snapshot(at(70))  # from here on the compiles, which were in no step, are shown without one
    found = families(fold.snapshot(at(71)))
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
