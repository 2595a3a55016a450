"""What a Python stack says of the main thread: real threads and real JAX, looked at from another thread."""

from __future__ import annotations

import asyncio
import queue
import subprocess
import sys
import threading
import time
import types
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxobs.cli import demonstration
from jaxobs.plugin import threads
from jaxobs.plugin.frames import stack_of
from jaxobs.probe.stack import (
    MAX_FRAMES,
    OWN,
    STANDARD_LIBRARY,
    USER,
    Describer,
    Place,
    module,
    owner_of,
)
from jaxobs.probe.steps.iteration import Steps
from jaxobs.probe.watch.watched import Watched
from jaxobs.vocabulary.activities import (
    CALLBACK,
    COMPILE,
    DEVICE,
    INPUT,
    MARKED_INPUT,
    PROCESSOR,
    UNKNOWN,
    WAITING,
)
from tests.waiting import wait_for


def stack() -> Describer:
    return Describer(Steps.__iter__.__code__, Watched.__call__.__code__)


NAP = 2.0
"""Seconds of a call that blocks: it must last until it is looked at, also where the machine has other work."""


def seen(
    function: Callable[[], Any],
    *,
    on_processor: bool = False,
    in_python: bool = False,
    end: Callable[[], Any] = int,
    there: threading.Event | None = None,
) -> Place:
    """Where a thread that runs this is, a moment after it began or is `there`; `end` lets it go on."""
    began = there or threading.Event()

    def life() -> None:
        if there is None:
            began.set()
        function()

    thread = threading.Thread(target=life, daemon=True)
    thread.start()
    began.wait()
    time.sleep(0.1)
    place = stack().place(stack_of(thread.ident, MAX_FRAMES), on_processor=on_processor, in_python=in_python)
    end()
    thread.join()  # never left inside a call of JAX
    return place


def test_a_call_that_blocks_is_named_beside_the_users_line() -> None:
    def sleeps() -> None:
        time.sleep(NAP)

    place = seen(sleeps)
    assert place.line.endswith(f":{sleeps.__code__.co_firstlineno + 1} sleeps")
    assert (place.waits_in, place.activity) == ("time.sleep", WAITING)


