"""The token that requests must bring and the certificate that is shown, read from files and again when these change."""

from __future__ import annotations

import hashlib
import hmac
import re
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from ssl import SSLContext
    from typing import Any

TOKEN_FILE = "metrics_token_file"  # noqa: S105  # the setting's name
CERTIFICATE = "metrics_tls_certificate"
KEY = "metrics_tls_key"
MOST_TOKEN_BYTES = 4096
"""A quarter of the longest head of a request that is read."""

_TOKEN = re.compile(rb"[A-Za-z0-9\-._~+/]+=*")  # RFC 6750, section 2.1: what may follow `Bearer`

Stamps = tuple[tuple[int, int, int], ...]
Value = TypeVar("Value")


class CredentialsError(ValueError):
    """A file of the settings cannot be used; the message says which, why and what to do. Nothing is served then."""


class Token:
    """A secret that can be compared and not be read back."""

    def __init__(self, secret: bytes) -> None:
        self._digest = hashlib.sha256(secret).digest()

    def admits(self, authorization: str) -> bool:
        """Whether an `Authorization` header brings it; the time taken does not tell how much of it is right."""
        scheme, _, given = authorization.partition(" ")
        digest = hashlib.sha256(given.strip().encode("latin-1", "replace")).digest()
        return hmac.compare_digest(digest, self._digest) and scheme.lower() == "bearer"


class Kept(Generic[Value]):
    """What was read from files, and is read again when they change: `value`. Raises CredentialsError."""

    def __init__(self, paths: Iterable[Path | None], read: Callable[[], Value]) -> None:
        self._paths = [path for path in paths if path is not None]
        self._read = read
        self._stamps = self._read_stamps()
        self._told: tuple[Stamps, str] | None = None
        self.value = read()

    def refresh(self) -> bool:
        """Read the files again if they have changed, or could not be read; whether there is a new value.

        Raises CredentialsError, once for each reason and state of the files, and keeps what it has: a file may be
        unreadable for a moment, or become readable without being written.
        """
        stamps = self._read_stamps()
        if stamps == self._stamps:
            return False
        try:
            self.value = self._read()
        except CredentialsError as error:
            told, self._told = self._told, (stamps, str(error))
            if told == self._told:
                return False
            raise
        self._stamps, self._told = stamps, None
        return True

    def _read_stamps(self) -> Stamps:
        """Of each file something that differs when it was written or replaced; 0 where it is not there."""
        stamps = []
        for path in self._paths:
            try:
                about = path.stat()
            except OSError:
                stamps.append((0, 0, 0))
            else:
                stamps.append((about.st_mtime_ns, about.st_ino, about.st_size))
        return tuple(stamps)


class Credentials:
    """What the settings ask for: `token` and `tls`, None where they ask for none. Raises CredentialsError."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        token, certificate, key = (
            Path(settings[name]) if settings.get(name) else None for name in (TOKEN_FILE, CERTIFICATE, KEY)
        )
        if key is not None and certificate is None:
            raise CredentialsError(f"the setting {KEY} needs the setting {CERTIFICATE}")
        self._token = Kept((token,), lambda: None if token is None else _read_token(token))
        self._tls = Kept(
            (certificate, key), lambda: None if certificate is None else _load_tls(certificate, key)
        )

    @property
    def token(self) -> Token | None:
        return self._token.value

    @property
    def tls(self) -> SSLContext | None:
        return self._tls.value

    def refresh(self) -> bool:
        """Read the files again where it is time; whether anything is new.

        Raises CredentialsError after both were looked at: a certificate that cannot be used keeps no token in use that
        was replaced.
        """
        changed, problems = False, []
        for kept in (self._token, self._tls):
            try:
                changed |= kept.refresh()
            except CredentialsError as error:
                problems.append(str(error))
        if problems:
            raise CredentialsError("; ".join(problems))
        return changed


def _read_token(path: Path) -> Token:
    try:
        with path.open("rb") as file:
            secret = file.read(MOST_TOKEN_BYTES + 1).strip()
    except OSError as error:
        raise CredentialsError(f"{TOKEN_FILE}: {path} cannot be read: {error.strerror}") from error
    if len(secret) > MOST_TOKEN_BYTES or not _TOKEN.fullmatch(secret):
        raise CredentialsError(
            f"{TOKEN_FILE}: {path} does not hold one token of letters, digits and -._~+/;"
            " `openssl rand -hex 32` makes one"
        )
    return Token(secret)


def _load_tls(certificate: Path, key: Path | None) -> SSLContext:
    import ssl  # loaded only where it is used: inline, this is the training process

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        # Without a password OpenSSL would ask for one at the job's terminal.
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except ssl.SSLError as error:
        raise CredentialsError(
            f"{CERTIFICATE}: {certificate} with the key in {key or 'the same file'} cannot be used:"
            f" {error.reason or error}; both must be PEM, belong together, and have no passphrase"
        ) from error
    except OSError as error:
        path = certificate if key is None or not _is_readable(certificate) else key
        raise CredentialsError(
            f"{KEY if path == key else CERTIFICATE}: {path} cannot be read: {error.strerror}"
        ) from error
    return context


def _is_readable(path: Path) -> bool:
    try:
        path.open("rb").close()
    except OSError:
        return False
    return True
