"""Every Python snippet of README and docs runs, inside a function, as a reader would paste it there."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from jaxobs.report.record import encoded
from tests.documentation.fences import Fence, by_page
from tests.jobs import environment
from tests.report.made_up import content

NOT_RUN = {
    "docs/reference/jax_versions.md": "shows a fault of jaxlib that may end the process",
}
"""Only compiled, each for its reason."""

PRELUDE = """
import jax
import jax.numpy as jnp
import jaxobs

class Tracker:  # in the place of wandb, mlflow, a run of Aim's and a writer of TensorBoard's files
    def log(self, data, step=None):
        assert all(isinstance(name, str) for name in data) and isinstance(step, int)
        for value in data.values():
            float(value)
    track = log
    def log_metrics(self, metrics, step=None):
        assert all(isinstance(value, float) for value in metrics.values()) and isinstance(step, int)
    def add_scalar(self, name, value, step):
        assert isinstance(name, str) and isinstance(value, float) and isinstance(step, int)

wandb = mlflow = run = writer = Tracker()
train_step = jax.jit(lambda state, batch: (state - 0.1 * batch.T @ (batch @ state), jnp.sum(state)))
evaluate = jax.jit(jnp.sum)
state = jnp.ones((64, 8)) * 0.01
loader = [jnp.ones((16, 64)) * 0.01] * 30
step = 7
obs = jaxobs.instrument()
for batch in obs.steps(loader):
    state, loss = train_step(state, batch)
assert obs.snapshot(timeout=60).to_dict()["process"]  # the agent is there
"""


def program(fences: list[Fence]) -> str:
    """Each snippet as the body of a function of its own; what it assigns, it assigns there."""
    parts = [PRELUDE]
    for number, fence in enumerate(fences):
        given = "state=state" if "state, loss = " in fence.text and "def train" not in fence.text else ""
        parts.append(
            f"def snippet_{number}({given}):\n{textwrap.indent(fence.text, '    ')}\nsnippet_{number}()\n"
        )
    return "\n".join([*parts, "obs.shutdown()"])


@pytest.mark.slow
@pytest.mark.parametrize("page", by_page("python"))
def test_the_python_snippets_of_a_page_run_inside_a_function(page: str, tmp_path: Path) -> None:
    text = program(by_page("python")[page]).replace("range(1000)", "range(50)")  # whose steps take 20 ms
    if page in NOT_RUN:
        compile(text, page, "exec")
        return
    file = tmp_path / "snippets.py"
    file.write_text(text)
    for began in (1_000.0, 1_060.0):
        folder = tmp_path / f"train-{began:.0f}"
        folder.mkdir()
        (folder / "record.json").write_bytes(encoded(content(began=began)))
    command = [sys.executable, str(file)]
    settings = environment(JAXOBS_RUN_DIRECTORY=str(tmp_path), HOME=str(tmp_path))
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=settings, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_no_page_is_named_that_has_no_snippet() -> None:
    assert set(NOT_RUN) <= set(by_page("python"))
