"""What several rooms' tests need: the system's Prometheus, certificates, and a plugin installed from outside the tree."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.workermanage import NodeManager

from jaxobs.agent.main import AUTOGROUP, NICENESS

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a shell's background job. Processes under test would inherit it, and never hear the Ctrl-C they are sent.
    signal.signal(signal.SIGINT, signal.default_int_handler)

EXAMPLE_PLUGIN = Path(__file__).parent / "example_plugin"


def pytest_configure(config: pytest.Config) -> None:
    """Hypothesis draws the same examples each time, or those of `--hypothesis-seed`, however slow the machine is.

    At a desk it draws a third of those in CI: what is drawn each time finds nothing new.
    """
    seeded, examples = config.getoption("hypothesis_seed") is not None, 100 if os.environ.get("CI") else 35
    settings.register_profile(
        "suite", settings.get_profile("ci"), derandomize=not seeded, max_examples=examples
    )
    settings.load_profile("suite")
    state = tempfile.mkdtemp(prefix="jaxobs-tests-state-")
    config.add_cleanup(lambda: shutil.rmtree(state, ignore_errors=True))
    os.environ["XDG_STATE_HOME"] = state  # jobs under test leave their records there
    os.environ["XDG_RUNTIME_DIR"] = (
        state  # and meet no jobs of other workers, nor those of who runs the tests
    )
    # Seconds in which a worker writes its coverage: killed before, it would lose it.
    NodeManager.EXIT_TIMEOUT = 300
    if hasattr(config, "workerinput"):
        _come_no_sooner_than_agents()


def _come_no_sooner_than_agents() -> None:
    """Give this worker, and the jobs that its tests start, the priority that agents give themselves.

    Several workers keep every core busy. A job that comes first may run its agent late, and tests would wait for it.
    """
    if AUTOGROUP.exists():
        os.setsid()
        with contextlib.suppress(OSError):
            AUTOGROUP.write_text(str(NICENESS))
    else:
        os.nice(NICENESS)


def _system_binary(name: str, package: str) -> Path:
    found = shutil.which(name)
    if found is not None:
        return Path(found)
    reason = f"{name} is not installed: apt install {package}"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason} (nothing that CI can install is skipped there)", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def prometheus_server_binary() -> Path:
    """The Prometheus server; without it the test is skipped on a user's machine and fails in CI."""
    return _system_binary("prometheus", "prometheus")


@pytest.fixture(scope="session")
def promtool() -> Path:
    """Prometheus's checker of metrics and rules; without it as with `prometheus_server_binary`."""
    return _system_binary("promtool", "prometheus")


@dataclass(frozen=True)
class Certificates:
    """Files in PEM form. `leaf` is for localhost and 127.0.0.1, signed by `authority`, and `other` by itself."""

    authority: Path
    leaf: Path
    key: Path
    other: Path
    other_key: Path
    locked_key: Path
    """`key` behind a passphrase."""


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Made by the system's openssl; without it as with `prometheus_server_binary`."""
    openssl = _system_binary("openssl", "openssl")
    folder = tmp_path_factory.mktemp("certificates")

    def make(*arguments: str) -> None:
        done = subprocess.run(
            [openssl, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "60")
    signs = ("-x509", "-addext", "keyUsage=critical,digitalSignature,keyCertSign")  # for Python 3.13
    make(
        "req", *signs, *new, "-subj", "/CN=an authority", "-keyout", "authority.key", "-out", "authority.pem"
    )
    make("req", *signs, *new, "-subj", "/CN=other", "-keyout", "other.key", "-out", "other.pem")
    make("req", *new[:-2], "-subj", "/CN=localhost", "-keyout", "leaf.key", "-out", "leaf.csr")
    (folder / "leaf.ext").write_text(
        "subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n"
    )
    signing = ("-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-extfile", "leaf.ext")
    make("x509", "-req", "-in", "leaf.csr", *signing, "-days", "60", "-out", "leaf.pem")
    make("ec", "-in", "leaf.key", "-aes128", "-passout", "pass:x", "-out", "locked.key")
    names = ("authority.pem", "leaf.pem", "leaf.key", "other.pem", "other.key", "locked.key")
    return Certificates(*(folder / name for name in names))


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
