"""How long a run takes by what was polled: how late polls are, how sure that is, and what it does to the bottleneck."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.derive.executables.executable import ENOUGH_SAMPLES, SAMPLES_KEPT, CleanRun, Executable, absorb
from jaxobs.derive.executables.view import FEW_TRACED, TRACED, executable_view
from jaxobs.derive.fold import Fold
from jaxobs.derive.loops.bottleneck import Charged, decide
from jaxobs.model.cost import Cost
from jaxobs.model.events import CompilePhaseStarted, ExecutableRan, FunctionCalled, FunctionWatched
from jaxobs.roofline_model.traced import ProfiledModule
from tests.derive.made_up import (
    PEAKS,
    applied,
    at,
    backend,
    compiled,
    created,
    main_thread,
    module,
    new_fold,
    step,
    waits,
)


def executable(*samples: float) -> Executable:
    made = Executable(1, "f", {}, 1)
    made.clean_runs.extend(CleanRun(each, 0.0) for each in samples)
    return made


def window(made: Executable, per_run: float, runs: int = 10) -> Executable:
    """A window that told the executable's runs apart."""
    absorb(made, ProfiledModule("jit_f", None, 1, runs, per_run * runs, per_run * runs), (), None)
    return made


def test_windows_tell_what_a_run_takes_and_several_clean_runs_cap_it() -> None:
    """Tracing makes six hundred operations of half a microsecond four times as long."""
    made = window(window(executable(), 2e-3), 2e-3)
    assert made.seconds_per_run == pytest.approx(2e-3)
    made.clean_runs.extend([CleanRun(1.2e-3, 0.0)] * (ENOUGH_SAMPLES - 1))
    assert made.seconds_per_run == pytest.approx(2e-3)
    made.clean_runs.append(CleanRun(1.2e-3, 0.0))
    assert made.seconds_per_run == pytest.approx(1.2e-3)
    made.clean_runs.extend([CleanRun(4e-3, 0.0)] * SAMPLES_KEPT)
    assert made.seconds_per_run == pytest.approx(2e-3)


def test_clean_runs_of_before_three_windows_cap_nothing() -> None:
    """A device is throttled while the host is ahead, and steps of several executables have no spacing."""
    executables = applied(new_fold(), [created(1)]).executables
    made = executables[1]
    for number in range(SAMPLES_KEPT):
        executables.sampled(ExecutableRan(1, 1.0, 0.01, at(number)))
    assert window(window(made, 1.2), 1.2).seconds_per_run == pytest.approx(1.0)
    assert window(made, 1.2).seconds_per_run == pytest.approx(1.2)
    executables.sampled(ExecutableRan(1, 1.0, 0.01, at(100)))
    assert made.seconds_per_run == pytest.approx(1.2)


def test_a_run_takes_no_longer_than_steps_that_run_nothing_else() -> None:
    made = window(executable(*[0.5e-3] * ENOUGH_SAMPLES), 1.28e-3)
    made.spacings.extend((each, False) for each in (0.29e-3, 0.30e-3, 0.31e-3))
    assert made.seconds_per_run == pytest.approx(0.30e-3)


@pytest.mark.parametrize("ahead", [True, False])
def test_steps_of_a_host_that_ran_ahead_tell_what_a_run_takes_where_nothing_else_does(ahead: bool) -> None:
    """Where the host waits in each step, its own work is in the step's time."""
    executables = applied(new_fold(), [created(1)]).executables
    executables.spaced((1, 1), 4e-3, ahead=ahead)
    assert executables.seconds_of(1) == (pytest.approx(2e-3) if ahead else None)


def test_many_steps_of_a_host_that_ran_ahead_tell_more_than_one_clean_run() -> None:
    """The first run alone began on an idle device, while nothing else took the processors."""
    made = executable(0.8)
    made.spacings.extend((each, False) for each in (1.3, 1.2, 1.4))
    assert made.seconds_per_run == pytest.approx(0.8)
    made.spacings.append((1.3, True))
    assert made.seconds_per_run == pytest.approx(1.3)


def test_where_a_host_was_ahead_now_and_then_only_what_ran_then_tells_what_a_run_takes() -> None:
    """It slept after each 200 steps: most stretches had a pause in them, which was taken for the time of a run."""
    made = executable()
    made.spacings.extend([(12e-3, False), (3e-3, True), (24e-3, False), (2e-3, True), (10e-3, False)])
    assert made.seconds_per_run == pytest.approx(2.5e-3)


