"""What the main thread was seen to do: the vocabulary of `MainThreadSampled`, for the probe and for what is derived."""

from __future__ import annotations

from typing import Final

PROCESSOR: Final = "processor"
"""It ran Python, or native code that is no call of JAX's."""
INPUT: Final = "input"
"""It ran or waited below an iterator of data, which no mark of the user's covers."""
MARKED_INPUT: Final = "marked_input"
"""It was below the iterator of `obs.steps()`, whose wait the marks measure exactly."""
DEVICE: Final = "device"
"""It waited for a device: for a result, or for room in the queue of a dispatch."""
DISPATCH: Final = "dispatch"
"""It was on a processor inside a call of JAX's: the host's work, or on a CPU the device's own, run within the call."""
CALLBACK: Final = "callback"
"""It was in a function of the user's that a program on the device had called, which waits for it."""
COMPILE: Final = "compile"
"""JAX traced, lowered or compiled."""
WAITING: Final = "waiting"
"""It was on no processor, and what it waited for is not known."""
UNKNOWN: Final = "unknown"
"""The system does not tell whether it was on a processor, or it is not known whose call it was in."""

ACTIVITIES: Final = (PROCESSOR, INPUT, MARKED_INPUT, DEVICE, DISPATCH, CALLBACK, COMPILE, WAITING, UNKNOWN)
