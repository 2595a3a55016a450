"""Phases that a library's calls mark: told where they are certain or last, and never beside the script's own."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from jax.profiler import StepTraceAnnotation

from jaxobs.model.events import PhaseEnded
from jaxobs.plugin.guard import FAILURES_IN_A_ROW, Guard
from jaxobs.plugin.library_probe import LibraryProbe
from jaxobs.plugin.protocol import Job
from jaxobs.probe.side import ProbeJob
from jaxobs.probe.steps.marks import LASTING, LibraryPhase, hook_annotations
from jaxobs.testing import FakeJob
from tests.probe.marks_under_a_clock import Marks, own, steps_of


class OfALibrary(LibraryProbe):
    modules = ("a_library_that_no_test_imports",)

    def wrap(self, module: ModuleType) -> None:
        """Nothing by itself."""


def started(job: Job) -> OfALibrary:
    probe = OfALibrary()
    probe.start(job)
    return probe


def of_a_library(marks: Marks, name: str = "checkpoint", *, tentative: bool = False) -> LibraryPhase:
    return LibraryPhase(marks.loops, name, tentative=tentative)


def phases(events: list[Any]) -> list[tuple[str, int]]:
    return [(event.phase, event.end - event.start) for event in events if isinstance(event, PhaseEnded)]


def test_a_tentative_phase_that_is_short_leaves_its_time_to_the_step(marks: Marks) -> None:
    with marks.step():
        marks.work(10)
        with of_a_library(marks, tentative=True):
            marks.work(LASTING - 1)
        marks.ran(2)
    events = marks.events()
    (step,) = steps_of(events)
    assert (own(step), step.checkpoint, step.runs) == (LASTING + 9, 0, (2,))
    assert phases(events) == marks.phases_started == []


def test_a_tentative_phase_that_lasts_is_one(marks: Marks) -> None:
    with marks.step():
        marks.work(10)
        with of_a_library(marks, tentative=True):
            marks.work(LASTING)
    events = marks.events()
    (step,) = steps_of(events)
    assert (own(step), step.checkpoint) == (LASTING + 10, LASTING)
    assert phases(events) == [("checkpoint", LASTING)]


def test_a_certain_phase_inside_a_tentative_one_makes_it_certain_from_its_beginning(marks: Marks) -> None:
    with of_a_library(marks, tentative=True):
        marks.work(5)
        with of_a_library(marks):
            marks.work(7)
    assert phases(marks.events()) == [("checkpoint", 12)]
    assert [event.time for event in marks.phases_started] == [1_000]


@pytest.mark.parametrize("own_word", ["checkpoint", "initialisation"])
def test_inside_the_scripts_own_phase_nothing_is_marked(marks: Marks, own_word: str) -> None:
    with marks.phase(own_word):
        marks.work(3)
        for tentative in (False, True):
            with of_a_library(marks, tentative=tentative):
                marks.work(LASTING)
    assert phases(marks.events()) == [(own_word, 2 * LASTING + 3)]


def test_a_checkpoint_in_an_evaluation_is_told_beside_it(marks: Marks) -> None:
    with marks.phase("evaluation"):
        marks.work(3)
        with of_a_library(marks):
            marks.work(4)
    ended = [event for event in marks.events() if isinstance(event, PhaseEnded)]
    assert [(event.phase, event.nested) for event in ended] == [("checkpoint", 0), ("evaluation", 4)]


def test_on_another_thread_nothing_is_marked(marks: Marks) -> None:
    def save() -> None:
        with of_a_library(marks):
            marks.work(LASTING)

    thread = threading.Thread(target=save)
    thread.start()
    thread.join()
    assert marks.events() == marks.phases_started == []


def test_a_plugin_that_cannot_name_the_phase_leaves_the_librarys_call_alone() -> None:
    library: Any = ModuleType("library")
    library.save = lambda step: step + 1
    job = FakeJob()

    def name() -> str:
        raise KeyError("no such phase")

    started(job).phase(library, "save", name)
    assert library.save(1) == 2
    assert ["no such phase" in failure for failure in job.failures] == [True]


class Careless(StepTraceAnnotation):
    def __init__(self) -> None:
        pass


@pytest.mark.filterwarnings("ignore:nanobind")
def test_a_phase_ends_though_its_probe_was_set_aside_within(observed: Any) -> None:
    guard = Guard("library", "probe", lambda line: None)
    library: Any = ModuleType("library")

    def save() -> None:
        for _ in range(FAILURES_IN_A_ROW):
            guard.fail("a hook within")

    library.save = save
    started(ProbeJob(observed.side, guard)).phase(library, "save", lambda: "checkpoint")
    library.save()
    assert [event.phase for event in observed.of(PhaseEnded)] == ["checkpoint"]
    assert observed.side.loops.current.phase is None


def test_a_wrong_step_annotation_of_jax_raises_as_without(marks: Marks) -> None:
    annotation: Any = StepTraceAnnotation

    def raised() -> list[tuple[str, list[str]]]:
        found = []
        wrongly: tuple[Callable[..., Any], ...] = (annotation, lambda: annotation("a", "b"))
        for wrong in wrongly:
            with pytest.raises(TypeError) as caught:
                wrong()
            lines = traceback.extract_tb(caught.value.__traceback__)
            found.append((str(caught.value), [line.name for line in lines]))
        return found

    plain = raised()
    undo = hook_annotations(marks.loops, lambda mark: mark)
    try:
        assert raised() == plain
        Careless().__enter__()
    finally:
        undo()


def test_a_static_method_of_a_library_stays_one() -> None:
    class Library:
        @staticmethod
        def save(path: str) -> str:
            return path

    probe = started(FakeJob())
    probe.phase(Library, "save", lambda: "checkpoint")
    probe.values(Library, "save", dict)
    assert Library.save("folder") == Library().save("folder") == "folder"
