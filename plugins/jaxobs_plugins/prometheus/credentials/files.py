"""Values made from files, such as the token, and made again when the contents change."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from jaxobs.plugin.files import open_regular

MOST_BYTES = 1 << 20
"""Largest file that is read. A certificate in PEM form takes some 2 kB, and a chain has a handful."""

Value = TypeVar("Value")


class CredentialsError(ValueError):
    """A file of the settings cannot be used, and nothing is served; the message says which, why and what to do."""


class NamedFile(NamedTuple):
    """A file and the setting that names it."""

    setting: str
    path: Path

    def __str__(self) -> str:
        return f"{self.setting}: {self.path}"


class OpenFile(NamedTuple):
    """The content of an open file, and a path to it that holds even if another file takes its name meanwhile."""

    named: NamedFile
    content: bytes
    path: str


class FileValue(Generic[Value]):
    """A value made from files, which `refresh` reads."""

    def __init__(
        self, files: Iterable[NamedFile | None], make: Callable[[Sequence[OpenFile]], Value]
    ) -> None:
        """`make` may raise CredentialsError; the files are open while it runs."""
        self.files = tuple(file for file in files if file is not None)
        self._value: Value | None = None
        self.reading: NamedFile | None = None
        """The file that is being read now, for the message where that takes long."""
        self._make = make
        self._digest: bytes | None = None

    @property
    def value(self) -> Value | None:
        """The value last made; None where there are no files. Raises CredentialsError before they have been read."""
        if self.files and self._digest is None:
            raise CredentialsError(f"{self.files[0]} has not been read yet")
        return self._value

    def refresh(self) -> bool:
        """Read the files. Returns whether the value is new. Raises CredentialsError, and keeps the value it has."""
        if not self.files:
            return False
        try:
            with ExitStack() as stack:
                return self._take([self._read(file, stack) for file in self.files])
        finally:
            self.reading = None

    def _take(self, found: Sequence[OpenFile]) -> bool:
        # A digest, so that a key is not held in memory twice.
        digest = hashlib.sha256(b"".join(hashlib.sha256(file.content).digest() for file in found)).digest()
        if digest == self._digest:
            return False
        self._value = self._make(found)
        self._digest = digest
        return True

    def _read(self, named: NamedFile, stack: ExitStack) -> OpenFile:
        self.reading = named
        try:
            file = stack.enter_context(open_regular(named.path))
            content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise CredentialsError(f"{named} cannot be read: {error.strerror}") from error
        if len(content) > MOST_BYTES:
            raise CredentialsError(f"{named} is larger than {MOST_BYTES} bytes")
        return OpenFile(named, content, f"/proc/self/fd/{file.fileno()}")
