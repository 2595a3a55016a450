"""`make package`: what was built holds what it should, and its wheel works in an environment that has nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
IN_THE_SDIST = (
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "docs/index.md",
    "docs/conf.py",
    "tests/conftest.py",
    "Makefile",
)
IN_THE_WHEEL = ("jaxobs/py.typed", "jaxobs/hardware/hardware.toml", "jaxobs_plugins/prometheus/__init__.py")
NOT_IN_THE_WHEEL = ("tests/", "docs/", "grafana/", "benchmarks/")
MOST_BYTES = 10 * 2**20
"""A tenth of what the index takes of one file by default (https://docs.pypi.org/project-management/storage-limits/)."""


def missing(names: Iterable[str], wanted: Iterable[str]) -> list[str]:
    """Those of the wanted names that are not among the names."""
    held = set(names)
    return [name for name in wanted if name not in held]


def look_into(folder: Path) -> tuple[Path, list[str]]:
    """The wheel, and what is wrong with it and the sdist."""
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    wrong = [f"{sdist.name} lacks {name}: see MANIFEST.in" for name in missing(names, IN_THE_SDIST)]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    wrong += [
        f"{wheel.name} lacks {name}: see package-data in pyproject.toml"
        for name in missing(names, IN_THE_WHEEL)
    ]
    wrong += [f"{wheel.name} has {name}" for name in names if name.startswith(NOT_IN_THE_WHEEL)]
    wrong += [
        f"{file.name} has {file.stat().st_size} bytes"
        for file in (sdist, wheel)
        if file.stat().st_size > MOST_BYTES
    ]
    if f"\n## {VERSION}" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        wrong.append(f"CHANGELOG.md has no section for {VERSION}, whose notes a release shows")
    return wheel, wrong


def install(wheel: Path, folder: Path) -> list[str]:
    """What is wrong with the installed package; its dependencies are the index's newest, as a user gets them."""
    subprocess.run([sys.executable, "-m", "venv", folder / "clean"], check=True)
    bin_folder = folder / "clean" / "bin"
    pip = [bin_folder / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]
    subprocess.run(pip, check=True)
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HOME": str(folder), "JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0"}

    def said(*arguments: str) -> str:
        command = [bin_folder / "jaxobs", *arguments]
        return subprocess.run(
            command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=False
        ).stdout

    wrong = []
    if (found := said("--version").strip()) != f"jaxobs {VERSION}":
        wrong.append(f"`jaxobs --version` says {found!r}, not {VERSION}")
    checked = json.loads(said("check", "--json") or "{}")
    plugins = checked.get("plugins") or []
    wrong += [f"plugin {plugin['name']}: {plugin['error']}" for plugin in plugins if plugin.get("error")]
    if not plugins:
        wrong.append("`jaxobs check --json` shows no plugins")
    return wrong


def main() -> int:
    """The exit status; what is wrong is printed."""
    wheel, wrong = look_into(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        wrong += install(wheel.resolve(), Path(folder))
    for line in wrong:
        print(f"jaxobs: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
