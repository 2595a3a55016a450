"""What the programs that know a truth share: how some of them are chosen, and runs of which nothing is known."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import pytest

from benchmarks.labels import unknown
from benchmarks.observed import Run
from benchmarks.truths import chosen
from benchmarks.untrue import highest_rate

COMMANDS = (
    "accuracy.__main__", "comparisons", "compiles_explained", "costs.__main__", "gpu_check.__main__",
    "labels", "untrue",
)  # fmt: skip


@pytest.mark.parametrize("command", [*(f"benchmarks.{name}" for name in COMMANDS), "tests.programs.__main__"])
def test_a_name_that_no_case_has_ends_the_command_and_the_names_are_told(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [command, "--only", "no_such_case"])
    for name in (
        "XLA_FLAGS",
        "JAX_PLATFORMS",
    ):  # which some set as they are imported: the tests after this have their own
        monkeypatch.setenv(name, os.environ.get(name, ""))
    with pytest.raises(SystemExit, match="there is no no_such_case; there are "):
        importlib.import_module(command).main()


def test_cases_are_chosen_by_their_names_in_their_own_order_and_all_without_one() -> None:
    cases = [("loop", 1), ("queue", 2), ("loop", 3)]
    assert chosen("queue,loop", cases) == chosen(None, cases) == [1, 2, 3]
    assert chosen("loop", cases) == [1, 3]


@pytest.mark.parametrize("documents", [[], [[{"loops": None}]]])
def test_a_run_of_which_nothing_was_delivered_has_figures_that_are_absent(documents: Any) -> None:
    run = Run(0, '{"truth": {"step_seconds": 0.1}}', "", 1.0, documents)
    assert highest_rate(run).verdict == "absent"
    assert unknown(run).verdict == ("right" if documents else "absent")
