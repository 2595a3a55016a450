"""No row of the table is without a test, and none points to one that is not there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.faults.rows import ROWS

TESTS = Path(__file__).parents[1]


def functions_of(file: Path) -> dict[str, ast.FunctionDef]:
    module = ast.parse(file.read_text())
    return {
        node.name: node
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def marked_rows(test: ast.FunctionDef) -> set[int]:
    """Those of `@pytest.mark.fault(…)`."""
    return {
        argument.value
        for mark in test.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fault"
        for argument in mark.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, int)
    }


HERE = {
    f"{file.name}::{name}": marked_rows(test)
    for file in sorted(Path(__file__).parent.glob("test_*.py"))
    for name, test in functions_of(file).items()
    if file != Path(__file__)
}


@pytest.mark.parametrize("number", ROWS)
def test_a_row_is_injected_here_or_points_to_tests_that_are_there(number: int) -> None:
    here = [name for name, rows in HERE.items() if number in rows]
    assert here or ROWS[number].elsewhere, f"nothing injects {number}: {ROWS[number].fault}"
    for pointed in ROWS[number].elsewhere:
        file, _, name = pointed.partition("::")
        test = functions_of(TESTS / file).get(name)
        assert test is not None, f"row {number} points to {pointed}, which is not there"
        marks = map(ast.unparse, test.decorator_list)
        assert "pytest.mark.long" not in marks, f"`make test` would leave out {pointed}, of row {number}"


@pytest.mark.parametrize("name", HERE)
def test_a_test_of_this_room_injects_a_row_of_the_table(name: str) -> None:
    assert HERE[name], f"{name} says of no row that it injects it"
    assert HERE[name] <= set(ROWS)


def test_the_rows_are_numbered_without_a_gap() -> None:
    assert list(ROWS) == list(range(1, len(ROWS) + 1))
