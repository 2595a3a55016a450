"""`jaxobs analyze` on a recorded trace, without the devices that made it."""

from __future__ import annotations

import gzip
import html
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from jaxobs.cli.analyze import report_text
from jaxobs.report.flame_graph import leaves
from jaxobs.report.pprof import profile
from tests.cli.launched import command
from tests.jobs import environment
from tests.trace.written import WrittenPlane, modules, space

RECORDED = Path(__file__).parents[1] / "trace" / "data" / "mi300x_8gpu_conv3d.xplane.pb"
PEAK_BYTES = 5.3e12
"""Of an MI300X, AMD's data sheet."""


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    answered = command("analyze", str(RECORDED), "--json", folder=tmp_path_factory.mktemp("analyze"))
    assert (answered.status, answered.stderr) == (0, "")
    return json.loads(answered.stdout)


def operation(document, name):
    return next(row for row in document["operations"] if row["name"] == name)


def test_each_operation_is_set_against_the_roof_of_its_device(document):
    row = operation(document, "input_transpose_fusion")
    assert row["executions"] == 40
    assert row["devices"] == 8
    assert row["seconds"] == pytest.approx(14344.14e-6)
    assert row["bound"] == row["label"] == "memory"
    assert row["efficiency"] == pytest.approx(row["bytes"] / PEAK_BYTES / row["seconds"])
    assert row["self_seconds"] == pytest.approx(row["seconds"])  # nothing ran beside it
    assert row["source"].endswith("generate_conv_trace.py:23")


def test_the_intensity_of_the_convolution_is_that_of_xprof(document):
    row = operation(document, "cudnn-conv.1")
    assert row["intensity"] == pytest.approx(56.49655172413793, rel=0.01)
    assert row["achieved_flops_per_second"] == pytest.approx(row["flops"] / 12531.616e-6)


def test_an_operation_without_a_cost_is_named_with_the_reason(tmp_path):
    plane = WrittenPlane("/device:GPU:0", device_vendor="Nvidia", gpu_device_name="NVIDIA X1")
    stats = {"program_id": 3, "hlo_module": "jit_lost", "hlo_op": "fusion.1"}
    plane.line("Stream #1(Kernel)", [("k", 0, 1, stats)])
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space(plane))
    answered = command("analyze", str(path), folder=tmp_path)
    assert "without a known cost, fusion.1: its module is not in the trace" in answered.stdout


def row_of(name, **figures):
    return {"name": name, "seconds": 0.5, "self_seconds": 0.5, "share": 0.5, "achieved_flops_per_second": None,
            "intensity": None, "efficiency": 0.5, "efficiency_reason": None, "bound": "memory", "label": "memory",
            "executions": 1, "source": "", "scope": ""} | figures  # fmt: skip


def test_the_table_says_why_an_operation_was_faster_than_its_bound():
    cached = {"efficiency": 1.7, "efficiency_reason": "data stayed in cache", "bound": "cache_resident"}
    document = {
        "hosts": [], "devices": [], "modules": [], "unmodelled_share": 0.0, "busy_seconds": 3.0,
        "device_time": {"by_line": []},
        "operations": [row_of(f"copy.{number}", **cached) for number in range(5)] + [row_of("dot")],
    }  # fmt: skip
    text = report_text(document, top=10, width=100, bold=False)
    assert text.count("cache_resident") == 5
    assert "efficiency above 100 %, copy.0, copy.1, copy.2 and 2 more: data stayed in cache" in text
    assert "side by side" not in text
    beside = document | {"operations": [row_of("dot", self_seconds=4.0), row_of("add")]}
    assert "each moment is divided equally between them" in report_text(beside, top=1, width=100, bold=False)


def test_an_operation_that_is_unmodelled_although_its_flops_are_known_has_a_reason():
    document = {
        "hosts": [], "devices": [], "modules": [], "unmodelled_share": 0.0, "busy_seconds": 3.0,
        "device_time": {"by_line": []}, "operations": [row_of("sort.0", label="unmodelled", reason=None)],
    }  # fmt: skip
    text = report_text(document, top=10, width=200, bold=False)
    assert "without a known cost, sort.0: far longer than its FLOPs and bytes take" in text


def test_the_help_says_that_a_calibration_counts(tmp_path):
    answered = command("analyze", "--help", folder=tmp_path)
    assert "`jaxobs calibrate`" in " ".join(answered.stdout.split())
    assert max(map(len, answered.stdout.splitlines())) <= 100


def test_shares_are_of_the_busy_time(document):
    assert sum(row["share"] for row in document["operations"]) == pytest.approx(1)
    assert sum(row["seconds"] for row in document["operations"]) == pytest.approx(document["busy_seconds"])


