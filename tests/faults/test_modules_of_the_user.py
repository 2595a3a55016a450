"""Modules beside the script and on `sys.path`: jaxobs runs none of them, and the job gets those that it put there."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.cli.launched import JAXOBS, environment

VENDORED = ("pydantic", "psutil", "dotenv")
OURS = {
    "jaxobs",
    "jaxobs_plugins",
    "sitecustomize",
    "usercustomize",
}  # the latter two: asked for by Python's start
OF_THE_PROFILER = {"tensorflow"}
"""What XLA itself asks for as a profiler window opens, which the script does: up to JAX 0.6."""

SCRIPT = """
import atexit, os, sys
class Asked(set):  # also for what is not there, such as the msvcrt of Windows
    def find_spec(self, name, path, target=None):
        self.add(name)
sys.meta_path.insert(0, asked := Asked())
def told():
    import json  # as JAX has
    with open(os.environ["TOLD"], "w") as file:
        json.dump(sorted(asked | set(sys.modules)), file)
atexit.register(told)
if OBSERVED := os.environ.get("OBSERVED"):
    import jaxobs
    obs = jaxobs.instrument()
import jax, jax.numpy as jnp
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "vendor"))
step = jax.jit(lambda x: x * 2)
for size in (1, 2):
    total = step(jnp.ones(size)).sum()
for turn in range(20):
    time.sleep(0.02)
    step(jnp.ones(2))
if OBSERVED:
    watched = obs.watch(jax.jit(lambda x: x @ x))
    for turn in obs.steps(range(10), examples=2):
        obs.record(loss=watched(jnp.ones((4, 4))).sum())
    with obs.step(), obs.phase("checkpoint"):
        watched(jnp.ones((5, 5)))
    obs.profile(0.05)
    found = obs.snapshot(20.0)
    assert found["loops"]["train"]["steps"] == 11, found
    found.to_json(), found._repr_html_(), obs.values(), obs.address
    obs.shutdown()
print(float(total), *(__import__(name).VERSION for name in ("pydantic", "psutil", "dotenv")))
"""

OF_THE_USER = """
import os
with open(os.environ["RAN"], "a") as file:
    file.write(__name__ + "\\n")
raise SystemExit(3)
"""


@pytest.mark.fault(60, 61)
def test_none_is_run_that_jax_does_not_import_and_another_version_is_what_the_job_gets(
    tmp_path: Path,
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    for name in VENDORED:
        (tmp_path / "vendor" / name).mkdir(parents=True)
        (tmp_path / "vendor" / name / "__init__.py").write_text("VERSION = 'vendored'\n")
    ways = {
        "plain": [sys.executable, "train.py"],
        "instrument": [sys.executable, "train.py"],
        "run": [*JAXOBS, "run", "--", "train.py"],
    }
    modules: dict[str, set[str]] = {}
    for way, command in ways.items():
        told = tmp_path / f"{way}.json"
        own = {"TOLD": str(told), "RAN": str(tmp_path / "ran"), "JAXOBS_INTERVAL": "0.1"}
        own |= {"OTEL_EXPORTER_PROMETHEUS_PORT": "0", "OBSERVED": "1" if way == "instrument" else ""}
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(**own), capture_output=True, text=True, timeout=120, check=False
        )  # fmt: skip
        ran = (tmp_path / "ran").read_text() if (tmp_path / "ran").exists() else ""
        assert (ran, done.returncode, done.stdout) == ("", 0, "4.0 vendored vendored vendored\n"), done.stderr
        modules[way] = set(json.loads(told.read_text()))
        if way == "plain":
            for name in shadowed(modules[way]):
                (tmp_path / f"{name}.py").write_text(OF_THE_USER)
    assert "jaxobs.observer" in modules["run"]  # it was observed
    plain = {name.partition(".")[0] for name in modules.pop("plain")} | set(sys.builtin_module_names)
    for asked in modules.values():
        assert {name.partition(".")[0] for name in asked} - plain - OURS <= OF_THE_PROFILER
    # And what only runs now and then, such as the report of memory that runs out.
    assert not {(by, name) for by, name in imports_of_the_job() if name.partition(".")[0] not in plain}


@pytest.mark.fault(60)
@pytest.mark.parametrize("name", ["jaxobs.py", "jaxobs_plugins.py", "train.py"])
def test_a_module_of_the_user_with_a_name_of_ours_is_not_run(name: str, tmp_path: Path) -> None:
    """Nor is a script that is called so, a second time."""
    (tmp_path / "train.py").write_text("print(__import__('jax').jit(lambda x: x * 2)(1))")
    if name != "train.py":
        (tmp_path / name).write_text("raise SystemExit(3)")
    else:
        (tmp_path / "train.py").rename(tmp_path / "jaxobs.py")
    installed = tmp_path / "bin" / "jaxobs"  # `python -m jaxobs` finds what is in the working directory
    installed.parent.mkdir()
    installed.write_text("import sys\nfrom jaxobs.cli import main\nsys.exit(main())")
    script = "jaxobs.py" if name == "train.py" else "train.py"
    done = subprocess.run(
        [sys.executable, str(installed), "run", "--", script], cwd=tmp_path, env=environment(), capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    file = tmp_path / ("jaxobs.py" if name == "train.py" else name)
    said = f"jaxobs: the script runs unobserved: {file} hides a package of jaxobs\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", said)


def shadowed(loaded: set[str]) -> set[str]:
    """Every module of the standard library, or installed here, that a job with JAX does not load by itself."""
    installed = {name for name in packages_distributions() if name.isidentifier()}
    tops = {name.partition(".")[0] for name in loaded}
    return {*sys.stdlib_module_names, *installed} - tops - OURS - {*VENDORED} - set(sys.builtin_module_names)


def imports_of_the_job() -> Iterator[tuple[str, str]]:
    """(module, what it imports) for each module of ours that the job may load, wherever in it the import stands."""
    # The latter two: what `jaxobs.cost()`, `roofline()` and `compare()` need.
    beside = ("jaxobs.agent", "jaxobs.measure", "jaxobs.cli.compare")
    probes = source_of("jaxobs_plugins.probes")
    assert probes is not None
    waiting = {
        f"jaxobs_plugins.probes.{path.stem}" for path in probes.parent.iterdir() if path.stem[0] != "_"
    }
    waiting |= {"jaxobs", "jaxobs.cli.launch.observe", "jaxobs.cli.launch.sitecustomize", "jaxobs.cli.run"}
    seen: set[str] = set()
    while waiting:
        module = waiting.pop()
        source = source_of(module)
        if module in seen or source is None or module.startswith(beside):
            continue
        seen.add(module)
        for node in ast.walk(ast.parse(source.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [str(node.module)]
                waiting |= {f"{node.module}.{alias.name}" for alias in node.names}
            waiting |= set(names)
            yield from ((module, name) for name in names if name.partition(".")[0] not in OURS)


def source_of(module: str) -> Path | None:
    """The file of one of our modules; None for what is no module, such as a function that is imported."""
    package, _, rest = module.partition(".")
    spec = importlib.util.find_spec(package) if package in OURS else None
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent.joinpath(*filter(None, rest.split(".")))
    found = [file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()]
    return found[0] if found else None
