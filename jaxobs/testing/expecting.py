"""What a test expects of its compiles, as its own process sees them: without an agent, a thread or a port."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

from jaxobs.config import load_settings
from jaxobs.expectations import RECOMPILATIONS, ExpectationError, Expectations, read_bounds
from jaxobs.model.events import Compilation, Event
from jaxobs.model.snapshot import absent_document
from jaxobs.plugin.base import Probe
from jaxobs.plugin.discovery import PROBES, announced
from jaxobs.probe.import_hook import when_imported
from jaxobs.probe.sources import COMPILES
from jaxobs.testing.stand_ins import DEFAULT_SETTINGS, FakeJob

Expect = Callable[..., AbstractContextManager[Any]]

NOT_IMPORTED = "JAX was not imported"


class _Job(FakeJob):
    """The test's process, as the probe sees it that reports compiles."""

    def __init__(self) -> None:
        super().__init__({**DEFAULT_SETTINGS, "maximum_module_bytes": 0})
        self.failures.append(NOT_IMPORTED)
        self.probe: Probe | None = None
        self.expectations = Expectations(
            lambda _: absent_document(""), lambda: 0, self._why_uncounted, lambda _: None
        )

    def _why_uncounted(self) -> str:
        if self.probe is not None:
            self.probe.sample()  # are its listeners still there?
        return "; ".join(self.failures)

    def listeners_restored(self) -> None:
        self.expectations.listeners_restored()

    def emit(self, event: Event) -> None:
        if type(event) is Compilation and event.recompilation is not None:
            self.expectations.recompiled(event)

    def expect(self, **figures: int | str) -> AbstractContextManager[Any]:
        """`Observer.expect` of what needs no agent, where a failure is an error."""
        for name in {bound.name for bound in read_bounds(figures)} - {RECOMPILATIONS}:
            raise ValueError(
                f"expect({name}=…): a test alone sees recompilations; for other figures observe it, with "
                f"jaxobs.instrument() and obs.expect({name}=…, on_failure='error')"
            )
        return self.expectations.expect(figures, on_failure="error")


@contextlib.contextmanager
def expecting() -> Iterator[Expect]:
    """What a test calls to expect something in a `with` block. Where jaxobs is switched off it expects nothing.

    JAX's caches are cleared first, and the probe has seen nothing yet: what earlier tests compiled changes nothing.
    """
    job = _Job()
    if not load_settings().enabled:
        yield lambda **figures: contextlib.nullcontext(job.expect(**figures))
        return
    probe: Probe = next(each for each in announced(PROBES) if each.source == COMPILES).load().plugin
    over = False

    def begin(_: ModuleType) -> None:
        if not over:
            probe.start(job)
            job.probe = probe
            job.failures.remove(NOT_IMPORTED)

    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
    when_imported("jax", begin)
    try:
        yield job.expect
        problem = job.expectations.end()
    finally:
        over = True
        probe.stop()
    if problem:  # of what was expected without a `with`
        raise ExpectationError(problem)
