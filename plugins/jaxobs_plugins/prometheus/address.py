"""Where this process is found: the socket that it listens at, and `file_sd` files, its own and those of other ranks."""

from __future__ import annotations

import errno
import ipaddress
import json
import math
import os
import re
import socket
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import psutil

from jaxobs.model.addresses import (
    HOST_VARIABLE,
    INSTANCE_LABEL,
    LAST_PORT,
    MAX_BYTES,
    PORT_VARIABLE,
    PORTS_TRIED,
    RANK_LABEL,
    RUN_ID_LABEL,
    RUN_LABEL,
    SCHEME_LABEL,
    Address,
    AddressError,
    ScrapeTarget,
    read_targets,
)
from jaxobs.model.clock import monotonic
from jaxobs.plugin.files import DRAFT_NAME, open_regular, temporary_directory, write_whole
from jaxobs.report.view import Rank
from jaxobs.vocabulary.text import clean_label
from jaxobs_plugins.prometheus.file_work import FileWork

_BACKLOG = 128  # connections the kernel keeps while the server is busy rendering
LOOK_SECONDS = 5.0
"""Seconds between looks for other ranks, while somebody looks at the page, and after which one tells of itself anew."""
FIRST_LOOK_SECONDS = 2.0
"""Seconds for which the first who asks waits for the first look: most who ask once want to know the others. The directory
mostly lies in memory, or on a disk of this host."""
MAX_FILES = 128
"""Most files that are read in one look, two of each rank where a directory is named."""

RANK = "jax.process_index"
RUN_ID = "jaxobs.run_id"
INSTANCE = "service.instance.id"
_KEPT = {RUN_LABEL: "jaxobs.run", RUN_ID_LABEL: RUN_ID, RANK_LABEL: RANK}


