"""What CONTRIBUTING.md says of additions is true: a bottleneck label and an advice take two files each.

Each case is a patch on a copy of the package, with its whole text here, and a program that shows the addition at work.
A collector is added in `agent/test_plugins_in_the_agent.py`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
Patch = dict[str, list[tuple[str, str]]]
"""By file, what is replaced and by what; a file that is replaced from "" is new."""

LABEL: Patch = {
    "jaxobs/vocabulary/words.py": [
        (
            "    UNMODELLED = (",
            (
                '    MOVEMENT = ("movement", "busy", "#444444", "#bbbbbb", "data is moved", "move less of it")\n'
                "    UNMODELLED = ("
            ),
        ),
    ],
    "jaxobs/roofline_model/operation_work.py": [
        (
            '        if label != "latency" or',
            """        if label == "memory" and not self.cost.flops:
            return "movement"
        if label != "latency" or""",
        ),
    ],
}
SHOWS_LABEL = """
from jaxobs.model.cost import Cost
from jaxobs.model.trace import OperationTime
from jaxobs.roofline_model.bounds import Bound
from jaxobs.roofline_model.operation_work import Work
from tests.derive.made_up import at, families, new_fold, applied, step

work = Work()
time = OperationTime("copy.1", "copy.1", "jit_step", 1, "copy", "compute", 1, 1, 1e-3, 1e-3, 1e-3)
bound = Bound(0.0, 0.0, 0.0, 9e-4, 9e-4, "memory")
work.add(time, Cost(bytes=1e6), bound, None)
label = work.label("compute")
fold = applied(new_fold(), [step(number, 1.0 + number, 2.0 + number) for number in range(5)])
shown = families(fold.snapshot(at(9)))["jaxobs_bottleneck_ratio"]
print(json.dumps([label, sorted(labels[1] for labels in shown)]))
"""

ADVICE: Patch = {
    "jaxobs/derive/advice/of_checkpoints.py": [
        (
            "",
            '''"""Advice on checkpoints: the time for which a loop waits while one is written."""

from __future__ import annotations

from collections.abc import Iterator

from jaxobs.derive.advice.facts import Facts, Finding


def slow_checkpoint(facts: Facts) -> Iterator[Finding]:
    """A loop waits while checkpoints are written.

    When: part of a loop's time is `checkpoint`.
    Gives back: the whole wait: an asynchronous checkpointer writes beside the steps.
    Why so: the wait is measured.
    """
    for loop in facts.loops:
        share = loop.share("checkpoint") or 0.0
        if share:
            said = f"{loop.name} waits for checkpoints"
            yield Finding({"loop": loop.name}, said, "write them asynchronously", loop.confidence, share)
''',
        ),
    ],
    "jaxobs/derive/advice/__init__.py": [
        (
            "from jaxobs.derive.advice.of_compiles",
            (
                "from jaxobs.derive.advice.of_checkpoints import slow_checkpoint\n"
                "from jaxobs.derive.advice.of_compiles"
            ),
        ),
        ("= (\n    memory_exhaustion", "= (\n    slow_checkpoint, memory_exhaustion"),
    ],
}
SHOWS_ADVICE = """
import sys
sys.path.insert(0, "docs/generators")
from generate_advice import page
from tests.derive.advice.documents import advise, quiet, shares

document = quiet()
document["loops"]["train"]["bottleneck"]["shares"] = shares(checkpoint=0.4)
print(json.dumps([[found["condition"] for found in advise(document)], "`slow_checkpoint`" in page()]))
"""


def patched(folder: Path, patch: Patch) -> Path:
    """A copy of the package with the patch on it."""
    shutil.copytree(ROOT / "jaxobs", folder / "jaxobs", ignore=shutil.ignore_patterns("__pycache__"))
    for name, replacements in patch.items():
        file = folder / name
        text = file.read_text() if file.exists() else ""
        for old, new in replacements:
            assert old in text, f"{name} has changed: write the patch anew"
            text = text.replace(old, new, 1) if old else new
        file.write_text(text)
    return folder


def shown(folder: Path, program: str) -> Any:
    """What the program prints with the copy in the place of the package."""
    path = os.pathsep.join([str(folder), str(ROOT), str(ROOT / "plugins")])
    done = subprocess.run(
        [sys.executable, "-P", "-c", "import json\n" + program],
        env={**os.environ, "PYTHONPATH": path}, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_bottleneck_label_takes_two_files(tmp_path: Path) -> None:
    assert len(LABEL) == 2
    label, words = shown(patched(tmp_path, LABEL), SHOWS_LABEL)
    assert label == "movement"
    assert "movement" in words  # zeros included, as of every label


def test_an_advice_takes_two_files(tmp_path: Path) -> None:
    assert len(ADVICE) == 2
    assert shown(patched(tmp_path, ADVICE), SHOWS_ADVICE) == [["slow_checkpoint"], True]
