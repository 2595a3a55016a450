"""Loads the server's certificate from files, and finds out until when clients accept it."""

from __future__ import annotations

import ssl
import time
from contextlib import suppress
from dataclasses import dataclass

SOON_SECONDS = 14 * 86_400.0
"""Time before the end of a certificate from which it is reported: enough notice to renew it by hand, and less than the
month before the end at which tools renew certificates of 90 days."""

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_NO_CHECK_TIME = 0x200000  # OpenSSL's X509_V_FLAG_NO_CHECK_TIME (x509_vfy.h), which `ssl` gives no name


@dataclass(frozen=True, slots=True)
class Validity:
    """The times at which a certificate begins and ends, in Unix seconds, or in `unknown` why they could not be read."""

    begins: float = 0.0
    ends: float = float("inf")
    unknown: str | None = None

    def problem(self, now: float) -> str | None:
        """A sentence on what is wrong with the certificate at `now` (Unix seconds), or soon will be; else None."""
        if self.unknown is not None:
            return f"when it expires could not be found out: {self.unknown}"
        if now < self.begins:
            return f"it is not valid before {_date(self.begins)}, and clients refuse it until then"
        if now >= self.ends:
            return f"it expired on {_date(self.ends)}, and clients refuse it"
        left = self.ends - now
        return (
            f"it expires on {_date(self.ends)}, in {left / 86_400:.1f} days" if left < SOON_SECONDS else None
        )


def server_context(certificate: str, key: str | None = None) -> ssl.SSLContext:
    """A server's TLS context from the paths of PEM files. Raises ssl.SSLError or another OSError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    # Without a password OpenSSL would ask for one at the job's terminal.
    context.load_cert_chain(certificate, key, password=lambda: b"")
    return context


def trusting(chain: str) -> ssl.SSLContext:
    """A client's context that trusts the first certificate of a PEM text, whoever signed it and whatever names it has.

    Only the first one is trusted, which is the server's own: others in a chain would vouch for strangers too. Raises
    ValueError where there is none, and ssl.SSLError.
    """
    begin = chain.find(_BEGIN)
    end = chain.find(_END, begin)
    if begin < 0 or end < 0:
        raise ValueError(f"no {_BEGIN} in the file")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=chain[begin : end + len(_END)])
    return context


def validity(context: ssl.SSLContext, chain: str) -> Validity:
    """The validity of the certificate in a server's context, read with a handshake in memory.

    The public interface of `ssl` decodes a certificate only for a client that has verified it.
    """
    try:
        client = trusting(chain)
        client.verify_flags |= _NO_CHECK_TIME
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        asks = client.wrap_bio(to_client, to_server)
        shows = context.wrap_bio(to_server, to_client, server_side=True)
        for side in (asks, shows) * 3:  # TLS 1.2 takes each side three times, 1.3 fewer
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
        found = asks.getpeercert() or {}
        begins, ends = (ssl.cert_time_to_seconds(str(found[name])) for name in ("notBefore", "notAfter"))
    except ssl.SSLCertVerificationError as error:
        return Validity(unknown=f"OpenSSL does not verify it: {error.verify_message}")
    except (OSError, ValueError, KeyError) as error:
        return Validity(unknown=" ".join(str(error).split()))
    return Validity(begins, ends)


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))
