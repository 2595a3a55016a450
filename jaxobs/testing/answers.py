"""What a plugin's methods answer, compared with what they should: each fault in words, with what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from jaxobs.model.events import Measured
from jaxobs.model.metrics import Metric
from jaxobs.plugin.conformance import shown
from jaxobs.plugin.guard import described

Item = TypeVar("Item")


def raised(call: str, advice: str, function: Callable[..., object], *arguments: object) -> None:
    """Call a method that must not raise; `call` is how it is written, `advice` what to do where it did."""
    try:
        function(*arguments)
    except Exception as error:
        raise AssertionError(f"{call} raised {described(error)}, and must not: {advice}") from error


def answered(
    call: str, function: Callable[[], Iterable[Item]], expected: str, kind: type[Item]
) -> list[Item]:
    """What a method that returns several things of one kind returned, each of that kind."""
    try:
        answer: Any = function()
    except Exception as error:
        raise AssertionError(f"{call} raised {described(error)}, and must return {expected}") from error
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise AssertionError(  # noqa: TRY004  # as every check does
            f"{call} returned {shown(answer)}, and must return {expected}: an empty one for nothing"
        )
    try:
        items = list(answer)
    except Exception as error:
        raise AssertionError(f"{call} raised {described(error)}, and must return {expected}") from error
    for item in items:
        assert isinstance(item, kind), (
            f"{call} returned {shown(item)} among others, and must return {expected}"
        )
    return items


def declared(who: str, events: Iterable[Any], metrics: Iterable[Metric]) -> None:
    """Every `Measured` among the events is of a declared metric and has its labels and a number."""
    known = {metric.name: metric for metric in metrics}
    for event in events:
        if not isinstance(event, Measured):
            continue
        metric = known.get(event.metric)
        assert metric is not None, (
            f"{who}: metric {event.metric} was emitted and not declared: add it to `metrics` "
            f"(declared: {', '.join(known) or 'none'})"
        )
        fits = len(event.labels) == len(metric.labels)
        assert fits and all(isinstance(value, str) for value in event.labels), (  # noqa: PT018  # one fault
            f"{who}: {metric.name} was emitted with the labels {event.labels!r}, and has the labels {metric.labels}: "
            "give a text for each, in that order"
        )
        assert isinstance(event.value, int | float), (
            f"{who}: {metric.name} was emitted with the value {shown(event.value)}, and must be a number: "
            "what is not known is not emitted"
        )
