"""Finding plugins: real distributions on a folder of their own, each loaded alone."""

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jaxobs.plugin.discovery import COLLECTORS, PROBES, Found, discover

SOUND = "from jaxobs.plugin.base import Probe\nclass Plugin(Probe):\n    metrics = ()\n    def start(self, job): ...\n"


class Site:
    """A folder in which distributions can be installed by writing what an installer would leave behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def install(
        self,
        distribution: str,
        source: str,
        *,
        name: str = "",
        group: str = PROBES,
        attribute: str = "Plugin",
    ) -> None:
        module = distribution.replace("-", "_")
        (self.folder / f"{module}.py").write_text(source)
        information = self.folder / f"{module}-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(
            f"[{group}]\n{name or distribution} = {module}:{attribute}\n"
        )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Site(tmp_path)
    for name in [file.stem for file in tmp_path.glob("*.py")]:
        sys.modules.pop(name, None)


def found(group: str = PROBES) -> dict[str, list[Found]]:
    """By name, without the built-in plugins."""
    by_name: dict[str, list[Found]] = {}
    for entry in discover(group):
        if not entry.value.startswith("jaxobs_plugins"):
            by_name.setdefault(entry.name, []).append(entry)
    return by_name


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import does_not_exist_at_all", "ModuleNotFoundError: No module named 'does_not_exist_at_all'"),
        ("raise RuntimeError('half of it')", "RuntimeError: half of it"),
        ("import sys; sys.exit(7)", "SystemExit: 7"),
        ("def broken(:", "SyntaxError"),
        ("Other = 1", "AttributeError"),
        ("Plugin = 5", "TypeError: 'int' object is not callable"),
        ("class Plugin:\n    def __init__(self):\n        raise OSError('no disk')", "OSError: no disk"),
        (
            "from jaxobs.plugin.base import Probe\nclass Plugin(Probe): ...",
            "TypeError: Can't instantiate abstract class Plugin",
        ),
        ("class Plugin:\n    metrics = ()", "Plugin is not derived from Probe: write `class Plugin(Probe)`"),
        (SOUND.replace("()\n", "[]\n", 1), "Plugin.metrics is not a tuple of Metric but [] (of type list)"),
        (SOUND.replace("()\n", "('acme_total',)\n", 1), "Plugin.metrics is not a tuple of Metric"),
        ("Plugin = dict", "dict is not derived from Probe"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_reported_and_the_others_load(
    site: Site, source: str, reason: str
) -> None:
    site.install("a-broken", source)
    site.install("b-sound", SOUND)
    entries = found()
    (broken,), (sound,) = entries["a-broken"], entries["b-sound"]
    assert broken.plugin is None
    assert broken.error.startswith(reason)
    assert broken.distribution == "a-broken 1.0"
    assert type(sound.plugin).__name__ == "Plugin"
    assert sound.error == ""
    assert any(entry.name == "compile" and not entry.error for entry in discover(PROBES))


def test_two_plugins_of_one_name_are_reported_and_the_first_is_used(site: Site) -> None:
    site.install("first-one", SOUND, name="twice")
    site.install("second-one", SOUND, name="twice")
    first, second = found()["twice"]
    assert (first.distribution, first.error) == ("first-one 1.0", "")
    assert second.plugin is None
    assert "named 'twice' already" in second.error


@pytest.mark.parametrize("distribution", ["aa-other", "zz-other"])
def test_a_third_party_does_not_displace_a_built_in_plugin(site: Site, distribution: str) -> None:
    site.install(distribution, SOUND, name="compile")
    own, other = (entry for entry in discover(PROBES) if entry.name == "compile")
    assert (own.error, own.value) == ("", "jaxobs_plugins.probes.compile.probe:CompileProbe")
    assert "named 'compile' already" in other.error
    assert other.source == f"compile ({distribution} 1.0)"


def test_a_probe_is_not_called_as_a_built_in_collector(site: Site) -> None:
    site.install("other-host", SOUND, name="host")
    (entry,) = found()["host"]
    assert entry.error == "a plugin of jaxobs itself is named 'host' already"
    assert all(entry.name != "host" or not entry.error for entry in discover(COLLECTORS))


@pytest.mark.parametrize(
    "source",
    ["import time; time.sleep(60)", SOUND + "    def __init__(self):\n        import time; time.sleep(60)"],
)
def test_a_plugin_whose_loading_hangs_is_left_out_and_the_others_load(site: Site, source: str) -> None:
    site.install("hangs", source)
    site.install("sound", SOUND)
    began = time.monotonic()
    entries = {entry.name: entry for entry in discover(PROBES, patience=0.3)}
    assert time.monotonic() - began < 5.0
    assert "has not returned for 0.3 s" in entries["hangs"].error
    assert entries["sound"].error == entries["compile"].error == ""


def test_one_distribution_seen_twice_on_the_path_is_one_plugin(
    site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site.install("seen-twice", SOUND)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "." / ".." / tmp_path.name)])
    assert len(found()["seen-twice"]) == 1


def test_ctrl_c_while_loading_reaches_the_user(site: Site) -> None:
    site.install("hangs", "import time; time.sleep(60)")
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            discover(PROBES)
    finally:
        signal.signal(signal.SIGALRM, handler)


def test_a_keyboard_interrupt_of_a_plugins_own_is_no_ctrl_c(site: Site) -> None:
    site.install("interrupted", "raise KeyboardInterrupt")
    assert found()["interrupted"][0].error.startswith("KeyboardInterrupt")


@pytest.mark.parametrize("interval", ["0", "-1.0", "'1'", "None"])
def test_a_collector_needs_a_positive_interval(site: Site, interval: str) -> None:
    source = (
        f"from jaxobs.plugin.base import Collector\nclass Plugin(Collector):\n    interval = {interval}\n"
    )
    source += "    def collect(self): return ()\n"
    site.install("collects", source, group=COLLECTORS)
    (entry,) = found(COLLECTORS)["collects"]
    assert "interval is not a positive number of seconds" in entry.error
