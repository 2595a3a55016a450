"""Over TLS: whom the variables trust, who the variables say we are, and nobody else."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import pytest

from tests.conftest import Certificates
from tests.otel.job import Harness, Receiver, make_spans


@pytest.fixture
def secure(certificates: Certificates) -> Iterator[Receiver]:
    """A receiver that shows `leaf`, and asks for a certificate of the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.leaf, certificates.key)
    context.load_verify_locations(certificates.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    receiver = Receiver(context)
    yield receiver
    receiver.server.shutdown()
    receiver.server.server_close()


def sent(harness: Harness) -> None:
    harness.start()
    harness.export(make_spans(2))
    harness.stop(2.0)


def test_a_receiver_with_a_certificate_of_the_named_authority_is_trusted(
    harness: Harness, secure: Receiver, certificates: Certificates, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", secure.endpoint)
    environment.setenv("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", str(certificates.authority))
    environment.setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", str(certificates.leaf))
    environment.setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", str(certificates.key))
    sent(harness)
    assert (len(secure.spans()), harness.failures) == (2, [])


@pytest.mark.parametrize("trusted", ["nobody", "other"])
def test_any_other_receiver_is_given_nothing_and_the_reason_is_said(
    harness: Harness,
    secure: Receiver,
    certificates: Certificates,
    environment: pytest.MonkeyPatch,
    trusted: str,
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", secure.endpoint)
    if trusted == "other":
        environment.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(certificates.other))
    sent(harness)
    assert secure.requests == []
    assert "certificate verify failed" in harness.failures[-1]
    assert harness.agent.dropped("traces") == 2