def test_a_thread_that_runs_on_while_it_is_described_leaves_nothing_wrong_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Describing a new place takes longer than a thread may keep the interpreter lock."""

    def life() -> Any:
        yield 1
        yield 2

    def run_on(_: Any) -> tuple[str, ...]:
        next(running)
        return ()

    describer, running, later = stack(), life(), life()
    next(running)
    next(later)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("jaxobs.probe.stack.callee", run_on)
        describer.place([running.gi_frame], on_processor=False)
    place = describer.place([later.gi_frame], on_processor=False)
    assert place.line.endswith(f":{life.__code__.co_firstlineno + 1} life")


def test_the_users_line_is_found_outside_the_many_frames_with_which_jax_traces() -> None:
    names: dict[str, Any] = {"sleep": time.sleep}
    text = "def trace(depth, nap): return trace(depth - 1, nap) if depth else sleep(nap)"
    exec(compile(text, jax.__file__, "exec"), names)

    def step() -> None:
        names["trace"](70, NAP)

    assert seen(step).line.endswith(f":{step.__code__.co_firstlineno + 1} step")


def test_a_call_that_blocks_is_named_in_a_loop_that_the_interpreter_has_specialised() -> None:
    items: queue.SimpleQueue[int] = queue.SimpleQueue()
    for item in range(100):
        items.put(item)

    def takes() -> None:
        for _ in range(101):
            items.get()

    place = seen(takes, end=lambda: items.put(1))
    assert (place.waits_in, place.activity) == ("items.get", INPUT)

    def sleeps() -> None:
        for turn in range(101):
            time.sleep(NAP if turn == 100 else 0)

    place = seen(sleeps)
    assert (place.waits_in, place.activity) == ("time.sleep", WAITING)


def test_where_python_keeps_no_columns_another_call_of_the_line_is_not_named() -> None:
    source = """if True:
        import sys, types
        from jaxobs.probe.stack import callee
        array = types.SimpleNamespace(block_until_ready=lambda: None)
        named = lambda _: callee(sys._getframe(1))
        print(named(array.block_until_ready()))
    """
    command = [sys.executable, "-X", "no_debug_ranges", "-c", source]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "()\n"


def test_python_that_runs_is_on_a_processor() -> None:
    ended = threading.Event()

    def works() -> None:
        while not ended.is_set():
            pass

    place = seen(works, on_processor=True, in_python=True, end=ended.set)
    assert place.line.endswith(" works")
    assert place.activity == PROCESSOR


@pytest.mark.parametrize("kind", [queue.Queue, queue.SimpleQueue])
def test_a_queue_that_is_waited_for_is_input(kind: Any) -> None:
    items = kind()

    def takes() -> None:
        items.get()

    place = seen(takes, end=lambda: items.put(1))
    assert place.activity == INPUT
    assert place.waits_in == ("queue.get" if kind is queue.Queue else "items.get")
    assert place.line.endswith(" takes")


def test_a_generator_of_the_users_that_a_loop_asks_is_input() -> None:
    def batches() -> Iterator[int]:
        time.sleep(NAP)
        yield 1

    def trains() -> None:
        for _ in batches():
            pass

    assert seen(trains).activity == INPUT


class Loader:
    """An iterator that is no generator."""

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        time.sleep(NAP)
        raise StopIteration

    def read(self, _: int) -> int:
        time.sleep(NAP)
        return 1


@pytest.mark.parametrize("how", ["class", "next", "map", "executor"])
def test_an_iterator_of_the_users_that_is_no_generator_is_input(how: str) -> None:
    def trains() -> None:
        if how == "next":
            next(Loader(), None)
            return
        apply = ThreadPoolExecutor(1).map if how == "executor" else map
        for _ in Loader() if how == "class" else apply(Loader().read, [1]):
            pass

    assert seen(trains).activity == INPUT


def test_a_method_that_is_called_next_is_no_input() -> None:
    class Environment:
        def next(self) -> None:
            time.sleep(NAP)

    environment = Environment()

    def plays() -> None:
        environment.next()

    assert seen(plays).activity == WAITING


def activities(
    looks: Describer, runs: Callable[[threading.Event], None], *, on_processor: bool = False
) -> set[str]:
    """What a thread that runs this is seen to do until it is told to end."""
    done = threading.Event()
    thread = threading.Thread(target=runs, args=(done,), daemon=True)
    thread.start()
    found = set()
    for _ in range(200):
        time.sleep(0.005)
        frames = stack_of(thread.ident, MAX_FRAMES)
        found.add(looks.place(frames, on_processor=on_processor, in_python=False).activity)
        del frames
    done.set()
    thread.join()
    return found


def test_a_loader_that_puts_its_batches_on_the_device_is_input() -> None:
    looks = stack()
    large = np.ones((2048, 2048), np.float32)
    jax.device_put(large + 1).block_until_ready()

    def batches(done: threading.Event) -> Iterator[Any]:
        while not done.is_set():
            time.sleep(0.03)
            yield jnp.asarray(jax.device_put(large + 1))

    def trains(done: threading.Event) -> None:
        for _ in batches(done):
            pass

    assert INPUT in activities(looks, trains)
    assert not looks._training_iterators


def test_a_generator_that_makes_its_batches_by_jax_is_input() -> None:
    looks = stack()

    def batches(done: threading.Event) -> Iterator[Any]:
        while not done.is_set():
            yield jnp.ones((64, 64)) * 0.01 + jax.random.normal(jax.random.key(1), (64, 64))

    def trains(done: threading.Event) -> None:
        for _ in batches(done):
            pass

    found = activities(looks, trains, on_processor=True)
    assert INPUT in found
    assert found <= {INPUT, COMPILE, PROCESSOR}  # the last between two batches
    assert not looks._training_iterators


@pytest.mark.parametrize("file", [jax.__file__, np.__file__])
def test_a_constant_that_jax_makes_while_it_traces_a_batch_is_no_result_read(file: str) -> None:
    """Tracing calls `np.array`, and `np.ndim` that does: seen there once, a generator was said to train for ever."""
    names: dict[str, Any] = {"np": types.SimpleNamespace(array=time.sleep)}
    exec(compile("def ndim(nap): return np.array(nap)", file, "exec"), names)
    exec(compile("def trace(nap): return ndim(nap)", jax.__file__, "exec"), names)
    looks, done = stack(), threading.Event()

    def trains() -> None:
        for _ in (names["trace"](nap) for nap in [NAP]):
            done.wait()

    thread = threading.Thread(target=trains, daemon=True)
    thread.start()

    def is_there() -> bool:
        return looks.place(stack_of(thread.ident, MAX_FRAMES), on_processor=False).waits_in.startswith("ndim")

    wait_for(is_there, "the call in JAX", NAP)
    done.set()
    thread.join()
    assert not looks._training_iterators


def test_code_that_the_standard_library_has_written_is_no_line_of_the_users() -> None:
    @dataclass
    class Batch:
        value: None = field(default_factory=partial(time.sleep, NAP))

    def makes() -> None:
        Batch()

    assert seen(makes).line.endswith(f":{makes.__code__.co_firstlineno + 1} makes")


def test_a_function_that_a_program_calls_back_is_the_devices_time() -> None:
    """The backend of a CPU runs a program, and what it calls back, on the thread that calls it."""

    there = threading.Event()

    def sleeps(x: Any) -> Any:
        there.set()
        time.sleep(NAP)
        return np.asarray(x)

    double = jax.jit(lambda x: 2 * jax.pure_callback(sleeps, jax.ShapeDtypeStruct((), np.float32), x))
    compiled = double.lower(np.float32(1)).compile()
    place = seen(lambda: compiled(np.float32(1)).block_until_ready(), there=there)
    assert (place.activity, place.waits_in) == (CALLBACK, "time.sleep")


def test_what_asyncio_waits_for_on_another_thread_is_not_known() -> None:
    async def trains() -> None:
        await asyncio.to_thread(time.sleep, NAP)

    place = seen(lambda: asyncio.run(trains()))
    assert place.line.endswith(f":{trains.__code__.co_firstlineno + 1} trains")
    assert place.activity == UNKNOWN


def test_a_generator_that_trains_is_no_input() -> None:
    looks = stack()
    step = jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda _, y: jnp.tanh(y @ y), x))
    x = jnp.eye(256)
    step(x).block_until_ready()

    def losses(done: threading.Event) -> Iterator[int]:
        while not done.is_set():
            jax.block_until_ready(step(x))
            time.sleep(0.05)
            yield 1

    def logs(done: threading.Event) -> None:
        for _ in losses(done):
            pass

    assert DEVICE in activities(looks, logs)
    assert {line for _, line in looks._training_iterators} == {losses.__code__.co_firstlineno}


def test_a_manager_of_a_context_is_no_input() -> None:
    import contextlib

    @contextlib.contextmanager
    def around() -> Iterator[None]:
        time.sleep(NAP)
        yield

    def trains() -> None:
        with around():
            pass

    assert seen(trains).activity == WAITING


@pytest.mark.parametrize("how", ["method", "function", "float", "item", "asarray", "array", "library"])
def test_a_wait_for_a_result_is_the_devices(how: str) -> None:
    step = jax.jit(lambda x: jax.lax.fori_loop(0, 150, lambda _, y: jnp.tanh(y @ y), x))
    x = jnp.eye(512)

    def waits() -> None:
        result = step(x)
        if how == "method":
            result.block_until_ready()
        elif how == "function":
            jax.block_until_ready(result)
        elif how == "library":
            library["pull"](result)
        elif how in ("asarray", "array"):
            np.asarray(result) if how == "asarray" else np.array(result)
        elif how == "item":
            result.sum().item()
        else:
            float(result.sum())

    library: dict[str, Any] = {}
    code = "import numpy as np\ndef pull(x):\n    return np.asarray(x)"
    exec(compile(code, "/env/site-packages/metrics/pull.py", "exec"), library)
    waits()  # compiled
    assert seen(waits).activity == DEVICE


def in_asyncio(main: Callable[[], Any]) -> Place:
    return seen(lambda: asyncio.run(main()))


async def batches_of_asyncio() -> AsyncIterator[int]:
    await asyncio.sleep(0.4)
    yield 1


def test_a_coroutine_that_waits_is_named_by_its_own_line() -> None:
    async def reads() -> None:
        await asyncio.sleep(0.4)

    async def trains() -> None:
        await reads()

    place = in_asyncio(trains)
    assert place.line.endswith(f":{reads.__code__.co_firstlineno + 1} reads")
    assert (place.waits_in, place.activity) == ("tasks.sleep", WAITING)


def test_an_asynchronous_iterator_that_waits_is_input() -> None:
    async def trains() -> None:
        async for _ in batches_of_asyncio():
            pass

    place = in_asyncio(trains)
    assert place.line.endswith(" batches_of_asyncio")
    assert place.activity == INPUT


def test_the_wait_for_the_next_item_of_marked_steps_is_measured_by_the_marks() -> None:
    from jaxobs.flow.ring import Ring
    from jaxobs.probe.steps.loops import Loops

    def items() -> Iterator[int]:
        time.sleep(NAP)
        yield 1

    def trains() -> None:
        for _ in Steps(Loops(Ring(64)), items(), "train", None, None):
            pass

    assert seen(trains).activity == MARKED_INPUT


def test_nothing_of_the_users_is_called() -> None:
    class Touchy:
        """Whose every attribute raises."""

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(name)

        __repr__ = __hash__ = __eq__ = None  # type: ignore[assignment]  # so that none can be called

    def holds() -> None:
        held = Touchy()
        time.sleep(NAP)
        del held

    assert seen(holds).activity == WAITING


def test_a_frozen_module_is_shown_by_its_name_as_any_other() -> None:
    assert [module(file) for file in ("<frozen importlib._bootstrap>", "<frozen runpy>")] == [
        "importlib",
        "runpy",
    ]
    assert [module(file) for file in ("/usr/lib/python3.11/queue.py", "/lib/json/__init__.py")] == [
        "queue",
        "json",
    ]


def test_whose_code_a_file_is() -> None:
    assert owner_of("/home/me/train.py") == USER
    assert owner_of("/env/lib/python3.11/site-packages/grain/python/loader.py") == "grain"
    assert owner_of(queue.__file__) == STANDARD_LIBRARY
    assert owner_of("<frozen importlib._bootstrap>") == STANDARD_LIBRARY
    assert owner_of(Describer.place.__code__.co_filename) == OWN
    assert owner_of(threads.__file__) == OWN
    assert owner_of(demonstration.__file__) == USER
    assert owner_of("/env/lib/python3.11/site-packages/jaxobs/cli/demonstration.py") == USER
    assert owner_of("/env/lib/python3.11/site-packages/jaxobs_plugins/probes/wrapping.py") == OWN
    assert owner_of("/home/me/jaxobs/plugins/jaxobs_plugins/probes/wrapping.py") == OWN
    assert owner_of("/tmp/ipykernel_7/1.py") == USER
