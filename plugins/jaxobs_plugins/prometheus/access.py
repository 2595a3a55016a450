"""Who may read: the server's token and TLS certificate, and the host names that requests without a token may use.

The names are a defence against DNS rebinding. A web page can make its own name point at an address that only the browser
reaches, and then read the answer. The Host header gives it away: it has the page's name, which is none of ours.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import re
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxobs.plugin.files import open_regular

TOKEN_FILE = "metrics_token_file"  # noqa: S105  # the setting's name
CERTIFICATE = "metrics_tls_certificate"
KEY = "metrics_tls_key"
MAX_FILE_BYTES = 1 << 20
"""Largest file that is read. A certificate in PEM form takes some 2 kB, and a chain has a handful."""
MAX_TOKEN_BYTES = 4096
"""Longest token, a quarter of the longest head of a request that is read."""

_TOKEN = re.compile(rb"[A-Za-z0-9\-._~+/]+=*")  # RFC 6750, section 2.1: what may follow `Bearer`


class CredentialsError(ValueError):
    """A file of the settings cannot be used; the message says which, why and what to do."""


class Token:
    """A secret that can be compared but not read back."""

    def __init__(self, secret: bytes) -> None:
        self._digest = hashlib.sha256(secret).digest()

    def admits(self, authorization: str) -> bool:
        """Whether an `Authorization` header carries the token; compared in constant time."""
        scheme, _, given = authorization.partition(" ")
        return self._is(given.strip().encode("latin-1", "replace")) and scheme.lower() == "bearer"

    def admits_browser(self, authorization: str) -> bool:
        """Whether the header carries the token as a password for any user name (`Basic`, RFC 7617), as browsers do."""
        scheme, _, given = authorization.partition(" ")
        try:
            decoded = base64.b64decode(given.strip(), validate=True)
        except ValueError:
            return False
        return self._is(decoded.partition(b":")[2]) and scheme.lower() == "basic"

    def _is(self, given: bytes) -> bool:
        return hmac.compare_digest(hashlib.sha256(given).digest(), self._digest)


class Credentials:
    """The `token` and `tls` context last read; None where the settings name none, and before `read` has succeeded."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Reads no file. Raises CredentialsError where the settings contradict each other."""
        self._paths = {
            name: Path(settings[name]) for name in (TOKEN_FILE, CERTIFICATE, KEY) if settings.get(name)
        }
        if KEY in self._paths and CERTIFICATE not in self._paths:
            raise CredentialsError(f"the setting {KEY} needs the setting {CERTIFICATE}")
        self.token: Token | None = None
        self.tls: ssl.SSLContext | None = None
        self._digest = b""
        """That of the certificate and its key."""

    @property
    def named(self) -> str:
        """The settings and their files, for messages; empty where there are none."""
        return ", ".join(f"{name}: {path}" for name, path in self._paths.items())

    def read(self) -> None:
        """Read the files, to use what is new. Raises CredentialsError; what was read before then stays in use."""
        if TOKEN_FILE in self._paths:
            self.token = self._read_token()
        if CERTIFICATE in self._paths:
            # OpenSSL opens the files itself, and would wait for a FIFO.
            held = b"".join(self._content(setting) for setting in self._paths if setting != TOKEN_FILE)
            if (digest := hashlib.sha256(held).digest()) != self._digest:
                self.tls, self._digest = self._read_certificate(), digest

    def _read_token(self) -> Token:
        secret = self._content(TOKEN_FILE).strip()
        if len(secret) > MAX_TOKEN_BYTES or not _TOKEN.fullmatch(secret):
            raise CredentialsError(
                f"{TOKEN_FILE}: {self._paths[TOKEN_FILE]} does not hold one token of letters, digits and -._~+/;"
                " `openssl rand -hex 32` makes one"
            )
        return Token(secret)

    def _read_certificate(self) -> ssl.SSLContext:
        certificate, key_file = self._paths[CERTIFICATE], self._paths.get(KEY)
        try:
            return server_context(certificate, key_file)
        except OSError as error:
            reason = getattr(error, "reason", None) or error.strerror or error
            raise CredentialsError(
                f"{CERTIFICATE}: {certificate} with the key in {key_file or 'the same file'} cannot be used: "
                f"{reason}; both must be PEM, belong together, and have no passphrase"
            ) from error

    def _content(self, setting: str) -> bytes:
        path = self._paths[setting]
        try:
            with open_regular(path) as file:
                content = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise CredentialsError(f"{setting}: {path} cannot be read: {error.strerror}") from error
        if len(content) > MAX_FILE_BYTES:
            raise CredentialsError(f"{setting}: {path} is larger than {MAX_FILE_BYTES} bytes")
        return content