def test_steps_of_a_host_that_ran_ahead_long_ago_tell_nothing_of_now() -> None:
    """Its input became slower, which is in the spacing of steps too."""
    executables = applied(new_fold(), [created(1)]).executables
    executables.spaced((1,), 4e-3, ahead=True)
    for _ in range(SAMPLES_KEPT):
        executables.spaced((1,), 20e-3, ahead=False)
    assert executables.seconds_of(1) is None


def test_clean_runs_of_before_the_host_was_ahead_cap_nothing() -> None:
    """A loop that waited for its input has a throttled device: none of its runs begins on an idle device any more."""
    executables = applied(new_fold(), [created(1)]).executables
    for second in range(SAMPLES_KEPT):
        executables.sampled(ExecutableRan(1, 10e-3, 0.0, at(second)))
        executables.spaced((1,), 40e-3, ahead=False)
    assert executables.seconds_of(1) == pytest.approx(10e-3)
    for _ in range(SAMPLES_KEPT):
        executables.spaced((1,), 20e-3, ahead=True)
    assert executables.seconds_of(1) == pytest.approx(20e-3)
    window(executables[1], 20e-3)
    assert executables.seconds_of(1) == pytest.approx(20e-3)


def test_the_newest_windows_tell_the_time_of_a_run_where_runs_have_become_longer() -> None:
    """A device that was throttled after hours seemed idle for what its runs took longer than before."""
    made = executable()
    for _ in range(100):
        window(made, 0.1)
    took = [window(made, 0.2).seconds_per_run for _ in range(5)]
    assert took == pytest.approx([0.15, 0.175, 0.1875, 0.194, 0.197], abs=1e-3)


def test_many_windows_tell_the_time_of_a_run_where_some_runs_take_longer() -> None:
    """Each tenth window holds a run of another branch."""
    made = branches()
    for number in range(200):
        window(made, 1.0 if number % 10 == 0 else 0.1)
    assert made.seconds_per_run == pytest.approx(0.19, rel=0.25)


def test_a_window_tells_nothing_of_a_run_that_is_nearly_as_long_as_itself() -> None:
    """Of a run of 3.5 s windows of 0.1 s showed pieces, which looked like runs."""
    made = window(executable(), 0.1, runs=1)
    assert made.seconds_per_run is None
    assert made.windows.runs == 1
    assert window(made, 0.05, runs=2).seconds_per_run == pytest.approx(0.05)


times = st.lists(st.floats(1e-5, 10.0), max_size=SAMPLES_KEPT)


@given(times, times, st.lists(st.floats(1e-6, 20.0), max_size=8))
def test_a_run_takes_no_more_than_anything_tells(
    samples: list[float], spacings: list[float], windows: list[float]
) -> None:
    made = executable(*samples)
    made.spacings.extend((each, False) for each in spacings)
    for traced in windows:
        window(made, traced)
    took = made.seconds_per_run
    assert (took is None) == (not samples and not windows)
    if took is not None:
        assert 0 < took <= max([*samples, *windows])
        assert not spacings or took <= statistics.median(spacings)


def branches(*samples: float) -> Executable:
    """An executable whose module does not tell which of its branches a run takes."""
    made = executable(*samples)
    made.cost = Cost(exact=False)
    return made


@pytest.mark.parametrize(("runs", "reserve"), [(7, FEW_TRACED), (20, TRACED)])
def test_what_few_traced_runs_tell_has_a_reserve_of_its_own(runs: int, reserve: str) -> None:
    made = window(executable(), 1e-3, runs)
    view = executable_view(made, made.seconds_per_run, None, PEAKS)
    assert (view.seconds_per_run.value, view.seconds_per_run.reason) == (pytest.approx(1e-3), reserve)


def test_a_disturbed_run_in_a_window_does_not_lengthen_runs_that_are_alike() -> None:
    made = executable()
    absorb(made, ProfiledModule("jit_f", None, 1, 4, 5.0, 4.0), (), None)
    assert (made.seconds_per_run, made.windows.seconds) == (1.0, 5.0)


