"""`make lint`: limits on files, functions, parameters and docstrings; nothing unused; private names of JAX; a budget.

The budget holds the sum of the code, so that what is added is paid for by what is deleted. A number of it may be lowered
by anyone, and raised only in the commit of an issue that asks for more.

Today's exceptions stand in `limits.toml` beside this file. A new one fails, and so does one that is larger than it
stands there or no longer needed: the list may only shrink. `--shrink` writes it anew without what is no longer needed,
and follows what was moved to another folder.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LIST = Path(__file__).with_name("limits.toml")

FILE_LINES = 500
"""A file is a subject, mostly of 100 to 400 lines; above this it has to say why, in the list of exceptions."""
FUNCTION_LINES = 50
"""Without the docstring."""
PARAMETERS = 7
"""Without `self`: more are hard to tell apart where a function is called."""

SOURCES = ("jaxobs", "plugins")
BUDGET = {"product": (SOURCES, 29_368, 294), "benchmarks": (("benchmarks",), 4_209, 70)}
"""By part: its folders, the most lines of code in them, and the most files."""

ALL = (*SOURCES, "grafana", "benchmarks", "tests")
USERS = (*SOURCES, "grafana", "docs", "benchmarks", "tests/example_plugin")
"""Where code is used: what its own tests alone use is unused."""

JAX_ROOM = "jaxobs/jax_compat/"
PRIVATE_MODULE = re.compile(r"\bjax\._src\b|\bjaxlib\.(_jax|xla_extension)\b|/_src/")
PRIVATE_NAME = re.compile(r"_(?!fields$)[a-zA-Z]\w*")  # `_fields` is how a named tuple is told
CALLED_BY_TEXTUAL = (
    "compose", "on_mount", "on_resize", "on_data_table_*", "action_*", "BINDINGS", "CSS_PATH",
    "ENABLE_COMMAND_PALETTE", "animation_level", "border_title", "border_subtitle",
)  # fmt: skip
"""Names by which it finds what its widgets do, and attributes that it reads."""
CALLED_BY_OTHERS = ("pytest_*", "no_recompiles")
"""Hooks by which pytest calls a plugin, and what scripts alone call."""

NO_SUBJECT = re.compile(r"(Of|Those|As|The same|Whether it was)\b")
"""A docstring that begins so is understood only by who has read the one before it."""

LOOK_UPS = ("getattr", "hasattr", "attrgetter", "setattr", "delattr")

Found = dict[str, dict[str, int]]
"""By rule, how much there is at each place."""

WHAT_TO_DO = {
    "file-lines": f"a file has at most {FILE_LINES} lines: give a part of it a file of its own",
    "function-lines": f"a function has at most {FUNCTION_LINES} lines beside its docstring: name its parts",
    "parameters": f"a function has at most {PARAMETERS} parameters: give those that belong together as one",
    "private-jax": f"private names of JAX, in strings too, live in {JAX_ROOM}",
    "docstring": "a docstring names its subject first: what the thing is or does",
    "unused": "nothing uses it: delete it",
}


def python_files(root: Path, folders: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Path below the root, and text."""
    for folder in folders:
        for file in sorted((root / folder).rglob("*.py")):
            yield file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")


def findings(root: Path, unused: Callable[[Path], dict[str, int]]) -> Found:
    """All that is beyond the limits, exception or not."""
    found: Found = {rule: {} for rule in WHAT_TO_DO}
    for path, text in python_files(root, ALL):
        if (count := len(text.splitlines())) > FILE_LINES:
            found["file-lines"][path] = count
    for path, text in python_files(root, SOURCES):
        tree = ast.parse(text)
        for name, function in functions(tree):
            place = f"{path}:{name}"
            if (count := body_lines(function)) > FUNCTION_LINES:
                found["function-lines"][place] = count
            if (count := parameters(function)) > PARAMETERS:
                found["parameters"][place] = count
        found["docstring"] |= {
            f"{path}:{text.split('.')[0]}": 1 for text in docstrings(tree) if NO_SUBJECT.match(text)
        }
        if not path.startswith(JAX_ROOM) and (count := private_jax_names(tree)):
            found["private-jax"][path] = count
    found["unused"] = unused(root)
    return found


def functions(
    tree: ast.AST, within: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function with its qualified name."""
    for node in ast.iter_child_nodes(tree):
        name = within
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{within}.{node.name}" if within else node.name
            if not isinstance(node, ast.ClassDef):
                yield name, node
        yield from functions(node, name)


def docstrings(tree: ast.AST) -> Iterator[str]:
    """The docstrings of a module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the end, without the docstring."""
    first = function.body[0]
    told = ast.get_docstring(function) is not None
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if told else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Without `self` and `cls`, `*args` and `**kwargs`."""
    taken = function.args
    names = [argument.arg for argument in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def code_lines(text: str) -> int:
    """Lines without blank ones, comments, imports and docstrings, those that follow an attribute too."""
    tree = ast.parse(text)
    left_out: set[int] = set()
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Import | ast.ImportFrom) or (is_text and isinstance(node.value.value, str)):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        1
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.strip().startswith("#") and number not in left_out
    )


