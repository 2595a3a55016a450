"""What is shown of a loop's profiler windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxobs.derive.profiler_windows.loop_profile import LoopProfile
from jaxobs.model.figure import Figure, figure


@dataclass(frozen=True, slots=True)
class ProfileView:
    """Seconds of one device in the steps that the windows held."""

    windows: int
    seconds: float
    steps: float
    busy_seconds: float
    gap_seconds: float
    communication_seconds: float
    seconds_by_bottleneck: Mapping[str, float]
    unmodelled_ratio: Figure[float]
    host_is_ahead: bool


def profile_view(profile: LoopProfile) -> ProfileView:
    """The view of a loop's windows."""
    labels, busy = profile.labels(), profile.device_seconds
    return ProfileView(
        profile.windows,
        profile.seconds,
        profile.steps,
        profile.busy_seconds,
        profile.gap_seconds,
        profile.communication_seconds,
        labels,
        figure(labels.get("unmodelled", 0.0) / busy if busy > 0 else None, "the device did nothing"),
        profile.host_is_ahead,
    )
