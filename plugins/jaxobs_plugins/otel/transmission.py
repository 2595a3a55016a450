"""One attempt with an exporter of the SDK, and what became of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from google.protobuf.message import DecodeError

from jaxobs_plugins.otel.outcome import Outcome
from jaxobs_plugins.otel.session import OneAttemptSession, muted

if TYPE_CHECKING:
    from collections.abc import Callable

SdkExporter = TypeVar("SdkExporter")


class Transmission(Generic[SdkExporter]):
    """Makes the SDK's exporter at once, so that a variable it cannot use is reported when jaxobs starts.

    `rejected` reads from a receiver's answer how many items it did not take.
    """

    def __init__(
        self, make: Callable[[OneAttemptSession], SdkExporter], rejected: Callable[[bytes], int]
    ) -> None:
        self._session = OneAttemptSession()
        self._exporter = make(self._session)
        self._rejected = rejected

    def attempt(self, export: Callable[[SdkExporter], object], deadline: float | None) -> Outcome:
        """One request, over by `deadline` (monotonic seconds)."""
        self._session.deadline = deadline
        self._session.outcome = None
        with muted(self._exporter):
            export(self._exporter)
        outcome = self._session.outcome
        if outcome is None:
            # The SDK keeps back what it cannot encode and, in newer versions, requests above 64 MiB.
            return Outcome(
                "split", "the OpenTelemetry SDK made no request of it: too large, or not encodable"
            )
        if outcome.verdict != "delivered":
            return outcome
        try:
            return replace(outcome, rejected=self._rejected(self._session.answer))
        except DecodeError:  # accepted by something that does not answer in OTLP
            return outcome

    def close(self) -> None:
        """Close the connections that are kept open between requests."""
        self._session.close()