def over_budget(root: Path, budget: Mapping[str, tuple[tuple[str, ...], int, int]]) -> list[str]:
    """What each part has more than its budget."""
    said = []
    for part, (folders, max_lines, max_files) in budget.items():
        counts = [code_lines(text) for _, text in python_files(root, folders)]
        for count, allowed, unit in (
            (sum(counts), max_lines, "lines of code"),
            (len(counts), max_files, "files"),
        ):
            if count > allowed:
                said.append(
                    f"{part}: {count} {unit}, and its budget in limits.py is {allowed}: make others smaller"
                )
    return said


def private_jax_names(tree: ast.AST) -> int:
    """Imports and strings that name a private module of JAX, and private names that are looked up as strings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            count += bool(PRIVATE_MODULE.search(node.module or ""))
        elif isinstance(node, ast.Import):
            count += sum(bool(PRIVATE_MODULE.search(alias.name)) for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            count += bool(PRIVATE_MODULE.search(node.value))
        elif isinstance(node, ast.Call) and called(node) in LOOK_UPS:
            texts = [each.value for each in node.args if isinstance(each, ast.Constant)]
            count += any(isinstance(text, str) and PRIVATE_NAME.fullmatch(text) for text in texts)
    return count


def strings(tree: ast.AST) -> set[str]:
    """All texts in the code that could be names."""
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str) and value.isidentifier()}


def figures(tree: ast.Module) -> set[str]:
    """Fields of the classes in a module of views, which are written into the document without being named."""
    imports = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
    if "jaxobs.model.figure" not in imports:
        return set()
    fields = (
        field for view in tree.body if isinstance(view, ast.ClassDef) for field in view.body
        if isinstance(field, ast.AnnAssign)
    )  # fmt: skip
    return {field.target.id for field in fields if isinstance(field.target, ast.Name)}


def called(node: ast.Call) -> str:
    """The name of the function that is called, without what it belongs to."""
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def members(tree: ast.AST) -> set[str]:
    """The members of enumerations: who goes through all of them names none."""
    enumerations = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in node.bases)
    )
    assigned = (part for node in enumerations for part in node.body if isinstance(part, ast.Assign))
    return {target.id for part in assigned for target in part.targets if isinstance(target, ast.Name)}


def unused_code(root: Path) -> dict[str, int]:
    """What vulture finds in the sources, each once.

    What an entry point names is used, and so is what is looked up by its name as a string, as settings are, and what a
    view shows.
    """
    from vulture import Vulture

    points: Mapping[str, Mapping[str, str]] = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))[
        "project"
    ]["entry-points"]
    named = {value.partition(":")[2] for group in points.values() for value in group.values()}
    trees = [ast.parse(source) for _, source in python_files(root, SOURCES)]
    named |= {name for tree in trees for name in strings(tree) | figures(tree) | members(tree)}
    vulture = Vulture(
        ignore_names=["__*__", "model_config", *CALLED_BY_TEXTUAL, *CALLED_BY_OTHERS],
        ignore_decorators=["@field_validator*", "@pytest.fixture"],
    )
    vulture.scavenge([str(root / folder) for folder in USERS if (root / folder).exists()])
    found = {}
    for item in vulture.get_unused_code(min_confidence=60):
        path = Path(item.filename).resolve().relative_to(root.resolve()).as_posix()
        if path.startswith(SOURCES) and item.name not in named:
            found[f"{path}:{item.name}"] = 1
    return found


def problems(found: Found, allowed: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What is new or larger than allowed, and what is allowed for nothing."""
    said = []
    for rule, advice in WHAT_TO_DO.items():
        places, known = found[rule], allowed.get(rule, {})
        said += [
            f"{place}: {count}. {advice}" for place, count in places.items() if count > known.get(place, 0)
        ]
        said += [
            f"{place}: the exception for {rule} is no longer needed: `python .ci/limits.py --shrink`"
            for place in known
            if place not in places
        ]
    return said


def shrunk(found: Found, allowed: Mapping[str, Mapping[str, int]]) -> Found:
    """What is allowed and still needed, each as small as it is by now; nothing new, but what was moved."""
    kept: Found = {}
    for rule in WHAT_TO_DO:
        known = {place.rpartition("/")[2]: count for place, count in allowed.get(rule, {}).items()}
        kept[rule] = {
            place: min(count, known[name])
            for place, count in found[rule].items()
            if (name := place.rpartition("/")[2]) in known
        }
    return kept


def as_toml(found: Found) -> str:
    """The list as a file."""
    lines = ["# Exceptions from the limits in limits.py, which may only shrink.", ""]
    for rule, places in found.items():
        lines += [f"[{rule}]", *(f'"{place}" = {count}' for place, count in sorted(places.items())), ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """1 if something is beyond the limits or the budget, or an exception is not needed."""
    found = findings(ROOT, unused_code)
    allowed: dict[str, Any] = tomllib.loads(LIST.read_text("utf-8"))
    if arguments == ["--shrink"]:
        allowed = shrunk(found, allowed)
        LIST.write_text(as_toml(allowed), encoding="utf-8")
    said = [*problems(found, allowed), *over_budget(ROOT, BUDGET)]
    for line in said:
        print(line, file=sys.stderr)
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
