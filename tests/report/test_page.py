import json

import pytest

from jaxobs.report.history import History
from jaxobs.report.page import page
from jaxobs.report.ranks import Observed, row_of
from jaxobs.report.summary import render
from jaxobs.report.terminal import opening, steps
from jaxobs.report.view import Rank, View, recompilations_of, shares_of
from tests.report.markup_reading import Read
from tests.report.test_sentence import HANG, SLOWDOWN
from tests.report.test_terminal import plain_text
from tests.sample_document import device_time, document, executable, loop, operation, recompilation

HOSTILE = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>&amp;"


def history(found=None, seconds: int = 90) -> History:
    kept = History()
    for second in range(seconds):
        changed = loop(100 + second, compute=0.6 + 0.6 * second, input=0.4 + 0.4 * second)
        kept.add(float(second), (found or document()) | {"loops": {"train": changed}})
    return kept


def shown(found=None, **changed) -> Read:
    return Read(page(View(found or document(), **changed)))


def test_the_page_of_a_job_says_how_it_goes():
    read = shown(trend=history().trend())
    for said in (
        "train runs at 100 steps/s, MFU 40 %. It is limited by compute (60 % of the time), then input (40 %).",
        "The loop waits. Load ahead. That would give back up to 30 % of the time",
        "tokens: int32[8,128] → int32[8,96]",
        "train.py:84",
        "train.py:12 load",
        "full in 15 min",
        "nvidia failed: NVML: driver not loaded.",
        "Clocks: no NVML.",
        "rank 1 of 4",
    ):
        assert said.replace(" %", "\u00a0%") in read.text
    assert len(read.all("svg", class_="executable")) == 3
    assert len(read.all("svg", class_="operation")) == 3


def test_a_slowdown_is_told_with_what_the_thread_did_before_and_since():
    read = shown(document(slowdowns=[SLOWDOWN]))
    assert read.all("section", id="slowdowns")
    assert "train takes 130 ms a step instead of 100 ms (+30\u00a0%)" in read.text
    assert "About then: f was compiled again (shape) 5 s before." in read.text
    assert "its thread isof a step beforesincewaiting for its input10 ms40 ms" in read.text
    assert not shown().all("section", id="slowdowns")


def test_memory_that_is_nearly_full_is_said_in_per_cent():
    device = {"device": 0, "kind": "NVIDIA H100", "memory": {"in_use_bytes": 997, "limit_bytes": 1000}}
    assert "(100 %)" in shown(document(devices=[device])).text


def test_the_compiles_of_functions_that_are_left_out_are_said_to_be_more():
    read = shown(document(functions_left_out=5, functions_left_out_seconds=2.0))
    assert "at least 4 compiles took 6 s" in read.text
    assert "Functions (6)" in read.text


def test_one_compile_is_not_several_and_how_a_run_ended_is_a_fact():
    ended = document()["process"] | {"ended": "killed"}
    read = shown(document(functions={"f": {"compilations": 1, "seconds": {"backend": 1.0}}}, process=ended))
    assert "1 compile took 1 s" in read.text
    assert " · killed" in read.text


def test_the_parts_of_a_step_add_up_to_it():
    trend = history().trend()
    edges, shares = shares_of(trend, "train")
    assert len(edges) == len(shares["compute"]) + 1
    for moment in zip(*shares.values(), strict=True):
        assert sum(moment) == pytest.approx(1.0)
    read = shown(document(loops={"train": loop(90, compute=54.0, input=36.0)}), trend=trend)
    assert "1 s on average over the last half minute, all its parts together" in read.text
    assert {"compute", "600 ms", "60\u00a0%"} <= {text.strip() for text in read.text.split("\n")} or (
        "compute600 ms60\u00a0%" in read.text
    )


@pytest.mark.parametrize(
    "found",
    [{}, {"process": None, "process_reason": "the agent did not answer"}, document(0, 0, loops={}),
     document(loops={"train": {"steps": 0}}), document(devices=None, functions={}, advice=[], agent={})],
    ids=["nothing", "no answer", "no loop", "no step", "no device"],
)  # fmt: skip
def test_what_is_not_known_is_left_out_or_says_why(found):
    read = shown(found)
    assert not [row for row in read.text.splitlines() if row.replace("–", "").strip() == "" and "–" in row]
    if found.get("process_reason"):
        assert "the agent did not answer" in read.text


def test_without_peaks_there_is_no_roof_and_the_reason():
    [device] = document()["devices"]
    device |= {"roofs": [], "peaks": None, "peaks_reason": "run `jaxobs calibrate`"}
    read = shown(document(devices=[device]))
    assert "No roof: run jaxobs calibrate." in read.text
    assert read.all("polyline", class_="roof") == []
    assert len(read.all("svg", class_="executable")) == 3


