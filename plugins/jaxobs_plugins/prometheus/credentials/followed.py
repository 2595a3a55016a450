"""Credentials that follow their files while the job runs, without ever waiting for a file that does not answer."""

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
"""How long a start waits for the files. Half of what would make the agent call the exporter stuck."""
NEXT_SECONDS = 1.0
"""How late a snapshot is shown where the files begin not to answer, once: as late as the next one."""
REMINDER_SECONDS = 86_400.0
"""Between two lines about a certificate that expires."""


class NotYetReadError(CredentialsError):
    """The files have not answered yet; they may still."""


class FollowedCredentials:
    """`token` and `tls` as they were last read. For one thread; the two can be read from any.

    Token and certificate do not wait for each other: where the files of one do not answer, the other is followed on.
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
        """Raises CredentialsError before it is known, rather than let everybody in."""
        return self._held.token.value

    @property
    def tls(self) -> SSLContext | None:
        """Raises CredentialsError before it is known, rather than serve in the clear."""
        return self._held.tls

    def read_first(self) -> None:
        """Raises CredentialsError: NotYetReadError where they may still answer, another where they cannot be used."""
        for each in self._followed:
            each.read_first()
        self._remind()

    def follow(self) -> None:
        """Read the files again; what was read before stays in use, with a line in the log, where that fails."""
        for each in self._followed:
            each.follow()
        self._remind()

    def _remind(self) -> None:
        """Say what is wrong with the certificate, or soon will be: at once of a new one, and then once a day."""
        shown = self._held.certificate.value
        problem = None if shown is None else shown.validity.problem(wall_now() / NANOSECONDS)
        ago = math.inf if self._reminded_of is not shown else monotonic() - self._reminded
        if problem is not None and ago >= REMINDER_SECONDS:
            self._reminded_of, self._reminded = shown, monotonic()
            named = self._held.certificate.files[0]
            self._log(f"{named}: {problem}; a new one in its place is read while the job runs")


class _Followed:
    """One value and what was said of its files."""

    def __init__(self, value: FileValue[Any], log: Callable[[str], None]) -> None:
        self._value = value
        self._log = log
        self._reading = BackgroundCall(value.refresh, "jaxobs-credentials")
        self._said = ""

    def read_first(self) -> None:
        try:
            self._reading.result(FIRST_SECONDS)
        except NoAnswerError as silent:
            line = f"{self._where()}: {silent}; nothing is served until it can be read"
            raise NotYetReadError(line) from silent

    def follow(self) -> None:
        try:
            self._reading.result(NEXT_SECONDS)
        except NoAnswerError as silent:
            if silent.seconds >= NO_ANSWER_SECONDS:
                self._say_once(f"{self._where()} has not answered for {NO_ANSWER_SECONDS:.0f} s")
        except CredentialsError as error:
            self._say_once(str(error))
        else:
            self._said = ""

    def _where(self) -> object:
        return self._value.reading or self._value.files[0]

    def _say_once(self, problem: str) -> None:
        if problem != self._said:
            self._said = problem
            self._log(f"{problem}; what was read before stays in use, and it is tried again")
