"""`jaxobs.explain_compile()`: compiles one function for given arguments, never runs it, and finds what took the time."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import FrameType
from typing import Any, Final

from jaxobs.cost_model.contents import module_contents
from jaxobs.jax_compat.compiling import CACHE_ASKED, CACHE_HIT, CACHE_READ, PHASES
from jaxobs.jax_compat.jaxprs import captured, equations
from jaxobs.jax_compat.runtime import leave_out, persistent_cache_is_on, unregister_listeners
from jaxobs.measure.on_demand import jitted_function, serialized_module
from jaxobs.model.clock import perf_counter
from jaxobs.model.contents import MIN_CONSTANT_BYTES, Constant, Contents, largest
from jaxobs.model.figure import Figure, figure
from jaxobs.plugin.frames import MAX_FRAMES, stack_of
from jaxobs.plugin.threads import Flag, Thread
from jaxobs.probe.stack import USER, line_of, owner_of
from jaxobs.report.compile_explained import CompileExplanation

SAMPLED_EACH: Final = 0.01
"""Seconds between samples of a trace: twice the 5 ms after which Python lets another thread run, so that each is nearly
on time; one of a stack of 200 frames takes 0.1 ms."""

IN_JAX: Final = "(JAX, in no line of yours)"

KNOWN_ALREADY: Final = (
    "JAX had done it before in this process: ask before the first call, or after `jax.clear_caches()`"
)


def explain_compile(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> CompileExplanation:
    """Compile a function for these arguments, and tell what took the time and why.

    `function` may be plain, jitted or watched; it is traced, lowered and compiled for these arguments (arrays or
    `jax.ShapeDtypeStruct`), not run. Ask before its first call: what JAX has compiled it does not compile again, and the
    seconds are then absent. Raises what tracing and compiling raise, and TypeError for what is no function of `jax.jit`.
    """
    import jax

    jitted, args = jitted_function(function, "explain_compile", args)
    if not hasattr(function, "lower"):
        jitted = jax.jit(_anew(function))
    if not hasattr(jitted, "trace"):
        raise TypeError(f"explain_compile() takes a plain function or one of jax.jit, not {jitted!r}")
    leave_out(__file__)
    heard, samples = _Heard(), _Samples()
    with heard:
        traced, trace = heard.timed("trace", lambda: _traced(samples, jitted, args, kwargs))
        lowered, lower = heard.timed("lower", traced.lower)
        compiled, backend = heard.timed("backend", lowered.compile)
    read, cache = heard.seconds.get(CACHE_READ), heard.persistent_cache()
    if read is not None and backend.value is not None:
        backend = Figure(max(0.0, backend.value - read))
    contents, size = _module(compiled)
    return CompileExplanation(
        function=str(getattr(jitted, "__name__", "") or type(function).__name__),
        seconds={
            "trace": trace,
            "lower": lower,
            "backend": backend,
            "cache_read": figure(read, "nothing was read from the persistent cache"),
            "cache_write": Figure(None, "JAX does not tell it: it is in `backend`"),
        },
        persistent_cache=cache,
        trace_lines=samples.by_line(trace.value),
        equations=equations(traced.jaxpr, {}),
        module_bytes=size,
        contents=replace(contents, constants=largest(_constants(traced.jaxpr))),
    )


def _anew(function: Callable[..., Any]) -> Callable[..., Any]:
    """A new function that does the same: JAX has traced none of it."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    call.__name__ = getattr(function, "__name__", type(function).__name__)  # of an object
    return call


def _traced(samples: _Samples, jitted: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The trace, sampled meanwhile: frames outside that of this function are not of it."""
    with samples:
        return jitted.trace(*args, **kwargs)


def _module(compiled: Any) -> tuple[Contents, Figure[int]]:
    """What the module holds, and its bytes."""
    try:
        serialized = serialized_module(compiled.runtime_executable())
        return module_contents(serialized), Figure(len(serialized))
    except (RuntimeError, NotImplementedError, AttributeError, ValueError) as error:
        absent: Figure[Any] = Figure(None, f"it could not be read: {error}"[:200])
        return Contents(absent, absent, (), absent), absent


class _Heard:
    """Listens to what JAX tells of the compiles of this thread."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._events: set[str] = set()
        self._thread = threading.get_ident()

    def __enter__(self) -> None:
        from jax import monitoring

        monitoring.register_event_listener(self._event)
        monitoring.register_event_duration_secs_listener(self._duration)

    def __exit__(self, *_: object) -> None:
        unregister_listeners(self._event, self._duration, None)

    def timed(self, phase: str, work: Callable[[], Any]) -> tuple[Any, Figure[float]]:
        """What the work returns, and its seconds, which are absent where JAX had done it before."""
        self._events.clear()
        began = perf_counter()
        done = work()
        spent = perf_counter() - began
        return done, Figure(spent) if phase in self._events else Figure(None, KNOWN_ALREADY)

    def persistent_cache(self) -> Figure[str]:
        """Whether the persistent cache had the program, once it was compiled."""
        if "backend" not in self._events:
            return Figure(None, KNOWN_ALREADY)
        is_on = persistent_cache_is_on() and CACHE_ASKED in self._events
        return Figure("off" if not is_on else "hit" if CACHE_HIT in self._events else "miss")

    def _event(self, event: str, **_: Any) -> None:
        if threading.get_ident() == self._thread:
            self._events.add(event)

    def _duration(self, event: str, duration_secs: float, **_: Any) -> None:
        if threading.get_ident() == self._thread:
            self._events.add(PHASES.get(event, event))
            self.seconds[event] = duration_secs


class _Samples:
    """Samples the stack of the thread that makes it, from another thread, while the context lasts."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()
        self._thread = threading.get_ident()
        self._ended = Flag()

    def __enter__(self) -> None:
        self._sampler = Thread("trace-samples", self._run)

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._sampler.join()

    def by_line(self, seconds: float | None) -> Figure[Mapping[str, float]]:
        """The trace's seconds by line, the largest first."""
        sampled = sum(self._seconds.values())
        if seconds is None:
            return Figure(None, "nothing was traced")
        if not sampled:
            return Figure(None, f"it was over before a sample was taken: one is due each {SAMPLED_EACH:g} s")
        return Figure({line: seconds * part / sampled for line, part in self._seconds.most_common()})

    def _run(self) -> None:
        before = perf_counter()
        while not self._ended.wait(SAMPLED_EACH):
            line = _line(stack_of(self._thread, MAX_FRAMES))
            now = perf_counter()
            self._seconds[line] += now - before  # type: ignore[assignment]  # Counter adds floats as well
            before = now


def _line(frames: list[FrameType]) -> str:
    """The innermost line outside installed packages, of those within the trace."""
    for frame in frames:
        if frame.f_code is _traced.__code__:
            break
        if owner_of(frame.f_code.co_filename) == USER:
            return line_of(frame)
    return IN_JAX


def _constants(closed: Any) -> Iterator[Constant]:
    """The large arrays in a jaxpr and its inner ones, each with the line that uses it."""
    found = {id(value): (value, line) for value, line in captured(closed, MIN_CONSTANT_BYTES, set())}
    for value, line in found.values():
        yield Constant(str(value.dtype), tuple(value.shape), float(value.nbytes), line)
