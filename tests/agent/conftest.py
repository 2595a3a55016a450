"""Agents that end with the test, and a folder for plugins on the path of both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.beside import install
from tests.agent.beside import AgentProcess


@pytest.fixture
def start_agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., AgentProcess]]:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    started: list[AgentProcess] = []

    def start(**settings: Any) -> AgentProcess:
        started.append(AgentProcess(**settings))
        return started[-1]

    yield start
    for agent in started:
        agent.close()


@pytest.fixture
def install_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`install_plugin(name, code, {group: "plugin = module:Class"})`."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))

    def add(name: str, code: str, entry_points: dict[str, str]) -> None:
        install(folder, name, code, entry_points)

    return add
