"""How the run is going, its loops, and where a step of the chosen loop goes: bars of components, host lines, advice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from jaxobs.model.snapshot import main_thread_lines
from jaxobs.report.page.opening import facts, known_figures, run_name, why_absent, without_loops
from jaxobs.report.page.steps import parts_of_a_step
from jaxobs.report.page.view import View
from jaxobs.report.sentence import sentence
from jaxobs.report.terminal.spans import Line, Span, with_code
from jaxobs.report.text_table import cut
from jaxobs.vocabulary.units import count, duration, rough_percent
from jaxobs.vocabulary.words import COMPONENTS

_LEAST_SHARE: Final = 0.005
"""Share below which a part has no bar: it would round to 0 %."""

_LONGEST_BAR: Final = 60
"""Most columns of a bar: a longer one is no easier to read."""

_HOST_LINES: Final = 4
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def opening(view: View, problem: str | None) -> Iterator[Line]:
    """The facts, the sentence, and the problem in a line of its own where there is one."""
    if view.document:
        yield (
            Span(run_name(view.document), "strong"),
            *(Span(f" · {fact}", "quiet") for fact in facts(view.document)),
        )
        if view.loop is None:
            yield (Span(without_loops(view.document)),)
        else:
            yield tuple(
                Span(part.words, "strong" if part.strong else "")
                for part in sentence(view.document, view.loop)
            )
    if problem:
        yield (Span(problem, "bad"),)


def steps(view: View, width: int) -> Iterator[Line]:
    """A line for each loop, bars for the parts of a step of the chosen one, host lines, absent figures, and advice."""
    if view.loop is None:
        yield (Span(without_loops(view.document), "quiet"),)
        return
    for name in sorted(view.loops, key=lambda name: name != view.loop):
        shown = " · ".join(f"{title} {value}" for title, value in known_figures(view, name))
        steps_ended = f"{count(view.loops[name].get('steps') or 0)} steps"
        style = "strong" if name == view.loop else "quiet"
        figures = " · ".join(filter(None, (steps_ended, shown)))
        yield (Span(f"{name}  ", style), Span(figures, "" if name == view.loop else "quiet"))
        if name == view.loop:
            yield from bars(view, width)
            yield ()
    if lines := main_thread_lines(view.loops[view.loop])[:_HOST_LINES]:
        yield (Span("host lines  ", "strong"), Span(cut(" · ".join(lines), 3 * width)))
    yield from ((Span(reason, "quiet"),) for reason in why_absent(view))
    for piece in view.document.get("advice") or ():
        yield (
            Span("→ ", "strong"),
            *with_code(f"{piece.get('sentence')} "),
            *with_code(str(piece.get("remedy") or ""), "quiet"),
        )


def bars(view: View, width: int) -> Iterator[Line]:
    """A bar for each component of a step, in the order of the stack that the page draws."""
    parts, since = parts_of_a_step(view)
    seconds = sum(parts.values())
    if seconds <= 0:
        yield (Span("No step has ended yet.", "quiet"),)
        return
    names = max(map(len, COMPONENTS))
    room = max(8, min(_LONGEST_BAR, width - names - len("  100 %  999 ms") - 4))
    for name in [name for name in COMPONENTS if parts.get(name, 0.0) >= _LEAST_SHARE * seconds]:
        share = parts[name] / seconds
        figures = f"{rough_percent(share):>6}  {duration(parts[name]):>8}"
        yield (Span(f"{name:<{names}} ", ""), Span(bar(share, room), name), Span(figures))
    yield (Span(f"{duration(seconds)} a step {since}, all its parts together", "quiet"),)


def bar(share: float, width: int) -> str:
    """A bar of eighths of a column for a share from 0 to 1, filled up with spaces."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)