def test_runs_of_branches_that_differ_are_timed_by_windows_with_those_that_their_edges_cut() -> None:
    """Each fourth run takes 10 ms, the others 1 ms; windows of 26 ms begin at any moment."""
    made = branches(1e-3, 10e-3, 1e-3)
    assert made.seconds_per_run is None
    starts = [sum(10 if before % 4 == 0 else 1 for before in range(number)) for number in range(40)]
    spans = [(start, start + (10 if number % 4 == 0 else 1)) for number, start in enumerate(starts)]
    for begin in [tenth / 10 for tenth in range(20, 280)]:
        end = begin + 26
        whole = [(start, stop) for start, stop in spans if begin <= start and stop <= end]
        cut = [span for span in spans if span[0] < end and span[1] > begin and span not in whole]
        held = sum(min(stop, end) - max(start, begin) for start, stop in cut)
        spent = sum(stop - start for start, stop in whole)
        ran = ProfiledModule(
            "jit_f", None, 1, len(whole), spent / 1e3, spent / 1e3, cut_runs=len(cut), cut_seconds=held / 1e3
        )
        absorb(made, ran, (), None)
    assert made.seconds_per_run == pytest.approx(3.25e-3, rel=0.03)


def test_samples_that_agree_leave_no_doubt_and_a_few_that_which_they_say() -> None:
    assert executable(*[1e-3] * SAMPLES_KEPT).doubt == 0.0
    assert executable().doubt == 0.0
    few = executable(1e-3, 2e-3)
    few.clean_runs.extend([CleanRun(1e-3, 1e-4), CleanRun(1e-3, 1e-3)])
    assert few.doubt == pytest.approx(0.1)
    half = executable(*[1e-3] * 11, *[3e-3] * 10)
    assert half.doubt == pytest.approx(0.93 * 2.0 / SAMPLES_KEPT**0.5)


def test_what_may_be_the_devices_or_the_hosts_makes_the_label_less_sure() -> None:
    components = {"compute": 6.0, "host": 4.0}
    sure = decide(Charged(components), 1_000).confidence
    assert decide(Charged(components, doubtful=0.5), 1_000).confidence == pytest.approx(sure / 2)
    assert decide(Charged(components, doubtful=1.0), 1_000).confidence == 0.0
    assert decide(Charged(components, doubtful=1.0), 1_000).label == "compute"


def test_doubt_of_the_devices_time_is_none_of_what_the_host_was_seen_to_do() -> None:
    """Of two of the device's components neither gains by it; a wait for input is timed by itself."""
    both = {"compute": 6.0, "latency": 4.0}
    assert decide(Charged(both, doubtful=1.0), 1_000).confidence == decide(Charged(both), 1_000).confidence
    waited = {"input": 6.0, "compile": 4.0}
    assert (
        decide(Charged(waited, doubtful=1.0), 1_000).confidence == decide(Charged(waited), 1_000).confidence
    )
    mixed = {"compute": 6.0, "input": 4.0}
    sure = decide(Charged(mixed), 1_000).confidence
    assert decide(Charged(mixed, doubtful=1.0), 1_000).confidence == pytest.approx(sure / 2)


def loop(samples: list[float]) -> Fold:
    """Steps of 10 ms that run an executable once."""
    fold = applied(new_fold(), [backend(), created(1), FunctionWatched(-1, "f", "x", at(1))])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=3e9))
    applied(fold, [waits(), *(ExecutableRan(1, amount, 1e-5, at(1)) for amount in samples)])
    applied(fold, [step(i, 2 + i / 100, 2 + (i + 1) / 100, runs=(1,)) for i in range(1_000)])
    fold.apply(main_thread(2, 12, processor=10.0))
    return fold


def test_a_loop_whose_samples_swing_is_less_sure_of_its_label() -> None:
    steady = loop([6e-3] * SAMPLES_KEPT).snapshot(at(12)).to_dict()["loops"]["train"]["bottleneck"]
    swings = loop([3e-3, 6e-3, 9e-3] * 7).snapshot(at(12)).to_dict()["loops"]["train"]["bottleneck"]
    assert steady["shares"] == pytest.approx(swings["shares"])
    assert steady["confidence"] > 0.1 > swings["confidence"]


@pytest.mark.parametrize(("platform", "known"), [("cpu", False), ("gpu", True)])
def test_a_run_beside_a_compile_is_not_timed_on_the_processors_that_both_need(
    platform: str, known: bool
) -> None:
    fold = applied(new_fold(), [backend()._replace(platform=platform), created(1)])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
    applied(fold, [FunctionWatched(-1, "f", "", at(0)), FunctionCalled(1, 1, at(1))])
    applied(fold, [CompilePhaseStarted("g", "backend", 1, at(1.02)), ExecutableRan(1, 0.1, 0.001, at(1.1))])
    (made,) = fold.snapshot(at(2)).to_dict()["executables"]
    assert made["seconds_per_run"] == (pytest.approx(0.1) if known else None)
    applied(fold, [compiled(1.02, 1.3, function="g"), ExecutableRan(1, 0.004, 0.0001, at(2.0))])
    (made,) = fold.snapshot(at(3)).to_dict()["executables"]
    assert made["seconds_per_run"] is not None


