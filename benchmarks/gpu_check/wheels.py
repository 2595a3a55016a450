"""A folder of wheels for a machine without a network: jaxobs and all it needs but JAX, which is there for its device.

    python -m benchmarks.gpu_check.wheels build/gpu-check-wheels [--python 3.12]

There, `python3 -m pip install --no-index --find-links FOLDER jaxobs` takes from it what is missing. Versions are those of
the pinned requirements.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.gpu_check.machine import ROOT

PINS = ROOT / "requirements" / "jax-0.10.2.txt"
THERE = ("jax", "jaxlib")
"""Not ours to bring: its build is the device's. What these two need (NumPy, …) is there with them."""

PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "manylinux1_x86_64")


def needed(requirements: Iterable[str]) -> list[str]:
    """Those that are brought: no extras, and not JAX."""
    names = {
        text: re.split(r"[\s<>=!~;\[]", text)[0].lower() for text in requirements if "extra ==" not in text
    }
    return [text for text, name in names.items() if name not in THERE]


def pins(text: str) -> list[str]:
    """`name==version` of a requirements file, without its hashes."""
    return re.findall(r"(?m)^[A-Za-z0-9._-]+==[^\s;\\]+", text)


def main() -> None:
    """Build and download."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--python", default="3.12", help="version of Python on that machine (default: %(default)s)"
    )
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wheel = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(options.folder), str(ROOT)]
    subprocess.run([*pip, *wheel], check=True)
    constraints = options.folder / "constraints.txt"
    constraints.write_text("\n".join(pins(PINS.read_text(encoding="utf-8"))) + "\n", encoding="utf-8")
    platforms = [word for name in PLATFORMS for word in ("--platform", name)]
    subprocess.run(
        [
            *pip, "download", "--only-binary=:all:", "--implementation", "cp", "--python-version", options.python,
            *platforms, "--dest", str(options.folder), "--constraint", str(constraints),
            *needed(importlib.metadata.requires("jaxobs") or ()),
        ],
        check=True,
    )  # fmt: skip
    constraints.unlink()
    sizes = [path.stat().st_size for path in options.folder.iterdir()]
    print(f"{options.folder}: {len(sizes)} wheels, {sum(sizes) / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
