"""The token that requests must bring and the server's certificate, from the files that the settings name."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxobs_plugins.prometheus.credentials.files import CredentialsError, FileValue, NamedFile, OpenFile

if TYPE_CHECKING:
    from ssl import SSLContext

    from jaxobs_plugins.prometheus.credentials.certificate import Validity

TOKEN_FILE = "metrics_token_file"  # noqa: S105  # the setting's name
CERTIFICATE = "metrics_tls_certificate"
KEY = "metrics_tls_key"
MOST_TOKEN_BYTES = 4096
"""Longest token, a quarter of the longest head of a request that is read."""

_TOKEN = re.compile(rb"[A-Za-z0-9\-._~+/]+=*")  # RFC 6750, section 2.1: what may follow `Bearer`


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


@dataclass(frozen=True, slots=True)
class ShownCertificate:
    """A TLS context with the server's certificate and key, and the certificate's validity."""

    context: SSLContext
    validity: Validity


class Credentials:
    """The `token` and `certificate` that the settings name; each has no value where they name none."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Reads no file. Raises CredentialsError where the settings contradict each other."""
        token, certificate, key = (
            NamedFile(name, Path(settings[name])) if settings.get(name) else None
            for name in (TOKEN_FILE, CERTIFICATE, KEY)
        )
        if key is not None and certificate is None:
            raise CredentialsError(f"the setting {KEY} needs the setting {CERTIFICATE}")
        self.token = FileValue((token,), _read_token)
        self.certificate = FileValue((certificate, key), _load_certificate)

    @property
    def tls(self) -> SSLContext | None:
        """The server's TLS context; None where the settings name none. Raises CredentialsError before it is read."""
        shown = self.certificate.value
        return None if shown is None else shown.context


def _read_token(files: Sequence[OpenFile]) -> Token:
    [file] = files
    secret = file.content.strip()
    if len(secret) > MOST_TOKEN_BYTES or not _TOKEN.fullmatch(secret):
        raise CredentialsError(
            f"{file.named} does not hold one token of letters, digits and -._~+/;"
            " `openssl rand -hex 32` makes one"
        )
    return Token(secret)


def _load_certificate(files: Sequence[OpenFile]) -> ShownCertificate:
    # Imported only where it is used, because it loads `ssl`: an inline agent runs in the training process.
    from jaxobs_plugins.prometheus.credentials.certificate import server_context, validity

    certificate, *keys = files
    try:
        context = server_context(certificate.path, *(key.path for key in keys))
    except OSError as error:
        where = keys[0].named.path if keys else "the same file"
        reason = getattr(error, "reason", None) or error.strerror or error
        raise CredentialsError(
            f"{certificate.named} with the key in {where} cannot be used: {reason};"
            " both must be PEM, belong together, and have no passphrase"
        ) from error
    return ShownCertificate(context, validity(context, certificate.content.decode("ascii", "replace")))