def test_the_few_runs_that_were_long_enough_to_be_timed_do_not_stand_for_those_that_were_too_short() -> None:
    """Runs of 3 ms are known to within 3 ms; what other programs made longer is known well."""
    fold = applied(new_fold(), [backend(), created(1), FunctionWatched(-1, "f", "", at(0))])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
    short, disturbed = ExecutableRan(1, 0.003, 0.003, at(1)), ExecutableRan(1, 0.013, 0.0005, at(1))

    def shown(*ran: ExecutableRan) -> object:
        (made,) = applied(fold, [*ran]).snapshot(at(2)).to_dict()["executables"]
        return made["seconds_per_run"]

    assert shown(disturbed) == pytest.approx(0.013)
    assert shown(short) is None
    assert shown(*[disturbed] * 2) == pytest.approx(0.013), "they are the more now"
    assert shown(*[short] * SAMPLES_KEPT) is None
    assert shown(*[disturbed] * SAMPLES_KEPT) == pytest.approx(0.013), "as where the device became slower"


@pytest.mark.parametrize(("bounds", "told"), [(10, True), (16, True), (17, False)])
def test_bounds_above_what_other_runs_took_do_not_vote(bounds: int, told: bool) -> None:
    """A host that waits in each step is the first to see that its output is ready, whose beginning no poll saw."""
    made = executable(*[0.010] * (SAMPLES_KEPT - bounds))
    made.clean_runs.extend([CleanRun(0.0052, 0.0050)] * bounds)
    assert made.seconds_per_run == (pytest.approx(0.010) if told else None)


def test_where_runs_differ_by_far_nothing_is_said_of_an_idle_device() -> None:
    """One run in ten takes eighteen times as long, as a branch of `lax.cond` does: the device is busy throughout."""
    fold = applied(new_fold(), [backend(), created(1), FunctionWatched(-1, "f", "", at(0))])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(exact=False, inexact_reasons=("a branch",)))
    fold.apply(waits())
    end = 1.0
    for number in range(100):
        took = 0.072 if number % 10 == 9 else 0.004
        fold.apply(step(number, end, end + took, runs=(1,)))
        end += took
        fold.apply(ExecutableRan(1, took, 0.0001, at(end)))
    fold.apply(main_thread(1.0, end, processor=end - 1.0))
    loop = fold.snapshot(at(end + 0.1)).to_dict()["loops"]["train"]
    assert loop["device_idle"] is None
    assert loop["device_idle_reason"].startswith("no run of f was timed")
    assert loop["components"]["host"] == 0


def test_short_runs_that_differ_by_far_leave_the_host_known() -> None:
    """The device works for a hundredth of each step at most, however long its runs seem to be to polls."""
    fold = applied(new_fold(), [backend(), created(1), FunctionWatched(-1, "f", "", at(0))])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module())
    fold.apply(waits())
    for number in range(60):
        end = 1.05 + 0.05 * number
        fold.apply(step(number, end - 0.05, end, runs=(1,)))
        fold.apply(ExecutableRan(1, 0.0006 if number % 3 == 0 else 0.00005, 0.0, at(end)))
    fold.apply(main_thread(1.0, 4.0, processor=3.0))
    loop = fold.snapshot(at(4.1)).to_dict()["loops"]["train"]
    assert loop["device_idle"] > 0.9
    assert loop["bottleneck"]["label"] == "host"


@pytest.mark.parametrize(("sampled", "label"), [(2e-3, "latency"), (5e-3, "unknown")])
def test_a_run_far_above_its_bound_is_latency_where_so_many_launches_take_as_long(
    sampled: float, label: str
) -> None:
    """The bound time is 1 µs; 40 launches take no 5 ms."""
    fold = applied(new_fold(), [backend(), created(1), FunctionWatched(-1, "f", "", at(0)), waits()])
    fold.bind_peaks("example", PEAKS)
    fold.analysed(1, module(matrix=1e6, moved=0.0, operations=40))
    applied(fold, [ExecutableRan(1, sampled, 0.0, at(1))] * 21)
    applied(fold, [step(i, 2 + i / 100, 2 + (i + 1) / 100, runs=(1,)) for i in range(100)])
    components = fold.snapshot(at(3)).to_dict()["loops"]["train"]["components"]
    assert components[label] >= sampled * 100
    assert components["latency"] == (pytest.approx(sampled * 100) if label == "latency" else 0)
