from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event

import jaxobs_plugins.tensorboard as exporter_module
from jaxobs.model.clock import now
from jaxobs.model.snapshot import SnapshotData
from jaxobs.plugin.protocol import Batch
from jaxobs.testing import FakeAgent
from jaxobs_plugins.tensorboard import TensorBoardExporter


def agent(directory: Path | None) -> FakeAgent:
    """One of rank 3."""
    standing = FakeAgent({"tensorboard_directory": None if directory is None else str(directory)})
    standing.resource = {"jax.process_index": "3"}
    return standing


def batch(steps: int, mfu: float | None) -> Batch:
    return Batch(SnapshotData(now(), {"loops": {"train": {"steps": steps, "mfu": mfu}}}), (), ())


def points(directory: Path) -> list[tuple[str, int, float]]:
    """(name, step, value) in TensorBoard's file: records of length, check sum, event, check sum (TFRecord)."""
    (path,) = (directory / "rank3").iterdir()  # TensorBoard takes a directory for one run
    assert path.name.endswith(".jaxobs.rank3")
    data, found = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event = Event.FromString(data[12 : 12 + length])
        found += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
        data = data[12 + length + 4 :]
    return found


def test_each_figure_is_a_curve_over_steps_and_an_unknown_one_has_no_point(tmp_path: Path) -> None:
    exporter = TensorBoardExporter()
    exporter.start(agent(tmp_path))
    exporter.export(batch(0, None))
    assert list(tmp_path.iterdir()) == [], "before the first step there is nothing to tell"
    exporter.export(batch(10, 0.5))
    exporter.export(batch(11, 0.25))  # within seconds of the last
    exporter.stop(1.0)
    assert points(tmp_path) == [("jaxobs/mfu", 10, 0.5), ("jaxobs/mfu", 11, 0.25)]


def test_without_a_directory_nothing_is_written_and_the_writer_not_imported(tmp_path: Path) -> None:
    exporter = TensorBoardExporter()
    exporter.start(agent(None))
    assert not exporter.takes_batches
    exporter.stop(1.0)
    assert exporter._writer is None
    assert list(exporter.check({"tensorboard_directory": None})) == []


def test_a_missing_writer_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter_module, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install jaxobs\[tensorboard\]"):
        TensorBoardExporter().start(agent(tmp_path))
    (remark,) = TensorBoardExporter().check({"tensorboard_directory": str(tmp_path)})
    assert remark.problem
