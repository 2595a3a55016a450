"""Charts of where the time went: a bar whose parts add up to a step, and a stack of shares over the last hour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from jaxobs.report.drawing.axes import Scale, band, bands, level, level_name, seconds_ago
from jaxobs.report.drawing.elements import Element, chart, stretched, tag
from jaxobs.vocabulary.units import duration, rough_percent
from jaxobs.vocabulary.words import COMPONENTS

_BAR: Final = 34
_HEIGHT: Final = 200
_TOP, _BOTTOM = 8, 176
_BANDS: Final = 60
_LEAST_SHARE: Final = 0.0005
"""Share below which a part is not drawn: it would be narrower than a pixel, and round to 0 %."""

_ROOM_FOR_A_NAME: Final = 0.14
"""Share of the width from which on a part's name fits into it on a phone."""


def shares_bar(parts: Mapping[str, float], width: str = "100%") -> Element | None:
    """A bar of `parts`, seconds by component, that fills the width; None where they add up to nothing."""
    whole = sum(parts.values())
    if whole <= 0:
        return None
    shares = {name: parts[name] / whole for name in _ordered(parts)}
    shapes: list[Element] = []
    start = 0.0
    for name, share in shares.items():
        if share >= _LEAST_SHARE:
            title = f"{name}: {duration(parts[name])}, {rough_percent(share)}"
            shapes.append(
                tag(
                    "svg",
                    tag("title", title),
                    tag("rect", class_=f"is-{name}", width="100%", height=_BAR),
                    tag("text", name, class_=f"on-{name}", x="8", y=_BAR / 2 + 4)
                    if share >= _ROOM_FOR_A_NAME
                    else None,
                    class_="mark part",
                    x=f"{100 * start:.3f}%",
                    width=f"{100 * share:.3f}%",
                    height=_BAR,
                )
            )
        start += share
    label = "; ".join(f"{name} {rough_percent(share)}" for name, share in shares.items() if share >= 0.005)
    return chart(_BAR, f"Where a step goes: {label}", *shapes, kind="bar", width=width)


def shares_over_time(
    edges: Sequence[float],
    shares: Mapping[str, Sequence[float]],
    span: float,
    marks: Sequence[tuple[float, str]],
) -> Element | None:
    """Shares of the time as a stack that adds up to 1; None where there is no stretch of time.

    Args:
        edges: Seconds, negative before now, ascending: where the stretches of time begin, and where the last one ends.
        shares: By component, its share of each stretch, 0 to 1.
        span: Seconds that the axis reaches back.
        marks: Time (seconds, negative before now) and text of events, drawn as ticks on top.
    """
    if len(edges) < 2:
        return None
    scale = Scale(-span, 0.0, 0.0, 100.0)
    shown = {name: shares[name] for name in _ordered(shares) if max(shares[name]) >= _LEAST_SHARE}
    across = [scale.at(max(-span, edge)) for edge in edges]
    events = [
        tag(
            "svg", tag("title", what), tag("path", d="M0 0 L4 -7 L-4 -7 Z"), class_="mark event",
            x=f"{scale.at(time):.2f}%", y=_TOP, overflow="visible",
        )
        for time, what in marks
        if time >= -span
    ]  # fmt: skip
    middle = (_TOP + _BOTTOM) / 2
    return chart(
        _HEIGHT,
        f"Where the time went, as parts of it over time: {', '.join(shown)}",
        stretched(_HEIGHT, *_areas(across, shown)),
        tag("line", class_="level", x1=f"{across[0]:.2f}%", y1=middle, x2="100%", y2=middle),
        level(_BOTTOM),
        *(level_name(text, y) for text, y in (("100 %", _TOP + 4), ("50 %", middle), ("0", _BOTTOM))),
        *_pointed_at(edges, across, shown),
        *events,
        *seconds_ago(scale, _HEIGHT - 6),
    )


def _ordered(names: Mapping[str, object]) -> list[str]:
    known = [name for name in COMPONENTS if name in names]
    return known + sorted(set(names) - set(known))


def _areas(across: Sequence[float], layers: Mapping[str, Sequence[float]]) -> Iterator[Element]:
    """Areas of the layers, each on top of those before it, and level within a stretch, as no more is known of it."""
    stretches = list(pairwise(f"{x:.2f}" for x in across))
    below = [0.0] * len(stretches)
    lower = _steps(stretches, below)
    for name, layer in layers.items():
        above = [low + share for low, share in zip(below, layer, strict=True)]
        upper = _steps(stretches, above)
        yield tag("polygon", class_=f"area is-{name}", points=" ".join([*upper, *reversed(lower)]))
        below, lower = above, upper


def _steps(stretches: Sequence[tuple[str, str]], heights: Sequence[float]) -> list[str]:
    ups = Scale(0.0, 1.0, _BOTTOM, _TOP).all_at(min(1.0, height) for height in heights)
    return [f"{x},{up:.1f}" for (start, end), up in zip(stretches, ups, strict=True) for x in (start, end)]


def _pointed_at(
    edges: Sequence[float], across: Sequence[float], shares: Mapping[str, Sequence[float]]
) -> Iterator[Element]:
    middles = [(start + end) / 2 for start, end in pairwise(across)]
    for index, start, end in bands(middles, _BANDS, across[0], across[-1]):
        parts = sorted(((values[index], name) for name, values in shares.items()), reverse=True)
        lines = [f"{name} {rough_percent(share)}" for share, name in parts if share >= 0.005]
        yield band("\n".join([f"{duration(-edges[index + 1])} ago", *lines]), start, end, _TOP, _BOTTOM)
