"""Who a process is, as a metric's labels and as a span's attributes."""

from __future__ import annotations

from collections.abc import Mapping

from jaxobs.model.events import Attributes

_LABELS = ("jaxobs.run", "jaxobs.attempt", "jax.process_index", "host.name", "process.owner")


def run_labels(resource: Mapping[str, str]) -> tuple[str, ...]:
    """Labels of `jaxobs_run_info`: run, attempt, rank, host, user; empty where the resource does not say."""
    return tuple(resource.get(name, "") for name in _LABELS)


def run_attributes(
    resource: Mapping[str, str], steps: int, goodput: float | None, *, by_itself: bool
) -> Attributes:
    """Attributes of the span of the whole run; `by_itself` is false where it died without a word."""
    known: Attributes = tuple((name, resource[name]) for name in _LABELS[:3] if name in resource)
    known += (("jax.run.steps", steps), ("jax.run.ended", "by itself" if by_itself else "killed"))
    return known if goodput is None else (*known, ("jax.run.goodput", goodput))
