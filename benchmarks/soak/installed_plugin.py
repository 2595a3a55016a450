"""The soak's plugin as pip would install it: the module, and a dist-info with its entry points beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

MODULE = Path(__file__).parent / "plugin" / "jaxobs_soak.py"
ENTRY_POINTS = """\
[jaxobs.probes]
soak = jaxobs_soak:Probe
[jaxobs.collectors]
soak_collector = jaxobs_soak:Collector
[jaxobs.exporters]
soak_witness = jaxobs_soak:Witness
soak_failing = jaxobs_soak:FailingExporter
"""


def install(folder: Path) -> None:
    """Into a folder for PYTHONPATH."""
    information = folder / "jaxobs_soak-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: jaxobs-soak\nVersion: 1\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    shutil.copy(MODULE, folder)
