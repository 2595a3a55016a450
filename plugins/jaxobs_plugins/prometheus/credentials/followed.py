"""Keeps credentials up to date with their files while the job runs, without waiting for a file that does not answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from jaxobs.model.clock import NANOSECONDS, monotonic, wall_now
from jaxobs_plugins.prometheus.background_call import NO_ANSWER_SECONDS, BackgroundCall, NoAnswerError
from jaxobs_plugins.prometheus.credentials.credentials import Credentials, ShownCertificate, Token
from jaxobs_plugins.prometheus.credentials.files import CredentialsError, FileValue

if TYPE_CHECKING:
    from ssl import SSLContext

FIRST_SECONDS = 5.0
"""Seconds that a start waits for the files: half the time after which the agent takes the exporter for stuck."""
NEXT_SECONDS = 1.0
"""Seconds to wait for files that stop answering; one snapshot is shown that much later, when the next one is due."""
REMINDER_SECONDS = 86_400.0
"""Seconds between two log lines about a certificate that expires."""


class NotYetReadError(CredentialsError):
    """The files have not been read yet, but may still answer."""


class FollowedCredentials:
    """The `token` and `tls` last read. Any thread may read these two; the methods are for one thread.

    Token and certificate do not wait for each other: if the files of one do not answer, the other is still followed.
    """

    def __init__(self, settings: Mapping[str, Any], log: Callable[[str], None]) -> None:
        """Raises CredentialsError where the settings contradict each other."""
        held = Credentials(settings)
        self._held = held
        self._log = log
        self._followed = [_Followed(value, log) for value in (held.token, held.certificate) if value.files]
        self._reminded = 0.0
        self._reminded_of: ShownCertificate | None = None

    @property
    def token(self) -> Token | None:
        """The required token. Raises CredentialsError before it is known, rather than let everybody in."""
        return self._held.token.value

    @property
    def tls(self) -> SSLContext | None:
        """The TLS context. Raises CredentialsError before it is known, rather than serve in the clear."""
        return self._held.tls

    def read_first(self) -> None:
        """Read the files. Raises NotYetReadError if they may still answer, another CredentialsError if unusable."""
        for each in self._followed:
            each.read_first()
        self._remind()

    def follow(self) -> None:
        """Read the files again. Where that fails, the earlier values stay in use and a line is logged."""
        for each in self._followed:
            each.follow()
        self._remind()

    def _remind(self) -> None:
        """Log what is wrong with the certificate, or soon will be: at once for a new one, and then once a day."""
        shown = self._held.certificate.value
        problem = None if shown is None else shown.validity.problem(wall_now() / NANOSECONDS)
        ago = math.inf if self._reminded_of is not shown else monotonic() - self._reminded
        if problem is not None and ago >= REMINDER_SECONDS:
            self._reminded_of, self._reminded = shown, monotonic()
            named = self._held.certificate.files[0]
            self._log(f"{named}: {problem}; a new one in its place is read while the job runs")


class _Followed:
    """One value that is read again, and the last problem that was logged of its files."""

    def __init__(self, value: FileValue[Any], log: Callable[[str], None]) -> None:
        self._value = value
        self._log = log
        self._reading = BackgroundCall(value.refresh, "jaxobs-credentials")
        self._said = ""

    def read_first(self) -> None:
        try:
            self._reading.result(FIRST_SECONDS)
        except (NoAnswerError, OSError) as problem:
            line = f"{self._where()}: {problem}; nothing is served until it can be read"
            raise NotYetReadError(line) from problem

    def follow(self) -> None:
        try:
            self._reading.result(NEXT_SECONDS)
        except NoAnswerError as silent:
            if silent.seconds >= NO_ANSWER_SECONDS:
                self._say_once(f"{self._where()} has not answered for {NO_ANSWER_SECONDS:.0f} s")
        except (CredentialsError, OSError) as error:
            self._say_once(str(error))
        else:
            self._said = ""

    def _where(self) -> object:
        return self._value.reading or self._value.files[0]

    def _say_once(self, problem: str) -> None:
        if problem != self._said:
            self._said = problem
            self._log(f"{problem}; what was read before stays in use, and it is tried again")
