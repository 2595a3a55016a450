"""Reads the `OTEL_…` variables: where each signal is sent, and how.

Their meaning is that of the OpenTelemetry specification:
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and
https://opentelemetry.io/docs/specs/otel/protocol/exporter/
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Literal, TypeVar
from urllib.parse import unquote, urlsplit

SignalName = Literal["traces", "metrics", "profiles"]
Number = TypeVar("Number", int, float)
COMMON_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PROTOCOL = "http/protobuf"
"""The only protocol that is supported, and the specification's default."""

PROFILES_SINCE = [1, 40]
"""First version of opentelemetry-proto with the form that is sent: earlier ones have no table of stacks."""

_HEEDED = {
    "OTEL_TRACES_SAMPLER": ("always_on", "parentbased_always_on", "always_off"),
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": ("cumulative",),
    "OTEL_EXPORTER_OTLP_COMPRESSION": ("none", "gzip"),
}
"""By variable of which some values alone are heeded, those values; the first is what is done."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+")
_HEADER_VALUE = re.compile(r"[\x21-\x7e\x80-\xff]([\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?")
"""By RFC 9110, 5.1 and 5.5. `requests` quotes what it refuses, so that nothing else may get there."""

OWN_HEADERS = ("content-type", "user-agent", "content-encoding")
"""Names of the headers that say what is sent, and by whom."""

MAX_NUMBER = 2**31 - 1
"""Largest number that is used, of milliseconds or items: no thread can wait for as long as a larger one may say."""

DEFAULT_TIMEOUT = 10.0
"""Seconds; the specification's default for OTEL_EXPORTER_OTLP_TIMEOUT."""


@dataclass(frozen=True, slots=True)
class Destination:
    """The endpoint of a signal, without credentials so that messages can show it; None where it is not sent.

    `variable` names it. `problem` says why it is not sent although an endpoint was named; otherwise it is empty.
    """

    signal: SignalName
    variable: str
    endpoint: str | None
    problem: str = ""


