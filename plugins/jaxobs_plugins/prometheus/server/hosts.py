"""The host names that requests without a token may use, as a defence against DNS rebinding.

A web page can make its own name point at an address that only the browser reaches, and then read the answer. The Host
header gives it away: it has the page's name, which is none of ours.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

HOSTS_VARIABLE = "JAXOBS_METRICS_HOSTS"

_AUTHORITY = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^\[\]:@/?#\s]*))(?::\d*)?")
# Nobody can register a name below these: RFC 6761, RFC 6762, RFC 8375, ICANN's resolution 2024.07.29.06, and `svc`,
# which ends names of Kubernetes services and is no top-level domain.
_PRIVATE = (".localhost", ".local", ".home.arpa", ".internal", ".svc")


@dataclass(frozen=True, slots=True)
class LocalNames:
    """This host's names, and the domains in which it looks names up: `cluster.local` in a pod, say."""

    names: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()

    @classmethod
    def of_this_host(
        cls, hosts_file: Path = Path("/etc/hosts"), resolver_file: Path = Path("/etc/resolv.conf")
    ) -> LocalNames:
        """Read the names of this host from its files, without a name server, which may take long to answer."""
        own = _normal(socket.gethostname())
        domains = frozenset(_search_domains(_lines(resolver_file)))
        names = {own} | {f"{own}.{domain}" for domain in domains}
        for _, *aliases in _lines(hosts_file):
            if own in map(_normal, aliases):
                names.update(map(_normal, aliases))
        return cls(frozenset(names - {""}), domains)


class AllowedHosts:
    """The Host headers that are answered without a token.

    Always: addresses, which cannot be made to point elsewhere, `localhost`, the names of this host, and those that the
    user has `allowed` (`.example.org`: all below it; `*`: all). On a server that can be reached `from_network`, also
    names that no stranger can register in the public DNS: those without a dot, under private top-level domains, and
    under the domains in which this host looks names up.
    """

    def __init__(self, local: LocalNames, allowed: Iterable[str], *, from_network: bool) -> None:
        given = {each for name in allowed if (each := _normal(name))}
        self._any = "*" in given
        self._names = local.names | {"localhost"} | {name for name in given if not name.startswith(".")}
        self._endings = (".localhost", *(name for name in given if name.startswith(".")))
        self._from_network = from_network
        if from_network:
            self._endings += (*_PRIVATE, *(f".{domain}" for domain in local.domains if "." in domain))

    def admit(self, authority: str) -> bool:
        """Whether a Host header (`host` or `host:port`) is allowed. An empty one is: no browser leaves it out."""
        if not authority:
            return True
        match = _AUTHORITY.fullmatch(authority)
        if match is None:
            return False
        name = _normal(match["six"] or match["name"] or "")
        return (
            self._any
            or _is_address(name)
            or name in self._names
            or name.endswith(self._endings)
            or (self._from_network and "." not in name)
        )


def refusal(authority: str) -> str:
    """One line for a client that used another name."""
    return (
        f"not served under the name {authority[:100]!r}: ask by address or by a name of this host,"
        f" or set {HOSTS_VARIABLE} to that name, or JAXOBS_METRICS_TOKEN_FILE"
    )


def _normal(name: str) -> str:
    return name.strip().lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _search_domains(lines: Iterable[list[str]]) -> Iterator[str]:
    for keyword, *domains in lines:
        if keyword in {"search", "domain"}:
            yield from (name for each in domains if (name := _normal(each)))


def _lines(path: Path) -> Iterator[list[str]]:
    """The words of each line that has any; none where the file cannot be read."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        if words := line.partition("#")[0].split():
            yield words
