"""Finds the files of a trace: `plugins/profile/RUN/HOST.xplane.pb`, as `jax.profiler.trace` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jaxobs.trace.errors import TraceError

_SUFFIX: Final = ".xplane.pb"


def trace_files(path: Path) -> list[Path]:
    """The files of one run, one for each host. Of several runs, it is the last by name, which is its time.

    Raises TraceError where the path does not exist or holds no trace.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise TraceError(f"{path}: no such file or directory")
    for folder in (path, path / "plugins" / "profile"):
        here = _files(folder)
        if here:
            return here
        runs = [child for child in sorted(folder.glob("*")) if child.is_dir() and _files(child)]
        if runs:
            return _files(runs[-1])
    raise TraceError(
        f"{path}: no trace in it; give a file *{_SUFFIX}, or the directory that jax.profiler.trace() was given"
    )


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob(f"*{_SUFFIX}") if file.is_file())
