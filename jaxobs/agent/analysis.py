"""Decodes modules and reads profiler windows on a worker thread, so that neither the fold nor a scrape waits."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from jaxobs.cost_model import cost_or_reason
from jaxobs.derive.executables.registry import OPERATIONS_KEPT
from jaxobs.derive.profiler_windows.windows import WindowToRead
from jaxobs.model.clock import perf_counter
from jaxobs.model.cost import ModuleCost
from jaxobs.model.peak_memory import NOT_GIVEN
from jaxobs.model.profile import LARGEST_TRACE
from jaxobs.model.trace import Trace
from jaxobs.plugin.custom_calls import load_rules
from jaxobs.plugin.guard import described
from jaxobs.roofline_model.traced import Profiled, join
from jaxobs.trace import TraceError, read_trace

MODULES_WAITING = 256 * 2**20
"""Most bytes of modules and traces that wait to be read. Further ones are refused: thousands of large executables, made
faster than they can be read, must not take the job's memory."""

MODULES_CARRIED = 64 * 2**20
"""Most bytes of serialized modules kept for later profiler windows: some 50 modules of ten thousand instructions."""

MAX_REST_SECONDS = 0.5
"""Most seconds of rest after a module or window. A shorter one is followed by a rest of its own duration, so that the
worker takes half a core at most."""


class ModuleDone(NamedTuple):
    """An executable's module was decoded, or could not be."""

    number: int
    module: ModuleCost | None
    reason: str


class WindowDone(NamedTuple):
    """A profiler window was read, or could not be."""

    window: WindowToRead
    profiled: Profiled | None
    reason: str


Done = ModuleDone | WindowDone


class Analysis:
    """The worker thread: `submit` hands it modules and windows, `finished` returns the results, all in order.

    Modules with the same bytes are decoded once. The worker rests after each item, unless `settle` waits for it.
    """

    def __init__(self, log: Callable[[str], None], wake: Callable[[], None]) -> None:
        self._wake = wake
        self._modules = _Modules()
        self._worker = ThreadPoolExecutor(1, "jaxobs-analysis")
        self._worker.submit(self._modules.load_rules, log)
        self._submitted: dict[Future[Done], int] = {}
        """What was submitted since the last results, in order, each with its bytes."""
        self._took = 0.0
        """Seconds that the last item took."""
        self._awaited = threading.Event()

    def submit(self, number: int, proto: bytes | memoryview, buffers: bytes = b"") -> None:
        refusal = ModuleDone(number, None, "")
        self._put(refusal, len(proto) + len(buffers), lambda: self._decode(number, proto, buffers))

    def submit_window(self, window: WindowToRead) -> None:
        refusal = WindowDone(window.without_trace(), None, "")
        self._put(refusal, len(window.event.xspace or b""), lambda: self._read(window))

    def finished(self) -> list[Done]:
        done = [future for future in self._submitted if future.done()]
        for future in done:
            del self._submitted[future]
        return [future.result() for future in done]

    def settle(self, timeout: float) -> list[Done]:
        """Wait until all that was submitted is done, or for `timeout` seconds. Returns the results."""
        self._awaited.set()
        wait(self._submitted, timeout)
        self._awaited.clear()
        return self.finished()

    def stop(self) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _put(self, refusal: Done, size: int, work: Callable[[], Done]) -> None:
        """Let the worker do it, unless too many bytes wait already: then it is refused, with the reason."""
        held = sum(size for future, size in self._submitted.items() if not future.done())
        if held > 0 and held + size > MODULES_WAITING:
            waiting = f"{held / 2**20:.0f} of {MODULES_WAITING / 2**20:.0f} MiB"
            reason = f"the agent is behind: {waiting} of modules and traces were waiting to be read already"
            refused: Future[Done] = Future()
            refused.set_result(refusal._replace(reason=reason))
            self._submitted[refused] = 0
            return
        future = self._worker.submit(self._timed, work)
        self._submitted[future] = size
        future.add_done_callback(lambda _: self._wake())
        self._worker.submit(lambda: self._awaited.wait(min(self._took, MAX_REST_SECONDS)))

    def _timed(self, work: Callable[[], Done]) -> Done:
        began = perf_counter()
        done = work()
        self._took = perf_counter() - began
        return done

    def _decode(self, number: int, proto: bytes | memoryview, buffers: bytes) -> ModuleDone:
        found = self._modules.cost(proto, buffers)
        return ModuleDone(number, None, found) if isinstance(found, str) else ModuleDone(number, found, "")

    def _read(self, window: WindowToRead) -> WindowDone:
        # The result carries the event without its trace, which has megabytes.
        light = window.without_trace()
        try:
            trace = read_trace(
                window.event.xspace or b"",
                maximum_bytes=LARGEST_TRACE,
                stretches=window.stretches,
                modules=self._modules.carried,
            )
            self._modules.remember(trace)
            peaks = {(device.host, device.name): window.peaks for device in trace.devices}
            profiled = join(trace, self._modules.of(trace), peaks, window.working_sets)
        except TraceError as error:
            return WindowDone(light, None, str(error)[:500])
        except Exception as error:  # noqa: BLE001  # nor must one window end the agent
            return WindowDone(light, None, described(error)[:500])
        return WindowDone(light, profiled, "")


class _Modules:
    """A cache of the costs of modules by content, of those used last; a cost that cannot be derived is a reason (text).

    A program that is compiled again has another number in its module, so other bytes, but an equal cost, which is
    shared: a job that compiles its few programs again and again must not take more and more memory.
    """

    def __init__(self) -> None:
        self.rules: Mapping[str, Any] = {}
        """Rules for custom calls."""
        self._known: dict[bytes, ModuleCost | str] = {}
        """The one used last at the end."""
        self.carried: dict[int, bytes] = {}
        """Modules of all windows by program id: a window carries them only after a compile, and later ones do not."""

    def load_rules(self, log: Callable[[str], None]) -> None:
        self.rules = load_rules(log)

    def cost(self, proto: bytes | memoryview, buffers: bytes = b"") -> ModuleCost | str:
        content = hashlib.blake2b(proto, digest_size=16).digest()
        found = self._known.pop(content, None)
        if found is None or (buffers and getattr(found, "memory_reason", "") == NOT_GIVEN):
            made = cost_or_reason(proto, custom_call_rules=self.rules, buffers=buffers)
            found = next((known for known in self._known.values() if known == made), made)
        self._known[content] = found
        while sum(map(_size, self._known.values())) > OPERATIONS_KEPT and len(self._known) > 1:
            del self._known[next(iter(self._known))]
        return found

    def of(self, trace: Trace) -> Callable[[str, int | None], ModuleCost | str]:
        """Return a function from host and program id, by which a trace names its modules, to costs."""

        def find(host: str, program_id: int | None) -> ModuleCost | str:
            proto = trace.module(host, program_id)
            if proto is None:
                return "its module is in no trace so far, or several there have its name"
            return self.cost(proto, trace.buffers(host, program_id))

        return find

    def remember(self, trace: Trace) -> None:
        """Keep a window's modules for later windows: those of the newest programs, up to MODULES_CARRIED bytes."""
        for host in trace.hosts:
            self.carried |= host.modules
        while sum(map(len, self.carried.values())) > MODULES_CARRIED:
            del self.carried[min(self.carried)]  # numbers rise


def _size(module: ModuleCost | str) -> int:
    return 1 + len(getattr(module, "operations", ()))