def test_what_has_no_cost_is_named_and_counted(document):
    row = operation(document, "__amd_rocclr_copyBuffer.kd")
    assert (row["flops"], row["efficiency"], row["label"]) == (None, None, "unmodelled")
    assert "did not say which instruction" in row["reason"]
    unmodelled = sum(row["seconds"] for row in document["operations"] if row["label"] == "unmodelled")
    assert document["unmodelled_share"] == pytest.approx(unmodelled / document["busy_seconds"])


def test_modules_and_devices_add_up(document):
    (module,) = document["modules"]
    assert (module["name"], module["devices"], module["runs"]) == ("jit_forward_3d_conv", 8, 40)
    assert [device["device_kind"] for device in document["devices"]] == ["AMD Instinct MI300X"] * 8
    assert document["devices"][0]["peaks"]["memory"]["value"] == PEAK_BYTES
    assert 0 < document["devices"][0]["mfu"] < 0.01


def test_the_table_names_operations_and_their_sources(tmp_path):
    answered = command("analyze", str(RECORDED), "--top", "3", folder=tmp_path)
    assert (answered.status, answered.stderr) == (0, "")
    assert "jit_forward_3d_conv" in answered.stdout
    assert "cudnn-conv.1" in answered.stdout
    assert "loop_transpose" not in answered.stdout
    assert "and 5 operations with" in answered.stdout
    assert max(map(len, answered.stdout.splitlines())) <= 100


def test_the_lines_of_the_program_add_up_to_the_busy_time(document, tmp_path):
    rows = document["device_time"]["by_line"]
    assert sum(path[-1]["seconds"] for path in leaves(rows)) == pytest.approx(document["busy_seconds"])
    answered = command("analyze", str(RECORDED), folder=tmp_path)
    assert (
        "98 % of the device's time is in forward_3d_conv, generate_conv_trace.py:23, called from "
        "generate_conv_trace.py:79; it is memory-bound at 48 % of its roof."
        in " ".join(answered.stdout.split())
    )
    assert "(no source line)" in answered.stdout


TRACES = sorted(path for path in RECORDED.parent.iterdir() if ".xplane.pb" in path.name)


@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name.partition(".")[0])
def test_of_each_trace_both_trees_add_up_to_the_busy_time(trace, tmp_path):
    packed = trace.read_bytes()
    file = tmp_path / "trace.xplane.pb"
    file.write_bytes(gzip.decompress(packed) if trace.suffix == ".gz" else packed)
    found = json.loads(command("analyze", str(file), "--json", folder=tmp_path).stdout)
    for tree in found["device_time"].values():
        assert sum(path[-1]["seconds"] for path in leaves(tree)) == pytest.approx(found["busy_seconds"])


def test_device_time_is_written_for_pprof(document, tmp_path):
    answered = command("analyze", str(RECORDED), "--pprof", "device.pb.gz", folder=tmp_path)
    assert (answered.status, answered.stdout) == (0, "wrote device.pb.gz\n")
    assert (tmp_path / "device.pb.gz").read_bytes() == profile(document["device_time"]["by_line"])


class Page(HTMLParser):
    """Tags and attributes of a page, and whether every tag was closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.addresses = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in {"src", "href"}]
        if tag not in {"meta", "link"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_stands_alone(tmp_path):
    answered = command("analyze", str(RECORDED), "--html", "page.html", folder=tmp_path)
    assert (answered.status, answered.stdout) == (0, "wrote page.html\n")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert [address[:5] for address in page.addresses] == ["data:"]  # its icon
    assert "script" not in page.tags
    assert "url(" not in text
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert page.tags.count("polyline") == 1  # one element type, one roof
    assert page.tags.count("circle") == 1  # the one operation with floating-point work


def test_no_table_is_wider_than_a_screen(tmp_path):
    """What is long (names, source lines, remarks) stands in the first column, which alone breaks its lines."""
    command("analyze", str(RECORDED), "--html", "page.html", folder=tmp_path)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    rows = re.findall(r"<tr>(.*?)</tr>", text)
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in rows]
    assert any("generate_conv_trace.py:23" in row[0] for row in cells if row)
    letters = [sum(max(len(html.unescape(cell)), 8) for cell in row[1:]) for row in cells if row]
    assert max(letters) <= 130  # 1280 pixels less the first column's, at 13 pixels a line


HOSTILE = '<script>alert("x")</script>&amp;'


def test_names_of_a_program_are_text_in_the_page_and_in_the_table(tmp_path):
    stats = {"hlo_op": HOSTILE, "hlo_module": HOSTILE + "\x1b[31m", "program_id": 1}
    gpu = WrittenPlane("/device:GPU:0", gpu_device_name=HOSTILE).line(
        "Stream #1", [(HOSTILE, 0, 5, stats), ("[bold]k[/bold]", 9, 5, {})]
    )
    (tmp_path / "hostile.xplane.pb").write_bytes(space(gpu, hostname=HOSTILE, errors=[HOSTILE]))
    answered = command("analyze", "hostile.xplane.pb", "--html", "page.html", folder=tmp_path)
    assert answered.status == 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "script" not in Page(text).tags
    assert "&lt;script&gt;" in text
    shown = command("analyze", "hostile.xplane.pb", folder=tmp_path).stdout
    assert "[bold]k[/bold]" in shown
    assert "\x1b" not in shown


def test_peaks_of_an_unknown_device_come_from_the_trace_or_the_user(tmp_path):
    gpu = WrittenPlane("/device:GPU:0", gpu_device_name="Unheard Of 1", memory_bandwidth=10**12)
    gpu.line("Stream #1", [("k", 0, 5, {})])
    (tmp_path / "t.xplane.pb").write_bytes(space(gpu))
    peaks = json.loads(command("analyze", ".", "--json", folder=tmp_path).stdout)["devices"][0]["peaks"]
    assert peaks["memory"]["value"] == 1e12
    assert peaks["memory"]["provenance"] == "profiler"
    assert "no datasheet is known" in peaks["reason"]
    mine = command("analyze", ".", "--json", folder=tmp_path, JAXOBS_PEAK_BYTES_PER_SECOND="2e12")
    assert json.loads(mine.stdout)["devices"][0]["peaks"]["memory"]["provenance"] == "user"


def test_emulated_devices_of_a_trace_share_one_machine(tmp_path):
    program = """