def server_context(certificate: Path, key: Path | None = None) -> ssl.SSLContext:
    """A server's TLS context from PEM files. Raises ssl.SSLError or another OSError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    # Without a password OpenSSL would ask for one at the job's terminal.
    context.load_cert_chain(certificate, key, password=lambda: b"")
    return context


HOSTS_VARIABLE = "JAXOBS_METRICS_HOSTS"

_AUTHORITY = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^\[\]:@/?#\s]*))(?::\d*)?")
# Nobody can register a name below these: RFC 6761, RFC 6762, RFC 8375, ICANN's resolution 2024.07.29.06, and `svc`,
# which ends names of Kubernetes services and is no top-level domain.
_PRIVATE = (".localhost", ".local", ".home.arpa", ".internal", ".svc")


def local_names(
    *,
    from_network: bool,
    hosts_file: Path = Path("/etc/hosts"),
    resolver_file: Path = Path("/etc/resolv.conf"),
) -> set[str]:
    """This host's names by its files, without a name server, which may take long to answer.

    On a server that can be reached `from_network` also the domains in which this host looks names up, each with a dot
    before it: `.cluster.local` in a pod, say.
    """
    own = _normal(socket.gethostname())
    searched = [words for keyword, *words in _lines(resolver_file) if keyword in {"search", "domain"}]
    domains = {domain for words in searched for word in words if (domain := _normal(word))}
    names = {own, *(f"{own}.{domain}" for domain in domains)} if own else set()
    for _, *aliases in _lines(hosts_file):
        if own in map(_normal, aliases):
            names.update(map(_normal, aliases))
    if from_network:
        names |= {f".{domain}" for domain in domains if "." in domain}
    return names


class AllowedHosts:
    """The Host headers that are answered without a token.

    Always: addresses, which cannot be made to point elsewhere, `localhost`, and the names that are `allowed`, those of
    this host and the user's (`.example.org`: all below it; `*`: all). On a server that can be reached `from_network`,
    also names that no stranger can register in the public DNS: those without a dot and under private top-level domains.
    """

    def __init__(self, allowed: Iterable[str], *, from_network: bool) -> None:
        given = {each for name in allowed if (each := _normal(name))}
        self._any = "*" in given
        self._names = {"localhost"} | {name for name in given if not name.startswith(".")}
        self._endings = (".localhost", *(given - self._names), *(_PRIVATE if from_network else ()))
        self._from_network = from_network

    def admit(self, authority: str) -> bool:
        """Whether a Host header (`host` or `host:port`) is allowed. An empty one is: no browser leaves it out."""
        if not authority:
            return True
        match = _AUTHORITY.fullmatch(authority)
        if match is None:
            return False
        name = _normal(match["six"] or match["name"] or "")
        is_given = self._any or name in self._names or name.endswith(self._endings)
        return is_given or _is_address(name) or (self._from_network and "." not in name)


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


def _lines(path: Path) -> Iterator[list[str]]:
    """The words of each line that has any; none where the file cannot be read."""
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        if words := line.partition("#")[0].split():
            yield words