def listen(wanted: Address, may_move: bool) -> tuple[socket.socket, Address]:
    """A listening socket and its actual address.

    Where the port is taken and `may_move` is true, it is the next free one, or after `PORTS_TRIED` any free one.
    Raises AddressError.
    """
    if may_move:
        ports = [*range(wanted.port, min(wanted.port + PORTS_TRIED, LAST_PORT + 1)), 0]
    else:
        ports = [wanted.port] if wanted.port <= LAST_PORT else []
    for port in ports:
        try:
            listener = _bind(wanted.host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise AddressError(
                    f"cannot serve metrics at {Address(wanted.host, port).netloc(wildcard_host=wanted.host)}: "
                    f"{error.strerror}; set {HOST_VARIABLE} to a name or address of this host, and {PORT_VARIABLE} to "
                    "a port above 1023"
                ) from error
        else:
            return listener, Address(wanted.host, listener.getsockname()[1])
    reason = "the port is taken" if wanted.port <= LAST_PORT else "there is no such port"
    raise AddressError(
        f"cannot serve metrics at {wanted.netloc()}: {reason}, and in Kubernetes it must not move;"
        f" set {PORT_VARIABLE} to a free one"
    )


def is_open_to_network(listener: socket.socket) -> bool:
    """Whether a listening socket can be reached from other hosts, because its address is no loopback address."""
    return not ipaddress.ip_address(listener.getsockname()[0]).is_loopback


def _bind(host: str, port: int) -> socket.socket:
    if host == "localhost":
        return socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except UnicodeError:  # of IDNA, as by an empty or a long part between two dots
        raise OSError(errno.EINVAL, "no host has such a name") from None
    family, _, _, _, destination = found[0]
    both = family == socket.AF_INET6 and host == "::" and socket.has_dualstack_ipv6()
    return socket.create_server(destination[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=both)


def target_group(target: str, resource: Mapping[str, str], scheme: str = "http") -> list[dict[str, object]]:
    """The content of the file: one target (`host:port`) and its labels.

    `jaxobs_run`, its id and `jaxobs_rank` stay on every series, so that successive runs on one port, and ranks that moved
    to another port, are not joined into one line; no metric but `target_info` has labels of these names.
    `__scheme__` tells Prometheus to use TLS, whatever its scrape job is configured for. `__param_instance` makes it
    request this process alone: it notices a changed file some seconds late, and would otherwise take the next run on a
    port for the last one.
    """
    kept = {label: resource.get(name, "") for label, name in _KEPT.items()}
    labels = {label: clean_label(value) for label, value in kept.items() if value}
    if instance := resource.get(INSTANCE):
        labels[INSTANCE_LABEL] = instance
    if scheme != "http":
        labels[SCHEME_LABEL] = scheme
    return [{"targets": [target], "labels": labels}]


def meeting_place(environment: Mapping[str, str] = os.environ) -> Path | None:
    """A directory in which the ranks of this user on this host find each other where no other was named.

    It is below XDG_RUNTIME_DIR (XDG Base Directory Specification), else below the system's temporary directory. None if
    there is neither, or if what lies there is another user's or open to others: a page would link to what they wrote.
    """
    base: Path | None = Path(environment.get("XDG_RUNTIME_DIR", ""))
    name = "jaxobs"
    if not (base and base.is_absolute() and base.is_dir()):
        base, name = temporary_directory(), f"jaxobs-{os.getuid()}"
    if base is None:
        return None
    try:
        found = (base / name).lstat()
    except FileNotFoundError:
        return base / name
    except OSError:
        return None
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return base / name if is_ours else None


class TargetFile:
    """The target file of this process, named by host, process and port, in a directory that others may share.

    Containers of one host's network may have processes of one number, but no port twice. Metrics are served even if it
    cannot be written.
    """

    def __init__(
        self, directory: Path, target: str, scheme: str, log: Callable[[str], None], *, private: bool = False
    ) -> None:
        """`private`: the directory is for this user's pages alone. Prometheus refuses a file with keys of others."""
        self._directory = directory
        self._target = target
        self._scheme = scheme
        self._log = log
        self._private = private
        self._written = ""
        self.path = directory / f"jaxobs-{_host_in_names()}-{os.getpid()}-{target.rpartition(':')[2]}.json"
        self._resource: Mapping[str, str] | None = None
        self._row: Mapping[str, Any] | None = None
        self._told = 0.0
        self._withdrawn = False
        meanwhile = "Prometheus is not told of this process"
        self._work = FileWork(
            self._bring_about, directory, lambda problem: log(f"file_sd: {problem}; {meanwhile}")
        )

    def publish(self, resource: Mapping[str, str], row: Mapping[str, Any] | None = None) -> None:
        """Have these attributes written to the file where they are new, and every few seconds, with the `row` of then.

        Does nothing until the launcher or JAX has named the rank: it is a label of every series, and adding it later
        would split each series in two.
        """
        if RANK in resource and (resource != self._resource or monotonic() - self._told >= LOOK_SECONDS):
            self._resource, self._row, self._told = dict(resource), row, monotonic()
            self._work.soon()

    def withdraw(self, timeout: float) -> None:
        """Have the file removed as soon as its directory answers; wait `timeout` seconds for that."""
        self._withdrawn = True
        if self._resource is not None and not self._work.done(timeout):
            self._log(f"file_sd: {self.path}: no answer; remove the file yourself")

    def _bring_about(self) -> None:
        """Write or remove the file. Raises OSError."""
        if self._resource is not None and not self._withdrawn:
            self.write(self._resource, self._row)
        if self._withdrawn:  # perhaps only since the check above
            self.path.unlink(missing_ok=True)

    def write(self, resource: Mapping[str, str], row: Mapping[str, Any] | None = None) -> None:
        """Write the file where it is missing or out of date, a private one with the `row` for pages. Raises OSError.

        It may be missing because a process in another container of the same host name, which cannot see this one, took
        it for a dead process's and removed it.
        """
        told = {"row": row} if row and self._private else {}
        groups = [group | told for group in target_group(self._target, resource, self._scheme)]
        text = json.dumps(groups, indent=2) + "\n"
        if text == self._written and self.path.is_file() and not self.path.is_symlink():
            return
        # Without its parents: a mistyped path must not be created.
        self._directory.mkdir(0o700 if self._private else 0o777, exist_ok=True)
        if not self._written:
            self._remove_stale()
        write_whole(self.path, text.encode())  # its draft is not matched by Prometheus's `*.json`
        self._written = text

    def _remove_stale(self) -> None:
        """Remove the files that killed processes of this host left behind, as far as this user may."""
        name = _names_of_this_host()
        for path in self._directory.iterdir():
            draft = DRAFT_NAME.fullmatch(path.name)
            match = name.fullmatch(draft["name"] if draft else path.name)
            if match and not psutil.pid_exists(int(match["process"])):
                with suppress(OSError):
                    path.unlink()


class Neighbours:
    """The ranks of this run on this host that have files in these directories, and those of other runs of its name."""

    def __init__(self, directories: Sequence[Path], resource: Mapping[str, str]) -> None:
        self._directories = directories
        self._resource = resource
        self._known: tuple[Rank, ...] = ()
        self._looked = -math.inf
        self._work = FileWork(self._look, directories, lambda _: None)

    def ranks(self) -> tuple[Rank, ...]:
        """The ranks found last. Looks again every few seconds, for a later call; the first look is waited for."""
        is_first = self._looked == -math.inf
        if monotonic() - self._looked >= LOOK_SECONDS:
            self._looked = monotonic()
            self._work.done(FIRST_LOOK_SECONDS if is_first else 0.0)
        return self._known

    def _look(self) -> None:
        name = _names_of_this_host()
        every = chain(*(directory.iterdir() for directory in self._directories if directory.is_dir()))
        found: dict[ScrapeTarget, ScrapeTarget] = {}
        for path in sorted(path for path in every if name.fullmatch(path.name))[:MAX_FILES]:
            # Else the file was removed meanwhile, or is not one of ours.
            with suppress(OSError, ValueError), open_regular(path) as file:
                for target in read_targets(file.read(MAX_BYTES)):
                    if target.row is not None or target not in found:
                        found[target] = target
        run, run_id, own = (self._resource.get(key, "") for key in ("jaxobs.run", RUN_ID, INSTANCE))
        ranks = []
        for target in sorted(found.values()):
            if target.run == run:
                address = None if target.instance == own else target.address
                of = "" if target.run_id == run_id else target.run_id
                ranks.append(Rank(f"rank {target.rank}", address, target.row, of))
        self._known = tuple(ranks)


def _names_of_this_host() -> re.Pattern[str]:
    """The names of the target files of this host's processes; Linux has no process beyond 2^22."""
    return re.compile(rf"jaxobs-{re.escape(_host_in_names())}-(?P<process>\d{{1,7}})-\d{{1,5}}\.json")


def _host_in_names() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname())