import jax, jax.numpy as jnp, numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec
rows = NamedSharding(Mesh(numpy.array(jax.devices()), ("x",)), PartitionSpec("x"))
x = jax.device_put(jnp.ones((1024, 512)), rows)
f = jax.jit(lambda x: x @ jnp.ones((512, 512)))
f(x).block_until_ready()
with jax.profiler.trace("trace"):
    f(x).block_until_ready()
"""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment(**flags), check=True, timeout=120
    )
    found = json.loads(command("analyze", "trace", "--json", folder=tmp_path).stdout)["devices"]
    assert [device["peaks"]["shared_by"] for device in found] == [4] * len(found)
    said = command("analyze", "trace", folder=tmp_path).stdout
    assert said.count("4 emulated devices share one machine") == 1


def test_a_damaged_module_costs_its_figures_alone(tmp_path):
    gpu = WrittenPlane("/device:GPU:0").line("Stream #1", [("k", 0, 5, {"hlo_op": "add.1", "program_id": 3})])
    trace = space(
        modules(jit_f=(3, {"add.1": "add"}, {})), gpu
    )  # instructions without shapes: no valid module
    (tmp_path / "t.xplane.pb").write_bytes(trace)
    answered = command("analyze", "t.xplane.pb", "--json", folder=tmp_path)
    (row,) = json.loads(answered.stdout)["operations"]
    assert row["seconds"] == pytest.approx(5e-6)
    assert (row["flops"], row["label"]) == (None, "unmodelled")
    assert "its module could not be read" in row["reason"]


@pytest.mark.parametrize("option", ["--html", "--pprof"])
def test_no_output_is_written_over_the_trace(tmp_path, option):
    shutil.copy(RECORDED, tmp_path / "host.xplane.pb")
    for source in ("host.xplane.pb", "."):
        answered = command("analyze", source, option, "host.xplane.pb", folder=tmp_path)
        assert answered.status == 2
        assert "host.xplane.pb is what was read: name another file" in answered.stderr
    assert (tmp_path / "host.xplane.pb").read_bytes() == RECORDED.read_bytes()


BAD_INPUT = {
    "absent": (["absent"], "absent: no such file or directory"),
    "no trace": (["."], "no trace in it"),
    "foreign": (["text.txt"], "record it again (JAX's traces are files *.xplane.pb)"),
    "device": (["/dev/null"], "/dev/null: neither file nor directory"),
    "two": (["a", "b"], "unknown argument 'b'"),
    "unknown option": (["--jsonn", "a"], "did you mean --json?"),
    "no value": (["text.txt", "--html"], "--html: expected one argument"),
    "no number": (["text.txt", "--top", "many"], "give a positive whole number"),
    "too large": ([str(RECORDED), "--maximum-bytes", "1000"], "more than the limit of 1000"),
    "no folder": ([str(RECORDED), "--html", "absent/page.html"], "cannot use absent/page.html: No such file"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_answered_with_one_line_and_status_2(tmp_path, case):
    (tmp_path / "text.txt").write_text("no trace\n")
    arguments, message = BAD_INPUT[case]
    answered = command("analyze", *arguments, folder=tmp_path)
    assert (answered.status, answered.stdout) == (2, "")
    assert message in answered.stderr
    assert answered.stderr.count("\n") == 1
    assert answered.stderr.startswith("jaxobs analyze: ")
