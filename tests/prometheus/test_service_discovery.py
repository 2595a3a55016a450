import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxobs_plugins.prometheus import file_work
from jaxobs_plugins.prometheus.address import TargetFile, target_group
from tests.prometheus.dead_mount import DeadMount
from tests.waiting import wait_for


def host() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname())


def target_file(directory: Path, log: Callable[[str], None] = lambda _: None) -> TargetFile:
    return TargetFile(directory, "localhost:9464", "http", log)


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_run_and_rank_stay_on_every_series(resource: dict[str, str]) -> None:
    [group] = target_group("localhost:9464", {**resource, "service.instance.id": "a-b"})
    assert group["targets"] == ["localhost:9464"]
    assert group["labels"] == {
        "jaxobs_run": "first",
        "jaxobs_rank": "3",
        "__param_instance": "a-b",
    }


def test_a_process_is_announced_once_its_rank_is_known(tmp_path: Path) -> None:
    """A label that came later would break every series in two."""
    lines: list[str] = []
    target = target_file(tmp_path, lines.append)
    target.publish({"jaxobs.run": "first"})
    assert list(tmp_path.iterdir()) == []
    target.publish({"jaxobs.run": "first", "jax.process_index": "1"})
    path = wait_for(lambda: next(tmp_path.glob("jaxobs-*.json"), None), "the file")
    assert json.loads(path.read_text())[0]["labels"]["jaxobs_rank"] == "1"
    target.withdraw(5)
    assert list(tmp_path.iterdir()) == []
    assert lines == []


def test_the_file_is_named_by_host_and_process_and_goes_at_the_end(
    tmp_path: Path, resource: dict[str, str]
) -> None:
    target = target_file(tmp_path / "made")
    target.write(resource)
    assert list((tmp_path / "made").iterdir()) == [target.path]
    assert target.path.name == f"jaxobs-{host()}-{os.getpid()}-9464.json"
    [group] = json.loads(target.path.read_text())
    assert group["targets"] == ["localhost:9464"]
    target.write(resource, {"rank": 0, "shares": {"input": 0.5}})
    assert json.loads(target.path.read_text()) == [group]  # Prometheus refuses a file with further keys
    target.publish(resource)
    target.withdraw(5)
    target.withdraw(5)
    assert not target.path.exists()


def test_others_may_read_it(tmp_path: Path) -> None:
    """Prometheus runs as a user of its own."""
    target = target_file(tmp_path)
    (tmp_path / "plain").touch()
    target.write({})
    assert target.path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_it_is_written_again_only_where_it_is_gone_or_says_something_else(
    tmp_path: Path, resource: dict[str, str]
) -> None:
    target = target_file(tmp_path)
    target.write(resource)
    written = target.path.stat().st_ino
    target.write(resource)
    assert target.path.stat().st_ino == written
    target.write({**resource, "jax.process_index": "4"})
    assert json.loads(target.path.read_text())[0]["labels"]["jaxobs_rank"] == "4"
    target.path.unlink()
    target.write({**resource, "jax.process_index": "4"})
    assert target.path.exists()


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    target = target_file(tmp_path)
    target.write({"run": "0"})
    stop = threading.Event()

    def write() -> None:
        count = 0
        while not stop.is_set():
            count += 1
            target.write({"run": str(count) * 200})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(500):
            assert json.loads(target.path.read_text())[0]["targets"] == ["localhost:9464"]
            assert len(list(tmp_path.glob("*.json"))) == 1
    finally:
        stop.set()
        writer.join()


def test_what_a_writer_that_was_killed_leaves_is_removed_by_the_next(tmp_path: Path) -> None:
    program = (
        "import os, sys, pathlib\n"
        "from jaxobs_plugins.prometheus.address import TargetFile\n"
        "pathlib.Path.replace = lambda *_: os._exit(9)\n"
        "TargetFile(pathlib.Path(sys.argv[1]), 'localhost:9464', 'http', print).write({})\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], env=environment, check=False)
    assert done.returncode == 9
    assert len(list(tmp_path.iterdir())) == 1
    target = target_file(tmp_path)
    target.write({})
    assert list(tmp_path.iterdir()) == [target.path]


def test_no_planted_link_is_written_through(tmp_path: Path) -> None:
    """Neither under the file's name nor under that of any draft, in a directory that others can write to."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    directory = tmp_path / "shared"
    directory.mkdir()
    target = target_file(directory)
    for name in (target.path.name, f".{target.path.name}.draft"):
        (directory / name).symlink_to(victim)
    target.write({})
    assert victim.read_text() == "precious"
    assert not target.path.is_symlink()
    target.path.unlink()
    target.path.symlink_to(victim)
    target.write({})
    assert victim.read_text() == "precious"
    assert json.loads(target.path.read_text())[0]["targets"] == ["localhost:9464"]


def test_a_directory_that_does_not_answer_is_said_once_and_used_again_when_it_does(
    dead_mount: DeadMount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_work, "NO_ANSWER_SECONDS", 1.0)
    lines: list[str] = []
    target = target_file(dead_mount.directory, lines.append)
    target.publish({"jax.process_index": "1"})
    wait_for(target.path.exists, "the file")
    dead_mount.die()

    def published() -> list[str]:
        target.publish({"jax.process_index": "2"})
        return lines

    wait_for(published, "a line")
    published()
    assert lines == [
        f"file_sd: {dead_mount.directory} has not answered for 1 s; Prometheus is not told of this process"
    ]
    dead_mount.revive()
    wait_for(lambda: published() and '"2"' in target.path.read_text(), "the file, anew")
    target.withdraw(5)
    assert list(dead_mount.directory.iterdir()) == []


def test_a_file_that_is_written_late_is_withdrawn_all_the_same(dead_mount: DeadMount) -> None:
    lines: list[str] = []
    target = target_file(dead_mount.directory, lines.append)
    dead_mount.die()
    target.publish({"jax.process_index": "1"})
    target.withdraw(0.1)
    assert "remove the file yourself" in lines[-1]
    dead_mount.revive()
    wait_for(lambda: not any(t.name == "jaxobs-files" for t in threading.enumerate()), "the end of the work")
    assert list(dead_mount.directory.iterdir()) == []


def test_only_what_the_dead_of_this_host_left_is_removed(tmp_path: Path) -> None:
    dead = dead_process()
    stale = {f"jaxobs-{host()}-{dead}-1.json", f".jaxobs-{host()}-{dead}-1.json.0123456789abcdef.draft"}
    kept = {
        f".jaxobs-{host()}-{os.getppid()}-1.json.0123456789abcdef.draft",
        f".other-{dead}.json.0123456789abcdef.draft",
        f"jaxobs-{host()}-{os.getppid()}-1.json",
        f"jaxobs-{host()}x-{dead}-1.json",
        f"jaxobs-{host()}-{dead}-1.json.bak",
        "targets.json",
        f"jaxobs-{host()}-.json",
    }
    for name in stale | kept:
        (tmp_path / name).touch()
    target = target_file(tmp_path)
    target.write({})
    assert {path.name for path in tmp_path.iterdir()} == kept | {target.path.name}


def test_no_directory_is_made_above_the_one_that_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="made"):
        target_file(tmp_path / "mistyped" / "made").write({})
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        target_file(tmp_path / "file" / "below").write({})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