def test_a_figure_with_a_reserve_says_so_and_so_does_the_terminal():
    reserved = loop() | {
        "step_seconds_reason": "by the host's turns",
        "mfu_reason": "above 1",
        "hfu_reason": "above 1",
    }
    absent = loop() | {"mfu": None, "hfu": None, "mfu_reason": "no peaks", "hfu_reason": "no peaks"}
    for changed, said in (
        (reserved, ["Step time: by the host's turns.", "MFU: above 1."]),
        (reserved | {"hfu": 0.5}, ["MFU, HFU: above 1."]),
        (absent, ["No MFU, HFU: no peaks."]),
        (absent | {"mfu_reason": "too new"}, ["No MFU: too new.", "No HFU: no peaks."]),
    ):
        found = document(loops={"train": changed})
        in_terminal = plain_text(steps(View(found), 100)).splitlines()
        at = [in_terminal.index(line) for line in said]
        assert at == sorted(at)
        for line in said:
            assert line in shown(found).text


def test_peaks_that_emulated_devices_share_are_said_to_be_a_share():
    peak = {"value": 1e11, "provenance": "measured", "source": "jaxobs calibrate"}
    peaks = {"matrix": {"float32": peak}, "memory": None, "shared_by": 8}
    [device] = document()["devices"]
    read = shown(document(devices=[{**device, "roofs": [], "peaks": peaks}]))
    assert (
        "100 GFLOP/s (measured); its share of a machine that 8 emulated devices have in common" in read.text
    )
    alone = shown(document(devices=[{**device, "roofs": [], "peaks": peaks | {"shared_by": 1}}]))
    assert "share of a machine" not in alone.text


def test_names_of_a_program_are_text_everywhere():
    found = document(
        loops={HOSTILE: loop(name=HOSTILE), "eval": loop()},
        functions={HOSTILE: {"compilations": 2, "recompilation_count": 1, "seconds": {"backend": 1.0},
                             "recompilations": [recompilation(argument=HOSTILE, old=HOSTILE, call_site=HOSTILE)]}},
        executables=[executable(function=HOSTILE)],
        operations=[operation(name=HOSTILE) | {"scope": HOSTILE, "source": HOSTILE}],
        device_time=device_time(name=HOSTILE, file=HOSTILE),
        advice=[{"sentence": HOSTILE, "remedy": HOSTILE}],
        process=document()["process"] | {"run": HOSTILE, "host_name": HOSTILE},
        sources={HOSTILE: {"kind": HOSTILE, "up": False, "reason": HOSTILE}},
    )  # fmt: skip
    trend = History()
    for second in range(5):
        trend.add(float(second), found)
    read = shown(
        found, trend=trend.trend(), ranks=(Rank(HOSTILE, None), Rank("rank 1", "http://node1:9465/"))
    )
    assert len(read.all("script")) == 1
    assert read.all("img") == []
    assert not [
        name for _, given in read.elements for name in given if name.startswith("on") or name == "style"
    ]
    assert HOSTILE in read.text
    for link in read.all("a"):
        assert (link["href"] or "").split(":")[0] in {"http", "metrics", "snapshot", "#top"} or link[
            "href"
        ].startswith("?")


def test_the_page_names_the_rank_that_costs_the_others_most():
    def known(rank, count=3, **shares):
        process = document()["process"] | {"process_index": rank, "process_count": count, "run_id": "a"}
        found = document(process=process, loops={"train": {**loop(**shares), "profile": {"windows": 1}}})
        return Rank(f"rank {rank}", f"http://node1:{9464 + rank}/", row_of(Observed("", found)))

    usual = {"communication": 0.4, "input": 0.0, "compute": 0.6}
    late = {"communication": 0.1, "input": 0.3, "compute": 0.6}
    ranks = (known(0, **usual), known(1, **late), known(2, **usual))
    text = shown(document(), ranks=ranks).text.replace("\xa0", " ")
    assert "Rank 1 lags: it costs the others 30 % of their time, through input." in text
    assert "None of these is known to lag." in shown(document(), ranks=(*ranks[::2], known(1, **usual))).text
    assert (
        "None of these is known to lag. Not compared: 1 rank on other hosts, or gone. jaxobs top compares all hosts."
        in shown(document(), ranks=ranks[::2]).text
    )
    assert "Which one lags: jaxobs top" in shown(document(), ranks=(ranks[0], Rank("rank 1", None))).text
    stranger = Rank("rank 0", "http://node1:9470/", of="1a2b")
    assert "lags" not in shown(document(), ranks=(ranks[0], stranger)).text, "it is another run"


