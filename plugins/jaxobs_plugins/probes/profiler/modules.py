"""Decides which windows carry the modules of the job's executables: the profiler adds all of them to a trace, or none.

The agent keeps the modules that it has decoded, so one window after each compile, and one for each agent, is enough.
A job of many large modules would otherwise spend its windows on writing them out again and again (1 000 instructions:
0.5 MB and 20 ms of `stop()`).
"""

from __future__ import annotations

from jaxobs.plugin.protocol import Progress

AGAIN_SECONDS = 1800.0
"""Seconds after which modules are sent again, because the agent may have forgotten some by then."""

PART_OF_MAXIMUM = 0.5
"""Part of the largest trace allowed that modules may fill; where they are larger,
operations have times but no costs."""


class ModulesInTraces:
    """Remembers when the modules were last sent. Times are seconds of the monotonic clock."""

    def __init__(self, maximum_bytes: int) -> None:
        self._most = PART_OF_MAXIMUM * maximum_bytes
        self._given: tuple[int | None, int] | None = None
        self._given_at: float | None = None

    def wanted(self, progress: Progress, at: float, *, kept: bool) -> bool:
        """Whether the next window should carry the modules; one `kept` for XProf always does, where they fit."""
        if progress.module_bytes > self._most:
            return False
        if kept or self._given_at is None or self._given != (progress.compiled, progress.agents):
            return True
        return at - self._given_at > AGAIN_SECONDS

    def given(self, progress: Progress, at: float) -> None:
        """Note that the modules were sent to the agent."""
        self._given, self._given_at = (progress.compiled, progress.agents), at
