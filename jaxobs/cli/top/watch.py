"""Follows the watched ranks: the last snapshot of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from jaxobs.cli import using
from jaxobs.cli.top.servers import (
    MAX_TARGETS,
    Access,
    Answer,
    NoSnapshotError,
    NothingListensError,
    SnapshotClient,
    Target,
    distinct,
    is_as_safe,
    target_of,
)
from jaxobs.model.clock import monotonic
from jaxobs.report.ranks import Observed, columns, rank_rows
from jaxobs.report.tables import plain_table
from jaxobs.vocabulary import InputError
from jaxobs.vocabulary.text import printable

_DIRECTORY_SECONDS: Final = 5.0
"""Seconds between searches for new ranks, the same as the agent takes between searches for its neighbours."""

_ASK: Final = "is the job running, and is this the address that it logged?"

_OLD_SECONDS: Final = 10.0
"""Seconds after the next snapshot was due from which the last one is reported as old."""

_THREADS: Final = 8
"""Concurrent fetches, so that one that waits for its timeout does not delay the others."""


@dataclass(eq=False)
class Watched:
    """A watched rank, with its last snapshot."""

    target: Target
    client: SnapshotClient
    document: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    taken: float = 0.0
    """The Unix time of its snapshot in seconds, by its own clock."""
    seen: float = 0.0
    """The time at which that snapshot was first seen, in monotonic seconds of our clock."""
    apart: float = 60.0
    """Seconds between the last two that were seen; before there are two, the longest that JAXOBS_INTERVAL may be."""

    def take(self, answer: Answer, now: float) -> None:
        """Take a snapshot. Raises InputError, and keeps the one before, if ranks beside it could not be drawn."""
        if answer.unix_seconds == self.taken:
            is_old = now - self.seen > _OLD_SECONDS + self.apart
            self.problem = f"{self.target}: nothing new for {now - self.seen:.0f} s" if is_old else None
            return
        with using(f"the snapshot of {self.target}"):
            rows = rank_rows([Observed(str(self.target), answer.snapshot)])
            plain_table(list(columns(rows)), rows)
        self.apart = now - self.seen if self.taken else self.apart
        self.problem, self.taken, self.seen = None, answer.unix_seconds, now
        self.document = dict(answer.snapshot)

    @property
    def observed(self) -> Observed:
        return Observed(str(self.target), self.document, self.problem)


class Watch:
    """The watched ranks. `find` returns the targets, and is called again every few seconds."""

    def __init__(self, find: Callable[[], Sequence[Target]], access: Access) -> None:
        self._find, self._access = find, access
        self._found = -_DIRECTORY_SECONDS
        self._named: list[Target] = []
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="jaxobs-top")
        self._under_way: dict[Future[Answer], Watched] = {}
        self.ranks: list[Watched] = []

    def refresh(self, timeout: float) -> None:
        """Fetch from all ranks without a fetch under way, and take answers for `timeout` seconds; others come later.

        Raises InputError if `find` does.
        """
        if monotonic() - self._found >= _DIRECTORY_SECONDS:
            self._found = monotonic()
            self._admit(self._find())
        asked: list[Watched] = []
        deadline = monotonic() + timeout
        while True:
            under_way = list(self._under_way.values())
            for rank in self.ranks:
                if rank not in asked and rank not in under_way:
                    self._under_way[self._pool.submit(rank.client.fetch)] = rank
            asked = list(self.ranks)  # answers may name other ranks, which are fetched at once
            left = deadline - monotonic()
            if not self._under_way or left <= 0:
                return
            done, _ = wait(self._under_way, left, "FIRST_COMPLETED")
            for future in done:
                self._take(future, self._under_way.pop(future))

    def problems(self) -> list[str]:
        """For each target that `find` returns, one line on why it has no newer snapshot."""
        named = set(distinct(self._find()))
        return [rank.problem for rank in self.ranks if rank.problem and rank.target in named]

    def close(self) -> None:
        """Close all connections without waiting for answers: fetches under way fail."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for rank in self.ranks:
            rank.client.close()

    def _take(self, future: Future[Answer], rank: Watched) -> None:
        try:
            answer = future.result()
            rank.take(answer, monotonic())
        except NothingListensError as error:
            ended = f"the job has ended, or its agent is lost: {error}"
            rank.problem = printable(ended if rank.document else f"{error}: {_ASK}")
        except (NoSnapshotError, InputError) as error:
            rank.problem = printable(str(error))  # it may quote what the server has said
        else:
            self._admit(list(self._neighbours(rank.target, answer.neighbours)))
            # Not `sort`, which empties the list meanwhile: the view reads it on its own thread.
            self.ranks = sorted(self.ranks, key=_place)
        if rank.target.guessed and rank.problem and not rank.document:
            self.ranks.remove(rank)

    def _neighbours(self, server: Target, addresses: Sequence[str]) -> Iterator[Target]:
        """The targets that a server names. A token goes to none on another host, and to none in the clear after TLS."""
        for address in addresses:
            with suppress(InputError):  # what a server answers may be anything
                target = target_of(address)
                if self._access.token is None or is_as_safe(target, server):
                    yield target

    def _admit(self, targets: Sequence[Target]) -> None:
        """Add the targets that are new. One that was no server of jaxobs is not added again.

        A token goes to no guess, where anybody may listen: the servers that it was given for name the other ranks.
        """
        targets = [target for target in targets if self._access.token is None or not target.guessed]
        known = set(self._named)
        self._named = distinct((*self._named, *targets))
        new = (target for target in self._named if target not in known)
        self.ranks = self.ranks + [Watched(target, SnapshotClient(target, self._access)) for target in new]


def _place(rank: Watched) -> tuple[str, int, str]:
    process = rank.document.get("process") or {}
    run, run_id, index = (process.get(key) for key in ("run", "run_id", "process_index"))
    return f"{run} {run_id}", index if isinstance(index, int) else MAX_TARGETS, str(rank.target)