def test_a_table_says_how_many_rows_it_leaves_out():
    functions = {f"f{number}": {"compilations": 1, "seconds": {"backend": 1.0}} for number in range(50)}
    text = shown(document(60, 0, functions=functions)).text
    assert "20 more not listed." in text, "executables"
    assert "10 more not listed." in text, "functions"


def test_devices_share_a_row_only_where_all_that_is_shown_of_them_is_alike():
    def device(number, utilization):
        clocks = {"utilization_ratio": utilization, "clock_ratio": 1.0, "throttle_reasons": None}
        peaks = {"matrix": {"int8": {"value": 2e15, "provenance": "datasheet"}}}
        return {"device": number, "kind": "NVIDIA H100", "clocks": clocks, "peaks": peaks}

    text = shown(document(devices=[device(0, 0.99), device(1, 0.99), device(2, 0.0)])).text
    assert "0, 1" in text
    assert "utilisation 99 %" in text.replace("\xa0", " ")
    assert "utilisation 0 %" in text.replace("\xa0", " ")
    assert "int8 2 POP/s" in text, "integer work is no FLOP"


def test_the_processor_time_of_an_agent_that_was_started_again_is_over_its_own_time():
    process = document()["process"] | {"seconds": 1000.0, "counts_begin_seconds": 990.0}
    agent = {"cpu_seconds": {"probe": 1.0, "agent": 1.0}}
    text = shown(document(process=process, agent=agent)).text.replace("\xa0", " ")
    assert "in the job0.1 % of a core" in text
    assert "beside it10 % of a core" in text


@pytest.mark.parametrize("name", ["a`b`c", "**a**", "``", "a ** b ** c", "`** a`"])
def test_names_that_look_like_marks_are_shown_whole_in_sentences_with_apostrophes_for_backquotes(name):
    told = name.replace("`", "'")
    found = document(
        loops={name: loop()},
        functions={name: {"compilations": 1, "seconds": {"backend": 1.0}}},
        executables=[executable(function=name)],
        operations=[operation(name=name) | {"scope": name}],
        hangs=[HANG | {"loop": name}],
        slowdowns=[SLOWDOWN | {"loop": name}],
    )
    read = shown(found)
    assert f"{told} runs at" in read.text
    assert f"{told} has ended no step" in read.text
    assert f"{told} takes 130 ms" in read.text
    in_terminal = plain_text(opening(View(found), None))
    assert f"{told} runs at" in in_terminal
    assert read.text.replace("`", "'").count(told) >= 8
    assert told in render(found)


def test_the_loop_that_took_most_time_is_shown_unless_another_is_chosen():
    found = document(loops={"train": loop(compute=9.0), "eval": loop(compute=1.0)})
    assert "train runs at" in shown(found).text
    assert "train runs at" in shown(found, wanted_loop="nobody's").text
    read = shown(found, wanted_loop="eval")
    assert "eval runs at" in read.text
    assert [link["href"] for link in read.all("a", aria_current="true")] == ["?loop=eval"]


@pytest.mark.parametrize(("left", "first"), [(60.0, "train"), (900.0, "eval")])
def test_a_loop_that_was_left_long_ago_is_shown_after_those_that_go_on(left: float, first: str):
    """After a pretraining of ten hours the page showed it for ten more, whatever was trained then."""
    found = document(loops={"train": loop(compute=9.0) | {"left_seconds": left}, "eval": loop(compute=1.0)})
    assert ("train ended 60 s ago" if first == "train" else "eval runs at") in shown(found).text
    found["process"]["ended"] = "ended"
    assert "train runs at" in shown(found, live=False).text, (
        "of a run that is over the page shows what it was"
    )


def test_a_page_of_300_executables_is_small():
    found = document(300, 81, functions={
        f"function_{number}": {"compilations": 2, "recompilation_count": 1, "seconds": {"backend": 0.1},
                               "recompilations": [recompilation()]} for number in range(300)})  # fmt: skip
    text = page(View(found, history(found, 4000).trend()))
    assert len(text.encode()) < 300_000
    assert len(Read(text).all("svg", class_="executable")) == 300
    assert json.dumps(found)  # it is a document of a snapshot


def test_a_storm_of_recompiles_is_marked_and_stays_small():
    kept = History()
    for second in range(400):
        storm = {f"f{number}": {"recompilation_count": second + 1} for number in range(300)}
        kept.add(float(second), document(functions=storm, loops={"train": loop(100, compute=1.0 + second)}))
    marks = list(recompilations_of(kept.trend()))
    assert len(marks) == 60
    assert marks[-1][1] == "f0, f1, f2 and 37 more compiled again\n0 s ago"
    assert list(kept.trend().below("memory")) == ["device 0"]
