"""What several rooms' tests need: the system's Prometheus, and a plugin installed from outside the tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE_PLUGIN = Path(__file__).parent / "example_plugin"


def _system_binary(name: str) -> Path:
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    reason = f"{name} is not installed: apt install prometheus"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (nothing that CI can install is skipped there)", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def prometheus_server_binary() -> Path:
    """The Prometheus server; without it the test is skipped on a user's machine and fails in CI."""
    return _system_binary("prometheus")


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus's checker of metrics and rules; without it as with `prometheus_server_binary`."""
    return _system_binary("promtool")


@pytest.fixture(scope="session")
def example_plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the distribution `jaxobs-example` is installed, to be put on PYTHONPATH.

    Its entry points are found through the dist-info beside it, as those of any installed plugin.
    """
    source = tmp_path_factory.mktemp("example_source") / "jaxobs-example"
    # A copy, because the build leaves its outputs beside what it builds.
    shutil.copytree(
        EXAMPLE_PLUGIN, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    )
    target = tmp_path_factory.mktemp("example_installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target
