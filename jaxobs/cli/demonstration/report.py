"""The demo's texts: where to look while it trains, and afterwards what was observed."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from jaxobs.cli.demonstration.model import Size
from jaxobs.cli.demonstration.text import Text
from jaxobs.cli.demonstration.training import Outcome
from jaxobs.report.summary import render

LAST_STEPS = 10
"""Steps over which the loss at the end is averaged, because one batch of a thousand bytes says little."""


def headline(text: Text, size: Size, seconds: float) -> str:
    """A line on the model to train and its data."""
    return (
        f"training a transformer ({size.layers} layers of width {size.width}, {size.dtype}, "
        f"{size.tokens:,} tokens a step) for {seconds:g} s on {len(text.training) / 1e6:.1f} MB of the "
        f"sources and documentation of Python {platform.python_version()} ({text.files} files)"
    )


def where_to_look(address: str) -> str:
    """Lines on how to read the metrics while the demo runs."""
    target = urlsplit(address)
    scrape = f'[{{job_name: jax, scrape_interval: 5s, static_configs: [{{targets: ["{target.netloc}"]}}]}}]'
    return "\n".join(
        (
            f"metrics: {address}",
            f"  look:       curl -s {address} | grep -E 'jaxobs_(steps|mfu|bottleneck)'",
            f"  Prometheus: scrape_configs: {scrape}",
        )
    )


def why_nothing_is_served(document: Mapping[str, Any]) -> str:
    """A line on why there is no address, from the snapshot."""
    process = document.get("process") or {}
    reason = process.get("address_reason") or document.get("process_reason")
    return f"no metrics are served: {reason or 'the agent did not say why'}"


def losses(outcome: Outcome) -> dict[str, dict[str, float | None]]:
    """First and last loss, of training and of the held-out text; None where there is none, or it is not finite."""
    last = outcome.losses[-LAST_STEPS:]
    pairs = {
        "loss": (outcome.losses[:1], [math.fsum(last) / len(last)] if last else []),
        "held_out_loss": (outcome.held_out[:1], outcome.held_out[-1:]),
    }
    return {name: {"first": _number(first), "last": _number(final)} for name, (first, final) in pairs.items()}


def as_json(document: Mapping[str, Any], outcome: Outcome, size: Size) -> str:
    """The snapshot's document as JSON, with the figures of the training under `demo`."""
    demo = {
        **losses(outcome),
        "steps": len(outcome.losses),
        "evaluations": len(outcome.held_out),
        "parameters": outcome.parameters,
        "tokens_per_step": size.tokens,
        "seconds": outcome.seconds,
        "interrupted": outcome.interrupted,
    }
    return json.dumps({**document, "demo": demo}, indent=1, allow_nan=False)


def as_text(document: Mapping[str, Any], outcome: Outcome, *, width: int, bold: bool) -> str:
    """The losses and the summary of the snapshot as text."""
    shown = {
        name: " → ".join("–" if value is None else f"{value:.3f}" for value in pair.values())
        for name, pair in losses(outcome).items()
    }
    ended = "interrupted after" if outcome.interrupted else "trained"
    return "\n".join(
        (
            (
                f"{ended} {len(outcome.losses)} steps in {outcome.seconds:.1f} s, "
                f"{outcome.parameters / 1e6:.3g} million parameters"
            ),
            (
                f"loss {shown['loss']} nats a byte (all bytes alike: {math.log(256):.3f}), "
                f"on files held out {shown['held_out_loss']}"
            ),
            "",
            render(document, width=width, bold=bold),
        )
    )


def _number(values: list[float]) -> float | None:
    return values[0] if values and math.isfinite(values[0]) else None
