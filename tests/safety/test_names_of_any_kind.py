"""Names of the user's, a megabyte long or full of control characters: cut in the job, told apart, and harmless."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.jobs import Outcome

LONG = """
import json, urllib.request
import jax, jax.numpy as jnp

WORDS = "word " * 200_000
ACTS = "\\x1b]0;title\\x07\\x1b[31m\\x9b2J\\r\\n\\u202e\\u200b"

def named(name):
    def function(x): return (x @ x).sum()
    function.__name__ = function.__qualname__ = name
    return obs.watch(jax.jit(function))

functions = [named(WORDS + "one"), named(WORDS + "two"), named("hostile" + ACTS)]
obs.watch(type("object" + ACTS, (), {"__call__": lambda self: 0, "__init__": lambda self: setattr(self, "a", 1)})())
x = jnp.ones((8, 8))
for end in ("one", "two"):
    for _ in obs.steps(range(3), loop=WORDS + end):
        with obs.phase(WORDS):
            for function in functions:
                function(x).block_until_ready()
        obs.record(**{WORDS + end: 1.0, "loss" + ACTS: 2.0, "self": 3.0})
argument = jax.jit(lambda tree: tree[WORDS] + 1)
argument({WORDS: x})
argument({WORDS: x[0]})
with obs.step():
    obs.record(text="no number" + ACTS)
    for number in range(5_000):
        obs.record(**{f"loss at step {number}": 1.0})
snapshot = obs.snapshot(timeout=30)
deadline = time.monotonic() + 30
while "jaxobs_recorded{" not in (page := urllib.request.urlopen(obs.address).read().decode()):
    assert time.monotonic() < deadline  # an exporter shows a snapshot on a thread of its own
live = urllib.request.urlopen(snapshot["process"]["address"].removesuffix("metrics")).read()
print(snapshot.to_json())
print(json.dumps([len(page), len(live), snapshot.summary(), repr(snapshot)]))
"""


def longest_text(content: Any) -> int:
    if isinstance(content, str):
        return len(content)
    values = [*content, *content.values()] if isinstance(content, dict) else content
    return max(map(longest_text, values), default=0) if isinstance(values, list) else 0


def test_they_are_cut_in_the_job_and_nothing_in_them_acts(run: Callable[..., Outcome]) -> None:
    outcome = run(LONG)
    assert outcome.status == 0, outcome.stderr
    document, (page, live, summary, digest) = map(json.loads, outcome.stdout.splitlines())
    assert longest_text(document) < 500  # reasons are sentences of their own
    assert max(len(outcome.stdout), page, live) < 200_000
    cut = [name for name in document["functions"] if name.startswith("word word")]
    loops = [name for name in document["loops"] if name.startswith("word word")]
    assert ({len(name) for name in cut + loops}, len(cut), len(loops)) == ({200}, 2, 2)
    assert all(
        function["compilations"] == 1 for name, function in document["functions"].items() if name in cut
    )
    assert {len(document["loops"][name]["recorded"]) for name in loops} == {3}
    assert all(line.isprintable() for line in [*summary.split("\n"), digest, *outcome.stderr.split("\n")])
    assert outcome.stderr.count("\n") == outcome.stderr.count("jaxobs: ") == 3, outcome.stderr
    assert outcome.stderr.count("only the first 200 names are taken") == 1
