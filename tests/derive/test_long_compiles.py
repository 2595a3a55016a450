"""Why a compile took long, in the snapshot, on the page and in the summary: of long ones alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jaxobs.derive.compiles import NOT_LONG
from jaxobs.derive.fold import Fold
from jaxobs.model.contents import LONG_COMPILE, Constant, Contents, Unrolled
from jaxobs.model.cost import NOT_ANALYSED, ModuleCost
from jaxobs.model.events import Compilation
from jaxobs.model.figure import Figure
from jaxobs.report.compile_explained import long_compiles
from jaxobs.report.page import page
from jaxobs.report.summary import render
from jaxobs.report.view import View
from jaxobs.vocabulary.text import EAGER
from tests.derive.made_up import applied, at, created, module, new_fold, unexplained
from tests.report.markup_reading import Read

UNROLLED = Unrolled(300, 8, 0.96, "/home/ada/train.py:12", "loss", "", "/home/ada/train.py:40")
TABLE = Constant("float32", (1024, 51200), 200.0 * 2**20, "/home/ada/train.py:9")
CONTENTS = Contents(Figure(2_500), Figure(UNROLLED), (TABLE,), Figure(12))
NOTHING = Contents(Figure(2_500), Figure(None, "no unrolled loop has 25 % of it"), (), Figure(0))


def compiled(
    trace: float = 1.0, backend: float = 10.0, *, number: int = 1, function: str = "step", read: float = 0.0
) -> Compilation:
    middle, end = 1.0 + trace, 1.0 + trace + backend
    phases: tuple[tuple[str, int, int], ...] = (
        ("trace", at(1.0), at(middle)),
        ("lower", at(middle), at(middle)),
        ("backend", at(middle), at(end)),
    )
    phases += (("cache_read", at(middle), at(middle + read)),) if read else ()
    return Compilation(function, number, 1, at(end), phases, "hit" if read else "off", None, (), None)


def holds(contents: Contents | None) -> ModuleCost:
    return replace(module(), contents=contents)


def folded(*events: Any) -> Fold:
    return applied(new_fold(), events)


def document(fold: Fold) -> dict[str, Any]:
    found = dict(fold.snapshot(at(60)).to_dict())
    assert unexplained(found) == []
    return found


def test_a_long_compile_is_explained_once_its_module_was_read() -> None:
    fold = folded(compiled(), created(1, "step"))
    unread = document(fold)["functions"]["step"]["long_compile"]
    assert (unread["contents"], unread["contents_reason"]) == (None, NOT_ANALYSED)
    fold.analysed(1, holds(CONTENTS))
    found = document(fold)["functions"]["step"]["long_compile"]
    assert (found["whole_seconds"], found["persistent_cache"]) == (11.0, "off")
    assert found["seconds"] == {"trace": 1.0, "lower": 0.0, "backend": 10.0}
    assert found["contents"]["unrolled"]["times"] == 300
    assert found["contents"]["constants"][0]["shape"] == [1024, 51200]


@pytest.mark.parametrize(
    "events",
    [
        (compiled(1.0, LONG_COMPILE - 1.0), created(1, "step")),
        (compiled(function=EAGER), created(1, EAGER)),
    ],
    ids=["short", "eager"],
)
def test_other_compiles_are_not_explained(events: tuple[Any, ...]) -> None:
    fold = folded(*events)
    fold.analysed(1, holds(CONTENTS))
    found = document(fold)
    for function in found["functions"].values():
        assert (function["long_compile"], function["long_compile_reason"]) == (None, NOT_LONG)
    assert list(long_compiles(found)) == []


def test_of_several_the_longest_is_explained_whatever_is_read_first() -> None:
    fold = folded(
        compiled(backend=9.0), compiled(backend=20.0, number=2), compiled(backend=7.0, number=3),
        *(created(number, "step") for number in (1, 2, 3)),
    )  # fmt: skip
    for number in (3, 2, 1):
        fold.analysed(number, holds(CONTENTS if number == 2 else NOTHING))
    found = document(fold)["functions"]["step"]["long_compile"]
    assert (found["executable"], found["whole_seconds"]) == (2, 21.0)
    assert found["contents"]["unrolled"] is not None


@pytest.mark.parametrize("by_agent", [False, True])
def test_a_module_that_was_not_read_is_a_reason(by_agent: bool) -> None:
    fold = folded(compiled(), created(1, "step", proto=b"x" if by_agent else None))
    if by_agent:
        fold.analysed(1, None, "its module could not be read: cut off")
    reason = document(fold)["functions"]["step"]["long_compile"]["contents_reason"]
    assert reason == (
        "its module could not be read: cut off" if by_agent else "the module has 9 bytes, more than 8"
    )
    ((said, todo),) = long_compiles(document(fold))
    assert reason in said
    assert todo == []


def test_page_and_summary_say_what_made_it_long_and_what_to_do() -> None:
    fold = folded(compiled(), created(1, "step"))
    fold.analysed(1, holds(CONTENTS))
    found = document(fold)
    text = " ".join(render(found).split())
    shown = " ".join(Read(page(View(found))).text.split())
    for said in (
        (
            "step took 11 s to compile: trace 1 s, backend 10 s; persistent cache: off; instructions: 2,500; "
            "96 % of the instructions are the same 8 operations 300 times, of train.py:12 loss, called at "
            "train.py:40; captured constants: float32[1024,51200] (200 MiB) used at train.py:9; "
            "autotuning chooses the kernels of 12 operations, equal ones together."
        ),
        "96 % of the instructions of a program that took 10 s to lower and compile",
        "jax.lax.scan",
        "200 MiB of a program that took 10 s to lower and compile: pass captured arrays as arguments",
    ):
        assert said in text
        assert said in shown


def test_a_long_trace_leads_to_its_lines_and_reading_the_cache_is_no_compiling() -> None:
    fold = folded(compiled(trace=9.0, backend=2.0, read=1.5), created(1, "step"))
    fold.analysed(1, holds(NOTHING))
    ((said, todo),) = long_compiles(document(fold))
    assert "trace 9 s, backend 500 ms, cache read 1.5 s; persistent cache: hit" in said
    assert [piece for piece in todo if "explain_compile" in piece] == todo
    assert len(todo) == 1


def test_those_that_took_longest_come_first() -> None:
    fold = folded(compiled(function="f"), compiled(backend=30.0, number=2, function="g"))
    assert [said.split()[0] for said, _ in long_compiles(document(fold))] == ["`g`", "`f`"]
