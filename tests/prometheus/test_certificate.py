"""Until when a certificate is taken, and who is told of it in time."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxobs_plugins.prometheus.access import Credentials, certificate_problem, validity
from jaxobs_plugins.prometheus.exporter import PrometheusExporter

DAY = 86_400.0
Make = Callable[..., Path]

_AUTHORITY = """
[ca]
default_ca = self
[self]
database = index
new_certs_dir = .
serial = serial
default_md = sha256
policy = any
x509_extensions = extensions
[any]
commonName = supplied
[extensions]
"""


@pytest.fixture
def make(tmp_path: Path, certificates: Any) -> Make:
    """A certificate signed by itself and its key in one file. In all versions `openssl ca` can set both dates."""

    def run(*arguments: str) -> None:
        done = subprocess.run(
            ["openssl", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr

    def make(begins: float, ends: float, *key: str, extensions: str = "") -> Path:
        dates = [time.strftime("%Y%m%d%H%M%SZ", time.gmtime(moment)) for moment in (begins, ends)]
        (tmp_path / "index").write_text("")
        (tmp_path / "serial").write_text("01\n")
        (tmp_path / "ca.cnf").write_text(_AUTHORITY + extensions)
        kind = key or ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")
        run("req", "-new", "-newkey", *kind, "-nodes", "-subj", "/CN=x", "-keyout", "key", "-out", "request")
        signing = ("-config", "ca.cnf", "-batch", "-selfsign", "-keyfile", "key", "-notext")
        run("ca", *signing, "-startdate", dates[0], "-enddate", dates[1], "-in", "request", "-out", "made")
        both = tmp_path / "both.pem"
        both.write_bytes((tmp_path / "key").read_bytes() + (tmp_path / "made").read_bytes())
        return both

    return make


def validity_of(file: Path) -> tuple[float, float]:
    return validity(file.read_text())


def problem_of(file: Path, now: float) -> str | None:
    return certificate_problem(file.read_text(), now)


@pytest.mark.parametrize("key", [(), ("rsa:2048",)], ids=["P-256", "RSA"])
@pytest.mark.parametrize(
    ("begins", "ends"),
    [(-DAY, 30 * DAY), (-30 * DAY, -DAY), (DAY, 30 * DAY), (-DAY, 30_000 * DAY)],
    ids=["valid", "expired", "not yet valid", "until after 2050"],
)
def test_its_dates_are_known_whether_it_is_valid_or_not(
    make: Make, begins: float, ends: float, key: tuple[str, ...]
) -> None:
    now = int(time.time())
    assert validity_of(make(now + begins, now + ends, *key)) == (now + begins, now + ends)


def test_of_a_chain_the_first_certificate_counts(make: Make, certificates: Any, tmp_path: Path) -> None:
    now = int(time.time())
    long_gone = make(now - 30 * DAY, now - DAY)
    chain = tmp_path / "chain.pem"
    chain.write_bytes(b"".join(file.read_bytes() for file in (certificates.leaf, long_gone)))
    assert validity_of(chain) == validity_of(certificates.leaf)
    assert validity_of(chain)[1] > now


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nno base64\n-----END CERTIFICATE-----",
    ],
)
def test_where_it_cannot_be_found_out_the_reason_is_said(text: str) -> None:
    problem = certificate_problem(text, time.time())
    assert problem is not None
    assert problem.startswith("when it expires could not be found out: ")
    assert "\n" not in problem


@pytest.mark.parametrize(
    ("now", "problem"),
    [
        (-3, "it is not valid before 2001-09-09 01:46 UTC, and clients refuse it until then"),
        (0, None),
        (85, None),
        (86.5, "it expires on 2001-12-18 01:46 UTC, in 13.5 days"),
        (100, "it expired on 2001-12-18 01:46 UTC, and clients refuse it"),
    ],
)
def test_a_problem_is_said_exactly_where_there_is_one(make: Make, now: float, problem: str | None) -> None:
    file = make(1e9, 1e9 + 100 * DAY)
    assert problem_of(file, 1e9 + now * DAY) == problem


def test_it_is_said_when_it_is_read(make: Make, certificates: Any) -> None:
    file = make(time.time() - DAY, time.time() + 3 * DAY)
    lines: list[str] = []
    credentials = Credentials({"metrics_tls_certificate": file}, lines.append)
    for _ in range(3):
        credentials.read()
    assert len(lines) == 1
    assert lines[0].startswith(f"metrics_tls_certificate: {file}: it expires on ")
    assert "in 3.0 days; a new one in its place" in lines[0]
    file.write_bytes(certificates.leaf.read_bytes() + certificates.key.read_bytes())
    credentials.read()
    assert len(lines) == 1
    make(time.time() - 2 * DAY, time.time() - DAY)  # another one in the same file
    credentials.read()
    credentials.read()
    assert len(lines) == 2
    assert "it expired on" in lines[1]


def test_check_says_it_as_a_problem(make: Make, certificates: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")

    def problems(file: Path) -> list[str]:
        settings = {"metrics_tls_certificate": str(file)}
        return [remark.text for remark in PrometheusExporter().check(settings) if remark.problem]

    [problem] = problems(make(time.time() - 2 * DAY, time.time() - DAY))
    assert "it expired on" in problem
    [problem] = problems(make(time.time() - 2 * DAY, time.time() + 13 * DAY))
    assert "it expires on" in problem
    assert problems(make(time.time() - 2 * DAY, time.time() + 15 * DAY)) == []
