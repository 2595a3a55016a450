"""The ranks that are watched: what each said last, and what it has said over the last hour."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, Final

from jaxobs.cli.console.live_view.addresses import MOST_TARGETS, Target, distinct, target_of
from jaxobs.cli.console.live_view.client import (
    Access,
    Answer,
    NoSnapshotError,
    NothingListensError,
    SnapshotClient,
)
from jaxobs.model.clock import monotonic
from jaxobs.report.page import History, View
from jaxobs.report.terminal.ranks import Observed

_DIRECTORY_SECONDS: Final = 5.0
"""Between looks for ranks that came: as often as the agent itself looks for its neighbours."""

_ASK: Final = "is the job running, and is this the address that it logged?"

_OLD_SECONDS: Final = 10.0
"""Agents make a snapshot about once a second: this one is late."""

_THREADS: Final = 8
"""Fetches at once: one that waits for its timeout does not hold up the others."""


@dataclass(eq=False)
class Watched:
    """One rank."""

    target: Target
    client: SnapshotClient
    document: dict[str, Any] = field(default_factory=dict)
    history: History = field(default_factory=History)
    problem: str | None = None
    taken: float = 0.0
    """Unix seconds of its snapshot, by its own clock."""
    seen: float = 0.0
    """Monotonic seconds, by ours, when that snapshot was new."""

    def take(self, answer: Answer, now: float) -> None:
        self.problem = None
        if self._is_another(answer.snapshot):
            self.history = History()
        if answer.unix_seconds != self.taken:
            self.taken, self.seen = answer.unix_seconds, now
            self.document = dict(answer.snapshot)
            self.history.add(answer.unix_seconds, self.document)
        elif now - self.seen > _OLD_SECONDS:
            self.problem = f"{self.target}: nothing new for {now - self.seen:.0f} s"

    def _is_another(self, document: Mapping[str, Any]) -> bool:
        """Whether another process has this port by now: what was before is not its past."""
        before, now = self.document.get("process") or {}, document.get("process") or {}
        return bool(before) and before.get("pid") != now.get("pid")

    def fail(self, why: str) -> None:
        """Keep what was known, and say why there is nothing newer."""
        self.client.close()
        self.problem = why

    @property
    def is_a_wrong_guess(self) -> bool:
        return self.target.guessed and not self.document and self.problem is not None

    @property
    def observed(self) -> Observed:
        return Observed(str(self.target), self.document, self.problem)

    def view(self, loop: str | None) -> View:
        """What is drawn of it, with the chosen loop in full."""
        return View(self.document, self.history.trend(), wanted_loop=loop)


class Watch:
    """All that are watched. `find` names them, and is asked again now and then."""

    def __init__(self, find: Callable[[], Sequence[Target]], access: Access) -> None:
        self._find, self._access = find, access
        self._found = -_DIRECTORY_SECONDS
        self._named: list[Target] = []
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="jaxobs-top")
        self._under_way: dict[Future[Answer], Watched] = {}
        self.ranks: list[Watched] = []

    def refresh(self, timeout: float) -> None:
        """Ask all that are not being asked, and take what comes within `timeout` seconds; the rest comes later.

        Raises UsageError where nothing can be found.
        """
        if monotonic() - self._found >= _DIRECTORY_SECONDS:
            self._found = monotonic()
            self._admit(self._find())
        asked: list[Watched] = []
        deadline = monotonic() + timeout
        while True:
            self._ask([rank for rank in self.ranks if rank not in asked])
            asked = list(self.ranks)  # answers may name others, which are asked at once
            left = deadline - monotonic()
            if not self._under_way or left <= 0:
                return
            done, _ = wait(self._under_way, left, "FIRST_COMPLETED")
            for future in done:
                self._take(future, self._under_way.pop(future))

    def _ask(self, ranks: Sequence[Watched]) -> None:
        """All of these that have answered what they were asked before."""
        silent = list(self._under_way.values())
        for rank in ranks:
            if rank not in silent:
                self._under_way[self._pool.submit(rank.client.fetch)] = rank

    def problems(self) -> list[str]:
        """Why there is nothing newer of those that were named by the user, each in a line."""
        named = set(distinct(self._find()))
        return [rank.problem for rank in self.ranks if rank.problem and rank.target in named]

    def close(self) -> None:
        """Waits for no answer: fetches that are under way fail."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for rank in self.ranks:
            rank.client.close()

    def _take(self, future: Future[Answer], rank: Watched) -> None:
        try:
            answer = future.result()
        except NothingListensError as error:
            rank.fail(
                f"the job has ended, or its agent is lost: {error}" if rank.document else f"{error}: {_ASK}"
            )
        except NoSnapshotError as error:
            rank.fail(str(error))
        else:
            rank.take(answer, monotonic())
            self._admit([target_of(address) for address in answer.neighbours])
            self.ranks.sort(key=_place)
        if rank.is_a_wrong_guess:
            self.ranks.remove(rank)

    def _admit(self, targets: Sequence[Target]) -> None:
        """Add the targets that are new; one that was no server of jaxobs is not asked again."""
        known, self._named = set(self._named), distinct([*self._named, *targets])
        self.ranks += [
            Watched(target, SnapshotClient(target, self._access))
            for target in self._named
            if target not in known
        ]


def _place(rank: Watched) -> tuple[str, int, str]:
    process = rank.document.get("process") or {}
    index = process.get("process_index")
    return str(process.get("run") or ""), index if isinstance(index, int) else MOST_TARGETS, str(rank.target)
