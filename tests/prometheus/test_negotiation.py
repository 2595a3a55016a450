import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxobs_plugins.prometheus.render import OPENMETRICS, TEXT, accepts_gzip, negotiate

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/*", TEXT),
        ("text/plain;version=1.0.0;escaping=allow-utf-8", TEXT),
        ("text/html, image/gif, *; q=.2, */*; q=.2", TEXT),
        ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5", OPENMETRICS),
        ("application/openmetrics-text", OPENMETRICS),
        ('Application/OpenMetrics-Text;Version="1.0.0";escaping=dots', OPENMETRICS),
        ("application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", OPENMETRICS),
        (PROMETHEUS_2, OPENMETRICS),
        (PROMETHEUS_3, OPENMETRICS),
    ],
)
def test_the_format_is_the_one_that_the_scraper_asks_for(accept: str, content_type: str) -> None:
    assert negotiate(accept) == content_type


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text;q=0, text/plain", "application/openmetrics-text; q=0.000, */*", "*/*;q=0",
        "text/plain;q=0", "application/openmetrics-text;q=0", "image/png", "text/plain;q=0, */*;q=0",
    ],
)  # fmt: skip
def test_who_refuses_openmetrics_or_names_nothing_known_gets_the_text_format(accept: str) -> None:
    assert negotiate(accept) == TEXT


@given(st.text(st.characters(max_codepoint=255), max_size=60))
def test_no_header_is_an_error(header: str) -> None:
    assert negotiate(header) in {TEXT, OPENMETRICS}
    assert negotiate(f"application/openmetrics-text;version={header}") in {TEXT, OPENMETRICS}
    assert accepts_gzip(header) in {True, False}


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5, br", True),
        ("gzip, identity", True),
        ("identity;q=0.5, gzip;q=1.0", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("gzip;q=0.001", True),
        ("*;q=0", False),
        ("*;q=0, gzip", True),
        ("gzip;q=0, *", False),
        ("*;q=0.5, identity", False),
        ("identity;q=0", False),  # all there is: RFC 9110, section 12.5.3, has it sent all the same
    ],
)
def test_gzip_is_sent_only_where_it_is_accepted(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


@pytest.mark.timeout(30)
@pytest.mark.parametrize("piece", ['"', '"\\', "\\", ",", ";", "=", ' "', "q=0.1;", "a/b;c,", "*/*,"])
def test_a_header_of_200_kilobytes_is_read_in_linear_time(piece: str) -> None:
    """In quadratic time each would take many minutes."""
    header = piece * (200_000 // len(piece))
    assert negotiate(header) in {TEXT, OPENMETRICS}
    assert accepts_gzip(f"{header}x") is False
