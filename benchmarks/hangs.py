"""Whether the rank that stands still is named, how soon and with its line, and what is known of ranks that were killed.

    python -m benchmarks.hangs [--ranks 4] [--only lock,stopped]

A real training of so many processes (jax.distributed, Gloo), started anew for each case. Of one rank the process is
stopped, or its loop waits for a lock or for its input, or native code holds the interpreter lock: the others then wait in
a collective. What `jaxobs top` shows of the ranks is read every two seconds; then all are killed with their agents at
once, as a machine that loses its power, and `jaxobs postmortem` is asked who was first. In the other cases a rank is
killed, its agent before it, or all at once. Exit status 1 where a rank that stands still is not named within 30 s,
another is accused, or the last step that is told is more than two seconds from the true one.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from benchmarks.costs.processes import agents_of
from benchmarks.lagging_ranks import IN_TIME, LOOK_SECONDS, rows_of, watched_training
from benchmarks.truths import Figure, Table, chosen, options_of
from jaxobs.cli.top.watch import Watch
from tests.top.ranks import Job

USUAL_SECONDS: Final = 15.0
"""Of training before a case begins."""

GIVEN_UP: Final = 60.0
NEAR: Final = 2.0
"""Seconds by which the last step that is told may be off."""

AGENTS_RETURN: Final = 5.0
"""Seconds after which an agent that was killed has been replaced."""

Done = Callable[[Job, int], None]
"""Something done to a rank."""

Told = dict[str, Any]
"""What `jaxobs postmortem` tells of a rank."""


def _asked(what: str) -> Done:
    """Ask a rank of tests/top/job.py to stand still in this way."""

    def ask(job: Job, rank: int) -> None:
        (job.folder / f"{what}-{rank}").write_text("3600")

    return ask


HANGS: Final[dict[str, tuple[Done, str]]] = {
    "stopped": (lambda job, rank: job.processes[rank].send_signal(signal.SIGSTOP), "does not answer"),
    "lock": (_asked("lock"), "job.py:"),
    "input": (_asked("input"), "job.py:"),
    "native": (_asked("native"), "does not answer"),
}
"""How a rank is made to stand still, and what stands in the place that is told of it."""


def _kill(job: Job, ranks: list[int], *, agents: bool) -> None:
    """Kill these ranks, with their agents before them."""
    processes = [job.processes[rank] for rank in ranks]
    beside = [agent for process in processes for agent in agents_of(process.pid)] if agents else []
    for agent in beside:
        agent.kill()
    for process in processes:
        process.kill()


def _agent_first(job: Job, rank: int) -> None:
    for agent in agents_of(job.processes[rank].pid):
        agent.kill()
    time.sleep(AGENTS_RETURN)
    _kill(job, [rank], agents=False)


KILLS: Final[dict[str, Done]] = {
    "kill job": lambda job, rank: _kill(job, [rank], agents=False),
    "kill agent, then job": _agent_first,
    "kill job and agent": lambda job, rank: _kill(job, [rank], agents=True),
    "kill all": lambda job, _: _kill(job, list(range(len(job.processes))), agents=True),
}


def _postmortem(job: Job) -> list[Told]:
    command = (sys.executable, "-m", "jaxobs", "postmortem", str(job.folder / "runs"), "--json")
    told: list[Told] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return told


def _rank(told: Told) -> int:
    return int(told["who"]["jax.process_index"])


def hang(way: str, job: Job, rank: int, watch: Watch) -> Iterator[Figure]:
    """What is shown of a rank that is made to stand still, and told after all were killed."""
    make, place = HANGS[way]
    make(job, rank)
    began, found, accused, where = time.monotonic(), None, set[int](), None
    while found is None and time.monotonic() - began < GIVEN_UP:
        time.sleep(LOOK_SECONDS)
        for row in rows_of(watch):
            if row["hangs"] and row["rank"] == rank:
                found, where = time.monotonic() - began, f"{row['still']} ({row['hangs_as']})"
            elif row["hangs"]:
                accused.add(row["rank"])
    yield Figure(
        "named after", found or f"{GIVEN_UP:.0f} s: not", between=(0.0, IN_TIME), unit="s", note=where or ""
    )
    yield Figure("its place is told", place in (where or ""), True)
    yield Figure("others accused", len(accused), 0)
    _kill(job, list(range(len(job.processes))), agents=True)
    apart = [(_rank(told), told["differs"]) for told in _postmortem(job) if told["differs"]]
    yield Figure("postmortem names", apart[0][0] if apart else "none", rank, note=str(apart))


def kill(way: str, job: Job, rank: int) -> Iterator[Figure]:
    """What is told of a rank that was killed."""
    KILLS[way](job, rank)
    killed = time.time()
    for process in job.processes:  # the others end by themselves when they notice
        try:
            process.wait(GIVEN_UP)
        except subprocess.TimeoutExpired:
            _kill(job, list(range(len(job.processes))), agents=True)
    time.sleep(AGENTS_RETURN)
    told = _postmortem(job)
    (own,) = [each for each in told if _rank(each) == rank]
    yield Figure("its last step is told", own["last_step"] - killed, 0.0, absolute=NEAR, unit="s")
    differs = [f"rank {_rank(each)} {each['differs']}" for each in told if each["differs"]]
    if way == "kill all":
        yield Figure("nobody is said to be first", not differs, True, note=", ".join(differs))
    else:
        yield Figure("first was", _rank(told[0]) if differs else None, rank, note=", ".join(differs))


def main() -> int:
    """Run the cases, judge."""
    parser = options_of(__doc__)
    parser.add_argument("--ranks", type=int, default=4)
    options = parser.parse_args()
    table = Table()
    for number, way in enumerate(chosen(options.only, ((name, name) for name in (*HANGS, *KILLS)))):
        with watched_training(options.ranks) as (job, watch):
            time.sleep(USUAL_SECONDS)
            rank = (number + 1) % options.ranks
            table.add(way, hang(way, job, rank, watch) if way in HANGS else kill(way, job, rank))
    return table.status()


if __name__ == "__main__":
    sys.exit(main())
