"""What a plugin under test is given in place of the job and the agent: each keeps what it was told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any, TypeVar

from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.model.clock import ClockAnchor
from jaxobs.model.events import Event, Measured, SpanEnded
from jaxobs.model.metrics import Catalogue, Metric
from jaxobs.plugin.guard import Guard
from jaxobs.plugin.protocol import Progress
from jaxobs.probe.import_hook import weakly, when_imported

Hook = TypeVar("Hook", bound=Callable[..., None])

DEFAULT_SETTINGS: Mapping[str, Any] = {
    "maximum_module_bytes": 2**26,
    "profile_budget_ratio": 0.002,
    "profile_maximum_bytes": 2**25,
    "run_folder": None,
}


class FakeJob:
    """What a probe gets of the training process; keeps what was emitted in `events`, and failed hooks in `failures`."""

    def __init__(self, settings: Mapping[str, Any] | None = None) -> None:
        self.settings: Mapping[str, Any] = settings if settings is not None else DEFAULT_SETTINGS
        self.events: list[Event] = []
        self.failures: list[str] = []
        self.steps = 0
        self.compiled: int | None = None
        self.module_bytes = 0
        self.agents = 1
        self.session: object | None = None
        self.off = ""
        self.phases: list[str] = []
        self.recorded: dict[str, Any] = {}
        self._guard = Guard("probe under test", "probe", self.failures.append)
        self._numbers = iter(range(1, 1_000_000))

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def guard(self, hook: Hook) -> Hook:
        """The real guard, which keeps what it caught in `failures`."""
        return self._guard.wrap(hook)  # type: ignore[return-value]  # the same parameters, always None

    def executable_number(self) -> int:
        """Numbers from 1 on."""
        return next(self._numbers)

    def trace_began(self) -> None:
        """Nothing."""

    def trace_ended(self) -> None:
        """Nothing."""

    def listeners_restored(self) -> None:
        """Nothing."""

    def progress(self) -> Progress:
        """What `steps`, `compiled`, `module_bytes` and `agents` were set to."""
        return Progress(self.steps, self.compiled, self.module_bytes, self.agents)

    def annotate_steps(self, session: object | None) -> None:
        self.session = session

    def when_imported(self, module: str, action: Callable[[ModuleType], None]) -> None:
        """The real import hook."""
        when_imported(module, self._guard.wrap(weakly(action)))

    def phase(self, name: str, *, tentative: bool = False) -> AbstractContextManager[None]:
        """Keep its name in `phases`, if it is not tentative."""
        if not tentative:
            self.phases.append(name)
        return nullcontext()

    def record(self, values: Mapping[str, Any]) -> None:
        self.recorded.update(values)

    def switch_off(self, reason: str) -> None:
        self.off = reason


class FakeAgent:
    """What a collector or an exporter gets of the agent process; keeps what it was told."""

    def __init__(
        self,
        settings: Mapping[str, Any] | None = None,
        metrics: Iterable[Metric] = (),
        pid: int | None = None,
    ) -> None:
        self.settings: Mapping[str, Any] = settings if settings is not None else {}
        self.resource: Mapping[str, str] = {"service.name": "jax"} | (
            {"process.pid": str(pid)} if pid else {}
        )
        self.clock = ClockAnchor.read()
        self.catalogue = Catalogue((*CORE_METRICS, *metrics))
        self.addresses: list[str] = []
        self.profiles: list[tuple[float, bool]] = []
        self.lines: list[str] = []
        self.events: list[Measured | SpanEnded] = []

    def emit(self, event: Measured | SpanEnded) -> None:
        self.events.append(event)

    def profile(self, seconds: float, keep: bool) -> None:
        self.profiles.append((seconds, keep))

    def announce_address(self, address: str) -> None:
        self.addresses.append(address)

    def log(self, message: str) -> None:
        self.lines.append(message)
