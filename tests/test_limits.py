"""The limits of `make lint` find what is beyond them, and their list of exceptions can only shrink."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).parent.parent / ".ci" / "limits.py"


@pytest.fixture(scope="module")
def limits() -> ModuleType:
    spec = importlib.util.spec_from_file_location("limits", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LONG = "def long(self, a, b, c, d, e, f, g, h):\n    'Says what it does.'\n" + "    a += 1\n" * 60
PRIVATE = '''
"""jax._src is named in a docstring, which looks nothing up."""
import jax._src.core
from jaxlib import _jax
module = sys.modules["jax._src.config"]
getattr(array, "_committed", False)
getattr(array, "committed", False)
getattr(array, "__len__", None)
'''
VIEW = """
from dataclasses import dataclass

from jaxobs.model.figure import Figure


@dataclass
class View:
    shown: Figure[int]

    @property
    def hidden(self) -> int:
        return 1


View(Figure(1))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "jaxobs" / "jax_compat").mkdir(parents=True)
    (tmp_path / "jaxobs" / "long.py").write_text(LONG)
    (tmp_path / "jaxobs" / "private.py").write_text(PRIVATE)
    (tmp_path / "jaxobs" / "jax_compat" / "names.py").write_text(PRIVATE)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_long.py").write_text("\n" * 501)
    (tmp_path / "jaxobs" / "dead.py").write_text(
        "'Of what nobody named.'\n\ndef dead(): pass\n\ndef alive(): pass\n\ndef named(): pass\n\nalive()\n"
    )
    (tmp_path / "jaxobs" / "view.py").write_text(VIEW)
    (tmp_path / "jaxobs" / "__init__.py").write_text("")
    (tmp_path / "pyproject.toml").write_text('[project.entry-points.group]\none = "jaxobs.dead:named"\n')
    return tmp_path


def test_what_is_beyond_a_limit_is_found_where_it_is(limits: ModuleType, tree: Path) -> None:
    found = limits.findings(tree, limits.unused_code)
    assert found["file-lines"] == {"tests/test_long.py": 501}
    assert found["function-lines"] == {"jaxobs/long.py:long": 61}  # without its docstring
    assert found["parameters"] == {"jaxobs/long.py:long": 8}  # without self
    assert found["private-jax"] == {"jaxobs/private.py": 3}
    assert found["docstring"] == {"jaxobs/dead.py:Of what nobody named": 1}
    assert "jaxobs/dead.py:dead" in found["unused"]
    assert "jaxobs/view.py:hidden" in found["unused"]
    used = {"jaxobs/dead.py:alive", "jaxobs/dead.py:named", "jaxobs/view.py:shown"}
    assert not used & found["unused"].keys()


def test_a_new_or_larger_one_fails_and_so_does_an_exception_that_is_not_needed(limits: ModuleType) -> None:
    found = {rule: dict[str, int]() for rule in limits.WHAT_TO_DO} | {
        "file-lines": {"a.py": 400, "b.py": 500}
    }
    assert limits.problems(found, {"file-lines": {"a.py": 400, "b.py": 500}}) == []
    (line,) = limits.problems(found, {"file-lines": {"a.py": 399, "b.py": 500}})
    assert line.startswith("a.py: 400. a file has at most 500 lines")
    (line,) = limits.problems(found, {"file-lines": {"a.py": 400, "b.py": 500, "c.py": 301}})
    assert line.startswith("c.py: the exception for file-lines is no longer needed")


def test_shrinking_adds_nothing_and_follows_what_was_moved(limits: ModuleType) -> None:
    found = {rule: dict[str, int]() for rule in limits.WHAT_TO_DO} | {
        "file-lines": {"new/a.py": 350, "b.py": 500, "new.py": 301},
        "parameters": {"b.py:f": 9},
    }
    allowed = {"file-lines": {"old/a.py": 400, "b.py": 450, "gone.py": 301}, "parameters": {"b.py:f": 9}}
    shrunk = limits.shrunk(found, allowed)
    assert shrunk["file-lines"] == {"new/a.py": 350, "b.py": 450}
    assert shrunk["parameters"] == {"b.py:f": 9}


def test_code_above_the_budget_fails(limits: ModuleType, tree: Path) -> None:
    folders = ("jaxobs",)
    lines = sum(limits.code_lines(text) for _, text in limits.python_files(tree, folders))
    assert limits.over_budget(tree, {"product": (folders, lines, 6)}) == []
    assert limits.over_budget(tree, {"product": (folders, lines - 1, 5)}) == [
        f"product: {lines} lines of code, and its budget in limits.py is {lines - 1}: make others smaller",
        "product: 6 files, and its budget in limits.py is 5: make others smaller",
    ]


def test_only_lines_of_code_are_counted(limits: ModuleType) -> None:
    code = '"""A module."""\n\nfrom a import (\n    b,\n)\n\nONE = 1  # counted\n"""One."""\n# not counted\n'
    assert limits.code_lines(code) == 1
    assert limits.code_lines('def f():\n    """Says\n    what."""\n    return """a\n    text"""\n') == 3


def test_the_list_as_it_is_written_is_read_again(limits: ModuleType) -> None:
    import tomllib

    found = {rule: dict[str, int]() for rule in limits.WHAT_TO_DO} | {"unused": {"a.py:f": 1}}
    assert tomllib.loads(limits.as_toml(found)) == found
