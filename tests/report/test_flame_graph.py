"""Device time by call path: drawn, in a table, in words, and for pprof."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jaxobs.report import pprof
from jaxobs.report.flame_graph import dearest, flame_graph, in_words, leaves, name_of, of_host, shares_by_path
from jaxobs.report.markup import markup
from jaxobs.report.page import page
from jaxobs.report.pprof import profile
from jaxobs.report.summary import render
from jaxobs.report.view import View
from tests.report.markup_reading import Read
from tests.sample_document import device_time, document

ROWS = device_time()["by_line"]
HOST = {"file": "train.py", "seconds": 2.0, "share": 1.0, "activity": "processor"}


def test_each_frame_lies_below_its_caller_as_wide_as_its_share():
    chart = flame_graph(ROWS, "Device time by line")
    assert chart is not None
    bars = Read(markup(chart)).all("svg", class_="part")
    drawn = [tuple(float(str(bar[name]).rstrip("%")) for name in ("x", "width", "y")) for bar in bars]
    operations = [(0, 37.5, 60), (37.5, 12.5, 60)]
    assert drawn == [
        (0, 75, 0),
        (0, 75, 20),
        (0, 50, 40),
        *operations,
        (50, 25, 40),
        (75, 25, 0),
        (75, 25, 20),
    ]
    assert "dot.7\n38 % of the device's time, 1.5 s" in markup(chart).replace("\u00a0", " ")


def test_beside_an_earlier_run_a_frame_has_the_colour_of_how_its_share_has_changed():
    moved = [row | {"line": row["line"] + 1, "file": row["file"].replace("ada", "bob")} for row in ROWS]
    same = flame_graph(ROWS, "Device time by line", shares_by_path(moved))
    assert same is not None
    bars = [rect["class"] for rect in Read(markup(same)).all("rect")]
    assert bars == ["is-alike"] * len(ROWS), "operations have other names in each compile"
    seconds = {"(backward)": 1.0, "copy.1": 2.0, "(no source line)": 2.0, "attention": 2.0}
    before = [row | {"seconds": seconds.get(row["name"], row["seconds"])} for row in ROWS]
    before[0] |= {"seconds": 2.0}
    changed = flame_graph(ROWS, "Device time by line", shares_by_path(before))
    assert changed is not None
    kinds = [str(rect["class"]) for rect in Read(markup(changed)).all("rect")]
    assert kinds == ["is-larger", "is-larger", "is-larger", "is-alike", "is-smaller", "is-smaller"]
    assert "75 % of the device's time, 50 % in A" in markup(changed).replace("\u00a0", " ")


def test_without_device_time_nothing_is_drawn():
    assert flame_graph([], "Device time by line") is None
    assert flame_graph([row | {"seconds": 0.0} for row in ROWS], "Device time by line") is None
    assert 'id="lines"' not in page(View(document(device_time=None)))


def test_the_dearest_lines_have_all_their_parts_and_their_callers():
    first, second = dearest(ROWS)
    assert (name_of(first), first["seconds"], first["flops"], first["efficiency"]) == (
        "attention model.py:118", 3.0, 3e9, pytest.approx(0.8),
    )  # fmt: skip
    assert first["parts"] == {"backward": 0.5, "forward": 0.25}
    assert [name_of(caller) for caller in first["callers"]] == ["step model.py:201"]
    assert (second["name"], second["flops"], second["efficiency"]) == ("copy.1", None, None)


def test_the_dearest_line_is_said_where_one_is_known():
    said = (
        "75 % of the device's time is in `attention`, model.py:118, called from model.py:201; "
        "it is memory-bound at 80 % of its roof."
    )
    assert in_words(ROWS) == said
    again = [
        ROWS[0],
        ROWS[1] | {"line": 90},
        *(row | {"depth": row["depth"] + 1} for row in ROWS[1:4]),
        *ROWS[4:],
    ]
    assert in_words(again) == said, "a function that calls itself is no caller"
    on_one_line = in_words([ROWS[0] | {"line": 118, "file": ROWS[1]["file"]}, *ROWS[1:]])
    assert on_one_line == said.replace(", called from model.py:201", ""), "a lambda is called on its own line"
    assert in_words(ROWS[-2:]) is None
    assert said.replace("`", "") in " ".join(render(document()).split())
    assert said.replace("`", "").replace(" %", "\u00a0%") in Read(page(View(document()))).text


def test_a_line_is_one_from_wherever_it_is_called_and_a_scope_is_its_whole_path():
    shape = ROWS[0] | {"share": None, "flops": 1e9, "bytes": 1e8}
    tree: list[dict[str, object]] = []
    for caller, backward in ((11, 10.0), (12, 11.0), (13, 9.0), (14, 10.0)):
        known = {"share": 0.05, "seconds": 5.0}
        tree += [
            shape | {"name": "block", "line": caller, "seconds": 5.0 + backward},
            shape | {"depth": 1, "name": "attention", "line": 99, "seconds": 5.0 + backward},
            shape | {"depth": 2, "name": "(forward)", "file": "", "line": 0} | known,
            shape | {"depth": 2, "name": "(backward)", "file": "", "line": 0, "bottleneck": "compute"}
            | {"share": backward / 100, "seconds": backward},
        ]  # fmt: skip
    tree.append(shape | {"name": "loss", "line": 20, "share": 0.4, "seconds": 40.0})
    first, second = dearest(tree)
    assert (name_of(first), first["seconds"], first["share"], first["flops"]) == (
        "attention model.py:99", 60.0, pytest.approx(0.6), 8e9,
    )  # fmt: skip
    assert first["parts"] == {"backward": pytest.approx(0.4), "forward": pytest.approx(0.2)}
    assert first["bottleneck"] == "compute"
    assert ([name_of(one) for one in first["callers"]], first["more_paths"]) == (["block model.py:12"], 3)
    assert (name_of(second), second["more_paths"]) == ("loss model.py:20", 0)
    assert "`attention`, model.py:99, called from model.py:12 and 3 more paths; it" in str(in_words(tree))
    scopes = dearest([row | {"file": "", "line": 0} for row in tree])
    assert [(scope["name"], scope["seconds"]) for scope in scopes] == [
        ("loss", 40.0), ("attention", 16.0), ("attention", 15.0), ("attention", 15.0), ("attention", 14.0),
    ]  # fmt: skip


def test_pprof_shows_the_same_figures(tmp_path):
    go = shutil.which("go")
    if go is None:
        reason = "pprof is part of Go: https://go.dev/dl/"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    file = tmp_path / "device.pb.gz"
    file.write_bytes(profile(ROWS))
    host = tmp_path / "host.pb.gz"
    calls = [
        HOST | {"depth": 0, "name": "main", "line": 8, "seconds": 3.0},
        HOST | {"depth": 1, "name": "(itself)", "file": "", "line": 0, "seconds": 1.0},
        HOST | {"depth": 1, "name": "load", "line": 3},
    ]
    loops = {"train": {"host_calls": calls}, "evaluate": {"host_calls": None}}
    host.write_bytes(pprof.of_host({"loops": loops, "process": {"host_calls": calls[2:]}}) or b"")

    def top(*options: str, file: Path = file) -> dict[str, tuple[str, str]]:
        ran = subprocess.run(
            [go, "tool", "pprof", "-top", "-lines", "-nodefraction=0", *options, str(file)],
            capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        row = re.compile(r"^ *(\S+) +\S+% +\S+% +(\S+) +\S+% +(.+)$", re.MULTILINE)
        return {name: (flat, total) for flat, total, name in row.findall(ran.stdout)}

    attention, step = "attention /home/ada/model.py:118", "main.<locals>.step /home/ada/model.py:201"
    without_line = {"copy.1": ("1s", "1s"), "(no source line)": ("0", "1s")}
    assert top("-unit=s", "-noinlines") == {attention: ("3s", "3s"), step: ("0", "3s")} | without_line
    operations = {"dot.7 (inline)": ("1.50s", "1.50s"), "fusion.3 (inline)": ("0.50s", "0.50s")}
    assert top("-unit=s") == {attention: ("1s", "3s"), step: ("0", "3s")} | operations | without_line
    assert top("-unit=s", "-tagfocus=backward") == {attention: ("0", "2s"), step: ("0", "2s")} | operations
    assert top("-noinlines", "-sample_index=flops")[attention] == ("3000000000", "3000000000")
    assert top("-sample_index=flops")["dot.7 (inline)"] == ("1500000000", "1500000000")
    assert sum(path[-1]["seconds"] for path in leaves(ROWS)) == 4.0
    assert top("-unit=s", file=host) == {
        "main train.py:8": ("1s", "3s"), "load train.py:3": ("4s", "4s"), "loop train": ("0", "3s"),
        "outside loops": ("0", "2s"),
    }  # fmt: skip
    assert top("-unit=s", "-focus=loop train", file=host)["load train.py:3"] == ("2s", "2s")


def test_the_main_threads_samples_are_drawn_where_a_line_calls_another() -> None:
    rows = [
        HOST | {"depth": 0, "name": "main", "line": 8},
        HOST | {"depth": 1, "name": "block_until_ready", "file": "", "line": 0, "activity": "device"},
    ]
    (drawn,) = of_host(rows)
    assert drawn is not None
    text = markup(drawn)
    assert "main train.py:8" in text
    assert "mostly waiting for the device" in text
    assert "is-host" in text
    assert "is-unknown" in text
    assert list(of_host(rows[:1])) == []
