"""What is shown of a loop's profiler windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxobs.derive.profiler_windows.loop_profile import LoopProfile
from jaxobs.model.figure import Figure, figure

NOT_THEIR_WORK = "the host runs ahead of the device: the steps of a window are not those whose work it saw"


@dataclass(frozen=True, slots=True)
class ProfileView:
    """Seconds of one device in the steps that the windows held."""

    windows: int
    seconds: float
    steps: float
    busy_seconds: float
    gap_seconds: float
    idle_seconds: float
    communication_seconds: float
    exposed_communication_seconds: float
    transfer_seconds: float
    seconds_by_bottleneck: Mapping[str, float]
    unmodelled_ratio: Figure[float]
    host_is_ahead: bool
    slowdown: Figure[float]
    """The time of a step in the windows over that of a step outside them."""


def profile_view(profile: LoopProfile, untraced_step: float | None) -> ProfileView:
    """The view of a loop's windows; `untraced_step` is a step's time outside them, s, None where not known."""
    labels = profile.labels()
    busy, host_is_ahead = profile.device_seconds, profile.host_is_ahead
    traced = profile.active_seconds / profile.steps if profile.steps else None
    slowdown = traced / untraced_step if traced and untraced_step and not host_is_ahead else None
    no_slowdown = NOT_THEIR_WORK if host_is_ahead else "no step outside the windows is known of late"
    return ProfileView(
        profile.windows,
        profile.seconds,
        profile.steps,
        profile.busy_seconds,
        profile.gap_seconds,
        max(0.0, profile.seconds - busy),
        profile.communication_seconds,
        labels.get("communication", 0.0),
        labels.get("transfer", 0.0),
        labels,
        figure(labels.get("unmodelled", 0.0) / busy if busy > 0 else None, "the device did nothing"),
        host_is_ahead,
        figure(slowdown, no_slowdown),
    )
