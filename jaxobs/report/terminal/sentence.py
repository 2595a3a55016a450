"""The top of the view: which process it is, how it goes in a sentence, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxobs.report.page.opening import without_loops
from jaxobs.report.page.view import View
from jaxobs.report.sentence import sentence
from jaxobs.report.terminal.spans import Line, Span


def opening(view: View, facts: Sequence[str], run: str, problem: str | None) -> Iterator[Line]:
    """The facts, the sentence, and the problem in a line of its own where there is one."""
    if view.document:
        yield (Span(run, "strong"), *((Span(f" · {' · '.join(facts)}", "quiet"),) if facts else ()))
        if view.loop is None:
            yield (Span(without_loops(view.document)),)
        else:
            yield tuple(
                Span(part.words, "strong" if part.strong else "")
                for part in sentence(view.document, view.loop)
            )
    if problem:
        yield (Span(problem, "bad"),)
