"""A notebook is executed as Jupyter does it: what its cells return is shown as pictures and tables."""

from __future__ import annotations

import os
from pathlib import Path

import nbclient
import nbformat
import pytest

from jaxobs.report.record import encoded
from tests.report.made_up import content, windows
from tests.report.markup_reading import Read

CELLS = (
    """
import jax, jax.numpy as jnp
import jaxobs
obs = jaxobs.instrument()
step = obs.watch(jax.jit(lambda x: jnp.tanh(x @ x)))
for x in obs.steps([jnp.ones((64, 64))] * 50):
    step(x).block_until_ready()
jaxobs.cost(step, x)
""",
    "jaxobs.roofline(step, x)",
    "obs",
    "obs.snapshot()",
    """
from pathlib import Path
from jaxobs.report.comparison import compare
from jaxobs.report.record import decoded
compare(*(decoded(Path(name).read_bytes(), name) for name in ("a.json", "b.json")))
""",
)


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Read]:
    """What each cell shows, as HTML that was read."""
    settings = {"JAX_PLATFORMS": "cpu", "OTEL_EXPORTER_PROMETHEUS_PORT": "0", "JUPYTER_PLATFORM_DIRS": "1",
                "IPYTHONDIR": str(tmp_path / "ipython"), "JAXOBS_PEAK_FLOPS": '{"float32": 2.5e11}',
                "JAXOBS_PEAK_BYTES_PER_SECOND": "1.8e10"}  # fmt: skip
    for name in [name for name in os.environ if name.startswith("JAXOBS_")]:
        monkeypatch.delenv(name)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "a.json").write_bytes(encoded(content()))
    (tmp_path / "b.json").write_bytes(encoded(content(stretches=windows(0.02, waited=0.01))))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    client = nbclient.NotebookClient(
        notebook, timeout=90, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    results = []
    for cell in notebook.cells:
        [result] = [output for output in cell.outputs if output.output_type == "execute_result"]
        results.append(Read(result.data["text/html"]))
    return results


def test_each_object_is_a_picture_with_its_figures(shown: list[Read]) -> None:
    cost, roofline, live, snapshot, comparison = shown
    assert "FLOP" in cost.text
    assert roofline.all("svg", class_="executable")
    for read in (live, snapshot):
        assert "train" in read.text
        assert read.all("svg", class_="part")
    assert "train is slower in B" in comparison.text
    for read in shown:
        assert read.all("table")
        assert not read.all("script")
