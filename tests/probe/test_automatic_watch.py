"""Under a launcher what the script and its libraries jit is watched by itself, and behaves as without."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import jax
import pytest

DECORATOR_FACTORIES = tuple(map(int, jax.__version__.split(".")[:3])) >= (0, 8, 1)
"""`jax.jit(static_argnames=…)` without a function gives a decorator."""


def under_jaxobs(tmp_path: Path, script: str) -> subprocess.CompletedProcess[str]:
    """The script under `jaxobs run`."""
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(script), encoding="utf-8")
    command = [sys.executable, "-m", "jaxobs", "run", "--", str(file)]
    patient = {**os.environ, "JAXOBS_SHUTDOWN_TIMEOUT": "60"}  # the summary comes on a busy machine too
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=170, env=patient)


def test_a_loop_that_nobody_marked_is_found_with_its_evaluation(tmp_path: Path) -> None:
    done = under_jaxobs(
        tmp_path,
        """
        import functools, jax, jax.numpy as jnp, time
        @jax.jit
        def train_step(w, x): return w - 1e-3 * (x.T @ (x @ w)), jnp.sum(w)
        @functools.partial(jax.jit, static_argnames="power")
        def evaluate(w, x, power=1): return jnp.sum(x @ w) ** power
        w, x = jnp.ones((300, 300)), jnp.ones((300, 300))
        for epoch in range(3):
            for _ in range(60):
                w, loss = train_step(w, x)
                float(loss)
                time.sleep(0.01)
            for _ in range(20):
                float(evaluate(w, x))
                time.sleep(0.03)
        """,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stderr.splitlines() if line.strip()]
    rows = {cells[0]: cells for cells in reversed(lines) if len(cells) > 1 and cells[1].isdecimal()}
    assert rows["train_step"][1] == "180"  # the first table is that of loops
    assert rows["evaluate"][1] in {"59", "60"}
    # In the order in which they had taken a second, which a busy machine decides.
    assert re.search("nobody marked (train_step, evaluate|evaluate, train_step)", done.stderr)


WAYS_TO_JIT = [
    "jax.jit(f)",
    "jit(f)",
    "functools.partial(jax.jit, donate_argnums=0)(f)",
    *(["jax.jit(donate_argnums=0)(f)"] if DECORATOR_FACTORIES else []),
    "jax.pmap(f)",
]


def test_each_way_to_jit_gives_a_watched_function_that_works(tmp_path: Path) -> None:
    done = under_jaxobs(
        tmp_path,
        f"""
        import functools, jax, jax.numpy as jnp, pickle
        from jax import jit
        def f(x): return x + 1
        for g in [{", ".join(WAYS_TO_JIT)}]:
            print(type(g).__base__.__name__, g.__name__, float(g(jnp.ones((1, 2))).sum()), callable(g.lower))
        print(jax.jit.__name__, pickle.loads(pickle.dumps(jax.jit)) is jax.jit)
        """,
    )
    assert done.stdout.splitlines() == ["Watched f 4.0 True"] * len(WAYS_TO_JIT) + ["jit True"], done.stderr


def test_steps_that_the_script_marks_win(tmp_path: Path) -> None:
    done = under_jaxobs(
        tmp_path,
        """
        import jax, jax.numpy as jnp, jaxobs, time
        obs = jaxobs.instrument()
        step = jax.jit(lambda w: w * 1.0001)
        w = jnp.ones(10)
        for _ in obs.steps(range(150), loop="mine"):
            w = step(w).block_until_ready()
            time.sleep(0.01)
        print(sorted(obs.snapshot(60).to_dict()["loops"]))
        """,
    )
    assert done.stdout.strip() == "['mine']", done.stderr


def test_what_jax_itself_jits_and_what_cannot_be_jitted_is_as_without(tmp_path: Path) -> None:
    done = under_jaxobs(
        tmp_path,
        """
        import jax, traceback, types
        library = types.ModuleType("jax.of_its_own")
        exec("import jax\\nf = jax.jit(abs)", library.__dict__)
        print(type(library.f).__mro__)
        try:
            jax.jit(3)
        except TypeError as error:
            print([frame.name for frame in traceback.extract_tb(error.__traceback__)][:2])
        """,
    )
    assert "Watched" not in done.stdout, done.stderr
    assert "jitting" not in done.stdout


@pytest.mark.long
def test_a_training_in_one_call_shows_its_time_and_iterations(tmp_path: Path) -> None:
    done = under_jaxobs(
        tmp_path,
        """
        import jax, jax.numpy as jnp
        @jax.jit
        def train(w):
            def body(w, _): return jnp.tanh(w @ w) * 1e-3, jnp.sum(w)
            return jax.lax.scan(body, w, None, length=20_000)
        w, sums = train(jnp.ones((192, 192)))
        print(float(sums[-1]))
        """,
    )
    text = done.stderr
    assert "a step of train is one call with 20,000 iterations" in text, text
    assert next(line.split()[1] for line in text.splitlines() if line.startswith("train ")) == "1", text


@pytest.mark.long
def test_a_training_as_a_scan_outside_jit_is_a_loop_named_with_its_line(tmp_path: Path) -> None:
    done = under_jaxobs(
        tmp_path,
        """
        import jax, jax.numpy as jnp, pickle
        def body(w, _): return jnp.tanh(w @ w) * 1e-3, jnp.sum(w)
        w = jnp.ones((128, 128))  # small enough to be kept until the device is done with it
        for epoch in range(3):
            w, sums = jax.lax.scan(body, w, None, length=40_000)
            print(float(sums[-1]))
        print(pickle.loads(pickle.dumps(jax.lax.scan)) is jax.lax.scan, jax.lax.scan.__name__)
        print(jax.jit(lambda w: jax.lax.scan(body, w, None, length=2)[1])(w).shape)
        """,
    )
    assert done.stdout.splitlines()[-2:] == ["True scan", "(2,)"], done.stderr
    rows = [line.split() for line in done.stderr.splitlines() if line.startswith("scan at script.py:6")]
    assert rows[0][3] in {"2", "3"}, done.stderr
    assert "is one call with 40,000 iterations" in done.stderr


@pytest.mark.parametrize(
    "trained",
    [
        "compiled = jax.jit(train_step).lower(w).compile(); train(compiled)",
        "thread = threading.Thread(target=train, args=(jax.jit(train_step),)); thread.start(); thread.join()",
    ],
    ids=["compiled ahead of time", "in a thread of its own"],
)
def test_a_loop_is_found_wherever_it_calls_its_step(tmp_path: Path, trained: str) -> None:
    done = under_jaxobs(
        tmp_path,
        f"""
        import jax, jax.numpy as jnp, threading, time
        def train_step(w): return jnp.tanh(w @ w) * 1e-3, jnp.sum(w)
        w = jnp.ones((256, 256))
        def train(step):
            new = w
            for _ in range(100):
                new, loss = step(new)
                float(loss)
                time.sleep(0.03)
        {trained}
        """,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stderr.splitlines() if line.startswith("train_step")]
    assert rows[0][1] in {"99", "100"}, done.stderr
    assert 0.03 <= seconds_of(rows[0][2:4]) <= 0.06, done.stderr
    assert any(row[-4:] and "100" in row for row in rows[1:]), done.stderr


def test_a_program_that_was_compiled_ahead_of_time_stays_what_it_was(tmp_path: Path) -> None:
    done = under_jaxobs(
        tmp_path,
        """
        import jax, jax.numpy as jnp
        from jax.experimental import serialize_executable
        lowered = jax.jit(lambda x: x + 1).lower(jnp.ones(3))
        compiled = lowered.compile()
        print(isinstance(compiled, jax.stages.Compiled), isinstance(compiled, jax.stages.Lowered))
        print(compiled.cost_analysis() is not None, compiled.as_text() is not None, compiled.in_tree.num_leaves)
        loaded = serialize_executable.deserialize_and_load(*serialize_executable.serialize(compiled))
        print(float(loaded(jnp.ones(3))[0]), float(lowered.compile()(jnp.ones(3))[0]))
        try:
            compiled(jnp.ones(4))
        except TypeError:
            print("TypeError")
        """,
    )
    assert done.stdout.splitlines() == ["True False", "True True 1", "2.0 2.0", "TypeError"], done.stderr


def seconds_of(cells: list[str]) -> float:
    """As in `31 ms`."""
    return float(cells[0]) * {"s": 1.0, "ms": 1e-3, "µs": 1e-6}[cells[1]]


def test_an_error_in_a_scan_names_the_users_lines_alone(tmp_path: Path) -> None:
    done = under_jaxobs(
        tmp_path,
        """
        import jax, jax.numpy as jnp, traceback
        try:
            jax.lax.scan(lambda c, _: (c, undefined), 1.0, None, length=2)
        except NameError as error:
            files = {frame.filename for frame in traceback.extract_tb(error.__traceback__)}
            print([file for file in files if "jaxobs" in file.rpartition("/")[0]])
        """,
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_an_error_in_a_function_that_another_calls_has_the_users_frames_alone(tmp_path: Path) -> None:
    done = under_jaxobs(
        tmp_path,
        """
        import jax, traceback
        @jax.jit
        def inner(x): return undefined
        @jax.jit
        def outer(x): return inner(x)
        try:
            outer(1.0)
        except NameError as error:
            print([frame.name for frame in traceback.extract_tb(error.__traceback__)])
        """,
    )
    assert done.stdout.strip() == "['<module>', 'outer', 'inner']", done.stderr


def test_what_a_thread_or_exit_function_calls_with_no_frame_of_python_around_it_works(tmp_path: Path) -> None:
    done = under_jaxobs(
        tmp_path,
        """
        import _thread, atexit, sys, time
        import jax
        lowered = jax.jit(lambda x: x + 1).lower(1.0)
        calls = (jax.jit, abs), (jax.lax.fori_loop, 0, 3, lambda i, x: x + i, 0), (lowered.compile,)
        sys.unraisablehook = lambda raised: print(raised.exc_value, flush=True)
        for call in calls:
            _thread.start_new_thread(call[0], call[1:])
            atexit.register(*call)
        time.sleep(0.5)
        """,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


FORKS = """
    import os, signal, threading, warnings
    import jax
    warnings.simplefilter("ignore")  # JAX's own of forks
    entered, forked = threading.Event(), threading.Event()

    class Slow:
        def __call__(self): ...
        @property
        def __name__(self):
            entered.set()
            forked.wait(30)
            return "slow"
        def lower(self): ...

    from jaxobs.instrument import current
    other = threading.Thread(target=lambda: current().watch(Slow()))
    other.start()
    assert entered.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        jax.jit(lambda x: x)
        os._exit(0)
    print("status", os.waitpid(child, 0)[1])
    forked.set()
    other.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_forked_while_another_thread_watches_a_function_can_jit(tmp_path: Path) -> None:
    done = under_jaxobs(tmp_path, FORKS)
    assert done.stdout.splitlines()[:1] == ["status 0"], done.stdout + done.stderr
