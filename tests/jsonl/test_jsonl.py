from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs.model.clock import ClockAnchor, now
from jaxobs.model.events import (
    EVENT_TYPES,
    Compilation,
    Event,
    ExecutableCreated,
    ExecutableRan,
    Measured,
    SourceReported,
    SpanContext,
    StepCompleted,
    StepEnded,
    units_of,
)
from jaxobs.model.metrics import Catalogue, Metric
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Batch
from jaxobs.testing import FakeAgent
from jaxobs_plugins.jsonl import JsonLinesExporter, as_line, as_record

ROOT = Path(__file__).parents[2]
CLOCK = ClockAnchor(monotonic=1_000, wall=1_700_000_000_000_000_000)
SECOND = 1_000_000_000
OTHER_WHOLE_NUMBERS = {
    "step", "thread", "number", "run", "calls", "executable", "devices", "process_index", "process_count",
    "asked", "ready", "failures", "emitted", "dropped", "refused", "listeners_restored", "uncertainty",
    "device", "in_use", "peak", "limit", "pool", "largest_free", "files", "arrays", "bytes",
}  # fmt: skip


class SilentAgent(FakeAgent):
    """One that is told of nothing that goes wrong."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.resource = {"host.name": "node/1", "process.pid": "41"}
        self.clock = CLOCK

    def log(self, message: str) -> None:
        raise AssertionError(message)


def batch(*events: Event) -> Batch:
    return Batch(SnapshotData(now(), {}), events, ())


def measured(value: float = 1.0, metric: str = "acme_a") -> Measured:
    return Measured(metric, ("x",), value, CLOCK.monotonic + SECOND)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True)]


def only_file(directory: Path) -> Path:
    (path,) = directory.glob("*.jsonl")
    return path


def test_a_file_begins_with_a_header_and_has_one_line_an_event(tmp_path: Path) -> None:
    agent = SilentAgent({"jsonl_directory": str(tmp_path / "new" / "deep")})
    exporter = JsonLinesExporter()
    exporter.start(agent)
    exporter.export(batch(measured(1.0), measured(2.0)))
    exporter.export(batch(measured(3.0)))
    path = only_file(tmp_path / "new" / "deep")
    assert path.name == "node_1-41-20231114T221320.000000Z.jsonl"
    header, *lines = read(path)  # before stop: all of it is there already
    assert header["event"] == "Header"
    assert header["resource"] == agent.resource
    assert header["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert [line["value"] for line in lines] == [1.0, 2.0, 3.0]
    assert lines[0]["time"] == 1_700_000_001.0
    exporter.stop(1.0)


def test_without_a_directory_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exporter = JsonLinesExporter()
    exporter.stop(1.0)
    exporter.start(SilentAgent({"jsonl_directory": None}))
    assert not exporter.takes_batches
    exporter.stop(1.0)
    exporter.stop(1.0)
    assert list(tmp_path.iterdir()) == []


def test_a_resource_that_grew_is_written_again(tmp_path: Path) -> None:
    agent = SilentAgent({"jsonl_directory": str(tmp_path)})
    exporter = JsonLinesExporter()
    exporter.start(agent)
    agent.resource = {**agent.resource, "jax.process_index": "0"}
    exporter.export(batch(measured()))
    exporter.export(batch(measured()))
    exporter.stop(1.0)
    lines = read(only_file(tmp_path))
    assert [line["event"] for line in lines] == ["Header", "Header", "Measured", "Measured"]
    assert lines[1]["resource"]["jax.process_index"] == "0"


def test_times_are_unix_seconds_and_durations_seconds() -> None:
    step = StepEnded(
        "train", 7, CLOCK.monotonic, CLOCK.monotonic + 2 * SECOND, SECOND // 2, 1, 2, 3, 4, 32.0, None, False,
        9, (1, -2), SpanContext(10, 11, 1),
    )  # fmt: skip
    record = as_record(step, CLOCK, Catalogue())
    assert list(record)[:3] == ["event", "time", "loop"]
    assert (record["event"], record["time"]) == ("StepEnded", 1_700_000_002.0)
    assert (record["start"], record["end"], record["gap"]) == (1_700_000_000.0, 1_700_000_002.0, 0.5)
    assert (record["runs"], record["tokens"]) == ([1, -2], None)
    assert record["parent"] == {"trace_id": "0" * 31 + "a", "span_id": "0" * 15 + "b", "flags": 1}
    completed = as_record(StepCompleted("train", 7, CLOCK.monotonic, SECOND // 4), CLOCK, Catalogue())
    ran = as_record(ExecutableRan(1, 0.5, 0.25, CLOCK.monotonic), CLOCK, Catalogue())
    assert (completed["uncertainty"], ran["uncertainty"]) == (0.25, 0.25)
    reported = SourceReported("host", "collector", True, 0.1, 0, CLOCK.monotonic, "", CLOCK.monotonic)
    assert as_record(reported, CLOCK, Catalogue())["last_success"] == 1_700_000_000.0


def test_every_whole_number_of_every_event_has_a_known_unit() -> None:
    kind: Any
    for kind in EVENT_TYPES:
        hints = get_type_hints(kind)
        numbers = {name for name, hint in hints.items() if "int" in str(hint) and "tuple" not in str(hint)}
        numbers -= {name for name in numbers if "SpanContext" in str(hints[name])}
        assert numbers <= units_of(kind).keys() | OTHER_WHOLE_NUMBERS, kind
        assert {"time", "end"} & set(hints), kind


def test_bytes_are_never_written_and_pairs_become_objects() -> None:
    created = ExecutableCreated(3, "f", CLOCK.monotonic, b"\x00" * 77, "", (("temp", 5),), 1)
    record = as_record(created, CLOCK, Catalogue())
    assert "proto" not in record
    assert (record["proto_bytes"], record["memory"]) == (77, {"temp": 5})
    none = as_record(created._replace(proto=None, proto_reason="too large"), CLOCK, Catalogue())
    assert (none["proto"], none["proto_reason"]) == (None, "too large")
    compiled = Compilation(
        "f", 3, 1, CLOCK.monotonic, (("trace", CLOCK.monotonic, CLOCK.monotonic + SECOND),), "miss", None,
        (("jax.old", "f32[1]"),), None,
    )  # fmt: skip
    record = as_record(compiled, CLOCK, Catalogue())
    assert record["phases"] == [{"phase": "trace", "start": 1_700_000_000.0, "end": 1_700_000_001.0}]
    assert record["attributes"] == {"jax.old": "f32[1]"}


def test_labels_carry_their_names_where_the_metric_is_known() -> None:
    known = Catalogue([Metric("acme_a", "gauge", "", ("disk",))])
    assert as_record(measured(), CLOCK, known)["labels"] == {"disk": "x"}
    assert as_record(measured(metric="acme_b"), CLOCK, known)["labels"] == ["x"]


@given(value=st.floats(), text=st.text(), label=st.text(st.characters(exclude_categories=())))
def test_any_value_and_any_text_gives_one_line_of_strict_json(value: float, text: str, label: str) -> None:
    line = as_line(as_record(Measured(text, (label,), value, 0), CLOCK, Catalogue()))
    assert len(line.decode("ascii").splitlines()) == 1

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    record = json.loads(line, parse_constant=refuse)
    assert record["metric"] == text
    assert record["labels"] == [label.encode("utf-8", "replace").decode()]  # no lone surrogate
    written = record["value"]
    assert written == value or (isinstance(written, str) and str(float(written)) == str(value))


def test_a_full_file_makes_room_and_each_has_its_header(tmp_path: Path) -> None:
    exporter = JsonLinesExporter(maximum_bytes=3_000)
    exporter.start(SilentAgent({"jsonl_directory": str(tmp_path)}))
    for number in range(100):
        exporter.export(batch(measured(float(number))))
    exporter.stop(1.0)
    path = only_file(tmp_path)
    rotated = Path(f"{path}.1")
    assert sorted(tmp_path.iterdir()) == [path, rotated]
    assert path.stat().st_size <= 3_000
    assert rotated.stat().st_size <= 3_000
    values = []
    for header, *lines in (read(rotated), read(path)):
        assert header["event"] == "Header"
        values += [line["value"] for line in lines]
    assert values == [float(number) for number in range(100 - len(values), 100)]


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    exporter = JsonLinesExporter()
    with pytest.raises(
        OSError, match=r"cannot write events: Not a directory; set JAXOBS_JSONL_DIRECTORY"
    ) as raised:
        exporter.start(SilentAgent({"jsonl_directory": str(tmp_path / "file" / "x")}))
    assert str(tmp_path / "file" / "x") in str(raised.value)
    exporter.stop(1.0)


PROGRAM = """
import resource, sys
sys.path[:0] = {paths!r}
from types import SimpleNamespace
from jaxobs.model.clock import ClockAnchor, now
from jaxobs.model.events import Measured
from jaxobs.model.metrics import Catalogue
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Batch
from jaxobs.testing import FakeAgent
from jaxobs_plugins.jsonl import JsonLinesExporter

