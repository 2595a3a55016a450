"""Queries, configuration and data in README and docs are read by the programs that they are for."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.documentation.fences import ROOT, Fence, fences

CHECKED = {"python", "sh", "promql", "yaml", "toml"}
NOT_CHECKED = {
    "text": "output, or a drawing in letters",
    "{toctree}": "Sphinx reads it: `make docs`",
    "{include}": "Sphinx reads it: `make docs`",
    "{eval-rst}": "Sphinx reads it: `make docs`",
}


def test_every_snippet_says_what_it_is() -> None:
    unknown = [str(fence) for fence in fences() if fence.language not in CHECKED | set(NOT_CHECKED)]
    assert unknown == []


def test_prometheus_understands_every_query(promtool: Path, tmp_path: Path) -> None:
    queries = fences("promql")
    assert len(queries) >= 10
    rules = [
        {"record": "documented:query", "labels": {"at": str(fence)}, "expr": fence.text} for fence in queries
    ]
    file = tmp_path / "rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "documentation", "rules": rules}]}))
    done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_query_asks_for_metrics_that_there_are() -> None:
    declared = re.findall(r"^### `(\w+)`", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE)
    known = {name + suffix for name in declared for suffix in ("", "_bucket", "_count", "_sum")}
    asked = {name for fence in fences("promql") for name in re.findall(r"\bjaxobs_\w+", fence.text)}
    assert asked - known == set()


@pytest.mark.parametrize("fence", fences("yaml"), ids=str)
def test_a_yaml_snippet_is_read_as_what_it_is_for(fence: Fence, promtool: Path, tmp_path: Path) -> None:
    found = yaml.safe_load(fence.text)
    if isinstance(found, list) and all("job_name" in job for job in found):
        found = {"scrape_configs": found}
    if not isinstance(found, dict) or not set(found) & {
        "scrape_configs",
        "global",
        "remote_write",
        "rule_files",
    }:
        assert found
        return
    text = yaml.safe_dump(found | {"rule_files": []})
    for path in re.findall(r"/etc/jaxobs/[\w.]+", text):  # files that are the reader's
        (tmp_path / Path(path).name).write_text("")
        text = text.replace(path, str(tmp_path / Path(path).name))
    file = tmp_path / "prometheus.yml"
    file.write_text(text)
    done = subprocess.run([promtool, "check", "config", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("fence", fences("toml"), ids=str)
def test_a_toml_snippet_is_toml(fence: Fence) -> None:
    assert tomllib.loads(fence.text)