def destination(signal: SignalName, environment: Mapping[str, str]) -> Destination:
    """The destination of one signal according to the variables."""
    variable, url = _option(signal, "ENDPOINT", environment)
    names = (environment.get(f"OTEL_{signal.upper()}_EXPORTER") or "otlp").split(",")
    exporters = {name.strip().lower() for name in names}
    if not url or not _is_wanted(signal, variable, exporters, environment):
        return Destination(signal, variable, None)

    def not_sent(why: str) -> Destination:
        return Destination(signal, variable, None, f"{signal} are not sent: {why}")

    if signal == "profiles" and (installed := _older_form()):
        return not_sent(f"opentelemetry-proto {installed} has no such form of them; 1.40 has")
    asked = _option(signal, "PROTOCOL", environment)[1].lower() or PROTOCOL
    named = {"otlp_proto_grpc": "grpc", "otlp_proto_http": PROTOCOL}
    protocol = next((named[name] for name in named if name in exporters), asked)
    if protocol != PROTOCOL:
        return not_sent(
            f"the OTEL_… variables ask for {_other(protocol)}, and only {PROTOCOL!r} is spoken; set "
            f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL={PROTOCOL} and an endpoint that takes it (port 4318 in most "
            "collectors)"
        )
    shown = _without_credentials(url)
    if shown is None:
        return not_sent(f"{variable} must be a URL such as http://localhost:4318")
    return Destination(signal, variable, _for_signal(signal, variable, shown))


def _older_form() -> str:
    """The version of opentelemetry-proto where it is older than PROFILES_SINCE."""
    installed = version("opentelemetry-proto")
    numbers = [int(part) for part in re.findall(r"\d+", installed)[:2]]
    return installed if numbers < PROFILES_SINCE else ""


def _is_wanted(
    signal: SignalName, variable: str, exporters: set[str], environment: Mapping[str, str]
) -> bool:
    def value(name: str) -> str:
        return environment.get(name, "").strip().lower()

    if value("OTEL_SDK_DISABLED") == "true" or (
        signal == "traces" and value("OTEL_TRACES_SAMPLER") == "always_off"
    ):
        return False
    if signal == "profiles" and variable == COMMON_ENDPOINT:  # no stable signal: few receivers take it
        return False
    # Else `none`, or an exporter that is not ours to replace.
    return bool(exporters & {"otlp", "otlp_proto_http", "otlp_proto_grpc"})


def not_heeded(environment: Mapping[str, str]) -> list[str]:
    """What is asked for by the variables and not done, a line for each."""
    return [
        f"the value of {name} is none of {', '.join(heeded)}; {heeded[0]} is used"
        for name, heeded in _HEEDED.items()
        if environment.get(name, "").strip().lower() not in {"", *heeded}
    ]


@dataclass(frozen=True, slots=True)
class Sending:
    """The options of one signal's requests: `url` with its credentials, `timeout` in seconds.

    `certificate` is a file of authorities to trust in place of the system's. `client_certificate` is a file with a
    certificate and its key, or one file for each.
    """

    url: str
    headers: Mapping[str, str]
    timeout: float
    compression: str
    certificate: str | None
    client_certificate: str | tuple[str, str] | None

    def secrets(self) -> list[str]:
        """What no message may hold, the longest first: values of headers, user, password and query of the URL."""
        parts = urlsplit(self.url)
        words = [value for name, value in self.headers.items() if name not in OWN_HEADERS]
        words += [parts.query, *parts.netloc.rpartition("@")[0].split(":")]
        words += map(unquote, words.copy())
        return sorted({word for word in words if len(word) > 2}, key=len, reverse=True)


def sending(signal: SignalName, environment: Mapping[str, str], report: Callable[[str], None]) -> Sending:
    """The options of a signal that has an endpoint; a value that cannot be used is reported and ignored.

    A timeout is in seconds, as in OpenTelemetry's Python SDK (the specification has milliseconds).
    """

    def of(name: str) -> str:
        return _option(signal, name, environment)[1]

    url = _for_signal(signal, *_option(signal, "ENDPOINT", environment))
    compression = "gzip" if of("COMPRESSION").lower() == "gzip" else "none"
    headers = {"content-type": "application/x-protobuf", "user-agent": f"jaxobs/{version('jaxobs')}"}
    headers |= {} if compression == "none" else {"content-encoding": compression}
    headers |= _headers(of("HEADERS"), report)
    timeout_variable, _ = _option(signal, "TIMEOUT", environment)
    timeout = positive_number(timeout_variable, DEFAULT_TIMEOUT, environment, report)
    certificate, key = of("CLIENT_CERTIFICATE"), of("CLIENT_KEY")
    return Sending(
        url, headers, timeout, compression, of("CERTIFICATE") or None,
        (certificate, key) if certificate and key else certificate or None,
    )  # fmt: skip


def _headers(text: str, report: Callable[[str], None]) -> dict[str, str]:
    """The headers of `name=value,…`, percent-decoded. An entry that is no header is reported by its place alone.

    Not read by the SDK, which logs such an entry with all that is in it: most headers here carry tokens.
    """
    found = {}
    for place, entry in enumerate(filter(None, map(str.strip, text.split(","))), 1):
        name, equals, value = entry.partition("=")
        name, value = unquote(name).strip().lower(), unquote(value).strip()
        if equals and _HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value):
            found[name] = value
        else:
            report(
                f"entry {place} of OTEL_EXPORTER_OTLP_HEADERS is no `name=value` of a header; it is not sent"
            )
    return found


def _other(protocol: str) -> str:
    """A protocol that is not spoken, named where it is one: the variable may hold anything."""
    return f"the protocol {protocol!r}" if protocol in {"grpc", "http/json"} else "a protocol that is unknown"


def positive_number(
    name: str, default: Number, environment: Mapping[str, str], report: Callable[[str], None]
) -> Number:
    """A positive number of the default's type from a variable; any other is reported and replaced by the default.

    A whole one is of milliseconds or items, any other of seconds. What is larger than MAX_NUMBER counts as that.
    """
    kind = type(default)
    try:
        number = kind(environment.get(name, "").strip() or default)
    except ValueError:
        number = kind(0)
    if 0 < number < math.inf:
        return min(number, kind(MAX_NUMBER if kind is int else MAX_NUMBER / 1_000))
    wanted = "whole number" if kind is int else "number of seconds"
    report(f"the value of {name} is no positive {wanted}; {default:g} is used")
    return default


def _option(signal: SignalName, name: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """The variable of an option, the signal's own where it is set, and its value; empty where neither is set."""
    own, common = f"OTEL_EXPORTER_OTLP_{signal.upper()}_{name}", f"OTEL_EXPORTER_OTLP_{name}"
    variable = own if environment.get(own, "").strip() else common
    return variable, environment.get(variable, "").strip()


def _for_signal(signal: SignalName, variable: str, url: str) -> str:
    """The URL as it is where the signal's own variable has it, else with the signal's path."""
    return f"{url.removesuffix('/')}/v1/{signal}" if variable == COMMON_ENDPOINT else url


def _without_credentials(url: str) -> str | None:
    """The URL without user, password, query and fragment; None where it is no HTTP URL."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    # A user or password with a slash in it is taken for a host and a path.
    if parts.scheme not in {"http", "https"} or not host or "@" in parts.path:
        return None
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path}"