agent = SimpleNamespace(
    settings={{"jsonl_directory": {directory!r}}}, resource={{}},
    clock=ClockAnchor.read(), catalogue=Catalogue(),
)
exporter = JsonLinesExporter()
exporter.start(agent)
def export(count):
    events = tuple(Measured("acme_a", ("x",), 1.0, now()) for _ in range(count))
    exporter.export(Batch(SnapshotData(now(), {{}}), events, ()))
"""


def start(directory: Path, program: str) -> subprocess.Popen[str]:
    source = PROGRAM.format(paths=[str(ROOT), str(ROOT / "plugins")], directory=str(directory)) + program
    return subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)


def test_a_full_disk_raises_and_leaves_whole_lines_and_what_follows_is_written(tmp_path: Path) -> None:
    program = """
export(10)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
try:
    export(1_000)
except OSError as error:
    print(error.strerror)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
export(5)
"""
    with start(tmp_path, program) as process:
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "File too large\n")
    assert [line["event"] for line in read(only_file(tmp_path))] == ["Header", *["Measured"] * 15]


def test_the_file_of_a_killed_process_is_read_line_by_line(tmp_path: Path) -> None:
    with start(tmp_path, "while True: export(3); print('written', flush=True)") as process:
        assert process.stdout is not None
        for _ in range(50):
            assert process.stdout.readline() == "written\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        process.stdout.close()
    content = only_file(tmp_path).read_bytes()
    whole = content[: content.rindex(b"\n") + 1]
    assert len([json.loads(line) for line in whole.splitlines()]) >= 1 + 3 * 50


def test_a_value_that_json_has_no_form_for_costs_no_other_event() -> None:
    record = as_record(measured()._replace(value=Path("x")), CLOCK, Catalogue())  # type: ignore[arg-type]
    assert json.loads(as_line(record))["value"] == "x"
