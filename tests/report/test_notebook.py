from typing import Any

import pytest

import jaxobs
from jaxobs.hardware.known_peaks import peaks_for
from jaxobs.model.cost import AT_MOST, Cost, ModuleCost
from jaxobs.report.comparison import NOTHING, compare
from jaxobs.report.measured_run import measured_run
from jaxobs.report.snapshot import Snapshot, absent_snapshot
from jaxobs.roofline_model.bounds import bound_time
from tests.report.made_up import record, windows
from tests.report.markup_reading import Read
from tests.sample_document import device_time, document

WORK = Cost({"bfloat16": 2e12}, {"bfloat16": 2e12}, {"float32": 1e9}, bytes=3e9, unmodelled=("custom<call>",))


def test_a_snapshot_shows_pictures_and_tables():
    read = Read(Snapshot(0, document())._repr_html_())
    assert "train runs at 100 steps/s" in read.text
    assert len(read.all("svg", class_="executable")) == 3
    assert "Device time by line" in read.text
    frames = [row for rows in device_time().values() for row in rows]
    bars = len(frames) + sum(len(row["operations"]) for row in frames)
    assert len(read.all("svg", class_="part")) == 2 + bars
    assert [link["href"] for link in read.all("a")] == ["http://localhost:9464/"]
    assert read.all("script") == []


def test_a_snapshot_of_nothing_says_why():
    assert "the agent did not answer" in Read(absent_snapshot("the agent did not answer")._repr_html_()).text


def test_a_cost_shows_its_work_by_unit_and_type():
    read = Read(WORK._repr_html_())
    assert "matrix, bfloat162 TFLOP" in read.text
    assert "the work of custom<call> is not known" in read.text


def test_a_measured_run_stands_under_its_roof():
    peaks = peaks_for("NVIDIA H100 80GB HBM3", "gpu")
    bound = bound_time(WORK, peaks)
    run = measured_run(ModuleCost("", WORK, ()), bound, 0.004, None, 9, peaks)
    read = Read(run._repr_html_())
    [mark] = read.all("svg", class_="mark")
    assert float(mark["data-flops-per-second"] or 0) == pytest.approx(run.achieved_flops_per_second)
    [roof] = [given for _, given in read.elements if "data-dtype" in given]
    assert float(roof["data-flops-per-second"] or 0) == peaks.matrix["bfloat16"].value
    assert "a run4 ms" in read.text


def test_work_that_is_no_lower_bound_is_not_said_to_be_one():
    peaks = peaks_for("NVIDIA H100 80GB HBM3", "gpu")
    work = Cost({"bfloat16": 2e12}, bytes=3e9, exact=False, inexact_reasons=(f"a loop; {AT_MOST}",))
    for cost, said in ((WORK, "a lower bound: the work of custom<call>"), (work, "not exact: a loop")):
        run = measured_run(ModuleCost("", cost, ()), bound_time(cost, peaks), 0.004, None, 9, peaks)
        assert f"The work is {said}" in Read(run._repr_html_()).text


def test_an_observer_that_was_never_started_says_so(monkeypatch):
    monkeypatch.setenv("JAXOBS_ENABLED", "false")
    with jaxobs.instrument() as observer:
        assert "switched off" in Read(observer._repr_html_()).text


def test_two_runs_are_words_and_a_table():
    before, after = record(), record("b.json", stretches=windows(0.02, waited=0.01))
    comparison = compare(before, after)
    read = Read(comparison._repr_html_())
    assert "`" not in read.text
    assert "train is slower in B" in read.text
    assert "wait for input, a step of train" in read.text
    assert len(read.all("table")) == 1


def test_two_runs_that_differ_in_nothing_known_say_so():
    read = Read(compare(record(), record("b.json", stretches=windows(0.02)))._repr_html_())
    assert NOTHING in read.text


def test_two_runs_without_a_loop_in_common_say_so():
    before, after = record(), record("b.json")
    content: Any = after.content
    content["windows"], content["snapshot"]["loops"] = {}, {}
    assert "no loop in common" in Read(compare(before, after)._repr_html_()).text
