"""What a loop's profiler windows amount to, for the snapshot."""

from __future__ import annotations

from typing import Any

from jaxobs.derive.profiler_windows.loop_profile import LoopProfile

NOT_THEIR_WORK = "the host runs ahead of the device: the steps of a window are not those whose work it saw"


def profile_document(
    profile: LoopProfile | None, untraced_step: float | None, *, ahead: bool = False
) -> dict[str, Any] | None:
    """Seconds of one device in the steps that the windows held; `untraced_step` is a step's time outside them.

    `ahead`: the host runs ahead of the device.
    """
    if profile is None:
        return None
    labels = profile.labels()
    busy = profile.device_seconds
    traced = profile.active_seconds / profile.steps if profile.steps else None
    slowdown = traced / untraced_step if traced and untraced_step and not ahead else None
    no_slowdown = NOT_THEIR_WORK if ahead else "no step outside the windows is known of late"
    return {
        "windows": profile.windows,
        "seconds": profile.seconds,
        "steps": profile.steps,
        "busy_seconds": profile.busy_seconds,
        "gap_seconds": profile.gap_seconds,
        "idle_seconds": max(0.0, profile.seconds - busy),
        "communication_seconds": profile.communication_seconds,
        "exposed_communication_seconds": labels.get("communication", 0.0),
        "transfer_seconds": labels.get("transfer", 0.0),
        "seconds_by_bottleneck": labels,
        "unmodelled_ratio": labels.get("unmodelled", 0.0) / busy if busy > 0 else None,
        "unmodelled_ratio_reason": None if busy > 0 else "the device did nothing",
        "host_is_ahead": ahead,
        "slowdown": slowdown,
        "slowdown_reason": None if slowdown is not None else no_slowdown,
    }
