"""Evidence in a few files: what the checks keep, packed into archives of a size that travels."""

from __future__ import annotations

import zipfile
from pathlib import Path

LARGEST = 15 * 2**20
"""Bytes of one archive: some ways of bringing files from a borrowed machine take no more than 16 MiB each."""

MOST = 4
"""Archives: with the page less than 64 MiB, as some of those ways take no more together."""


class Archives:
    """`evidence-1.zip`, `evidence-2.zip`, …, each no larger than LARGEST. Files come in order of worth."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 1
        self.left_out: list[str] = []
        """Names of files that did not fit, with their sizes."""

    def add(self, check: str, folder: Path) -> None:
        """Add every file of a check's folder, the small ones first."""
        files = [path for path in folder.rglob("*") if path.is_file()]
        for path in sorted(files, key=lambda path: path.stat().st_size):
            self._add(path, f"{check}/{path.relative_to(folder)}")

    @property
    def paths(self) -> list[Path]:
        """The archives so far."""
        return sorted(self._folder.glob("evidence-*.zip"))

    def _add(self, path: Path, name: str) -> None:
        size = _compressed(path)
        if size > LARGEST:
            self.left_out.append(f"{name} ({size / 2**20:.0f} MiB compressed)")
            return
        if self._now.exists() and self._now.stat().st_size + size + 4096 > LARGEST:
            if self._number == MOST:
                self.left_out.append(f"{name} ({size / 2**20:.1f} MiB compressed)")
                return
            self._number += 1
        self._folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(self._now, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.write(path, name)

    @property
    def _now(self) -> Path:
        return self._folder / f"evidence-{self._number}.zip"


def _compressed(path: Path) -> int:
    """Bytes that a file takes in an archive."""
    import io

    with zipfile.ZipFile(io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, path.name)
        return archive.infolist()[0].compress_size
