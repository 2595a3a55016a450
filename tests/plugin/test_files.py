import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from jaxobs.plugin.files import DRAFT_NAME, open_regular, write_whole


def test_it_is_written_with_the_mode_and_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "file", b"content")
        write_whole(tmp_path / "secret", b"content", 0o600)
    finally:
        os.umask(before)
    assert (tmp_path / "file").read_bytes() == b"content"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "secret"]


@pytest.mark.parametrize("planted", ["to a file", "to nothing", "hard"])
def test_a_planted_link_is_replaced_and_not_written_through(tmp_path: Path, planted: str) -> None:
    victim, path = tmp_path / "victim", tmp_path / "file"
    if planted != "to nothing":
        victim.write_text("precious")
    if planted == "hard":
        path.hardlink_to(victim)
    else:
        path.symlink_to(victim)
    write_whole(path, b"content")
    assert not path.is_symlink()
    assert path.read_bytes() == b"content"
    assert victim.exists() is (planted != "to nothing")
    if planted != "to nothing":
        assert victim.read_text() == "precious"


def test_links_planted_under_the_name_of_a_draft_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even by one who foresees the name: then the file is not written."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr("secrets.token_hex", lambda size: "0" * 2 * size)
    planted = tmp_path / ".file.0000000000000000.draft"
    planted.symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "file", b"content")
    assert victim.read_text() == "precious"
    assert planted.is_symlink()
    assert not (tmp_path / "file").exists()


def test_two_drafts_are_not_called_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drafts = set()

    def keep(draft: Path, _: Path) -> None:
        drafts.add(draft.name)

    monkeypatch.setattr(Path, "replace", keep)
    for _ in range(10):
        write_whole(tmp_path / "a.json", b"")
    assert len(drafts) == 10
    matches = [DRAFT_NAME.fullmatch(name) for name in drafts]
    assert {match["name"] for match in matches if match} == {"a.json"}
    assert all(matches)


def test_where_it_cannot_be_written_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "in it").touch()
    with pytest.raises(OSError, match="directory"):
        write_whole(tmp_path / "directory", b"content")
    with pytest.raises(OSError, match="nowhere"):
        write_whole(tmp_path / "nowhere" / "file", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["directory"]


def test_a_full_disk_leaves_the_old_file_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(tmp_path / "file", b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "file", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    path, contents = tmp_path / "file", [bytes([byte]) * 100_000 for byte in b"ab"]
    write_whole(path, contents[0])
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for content in contents:
                write_whole(path, content)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert all(path.read_bytes() in contents for _ in range(200))
    finally:
        stop.set()
        writer.join()


@pytest.mark.timeout(20)
def test_what_is_no_file_is_not_opened_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("fifo")
    before = sorted(Path("/proc/self/fd").iterdir())
    for path in (tmp_path / "fifo", tmp_path / "link", tmp_path, Path("/dev/null")):
        with pytest.raises(OSError, match="not a regular file"):
            open_regular(path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "nowhere")
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_a_file_is_read_through_a_link(tmp_path: Path) -> None:
    """Kubernetes mounts a Secret so."""
    (tmp_path / "file").write_text("content")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"content"
