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
    ("accept", "content_type"),
    [
        ("application/openmetrics-text;q=0, text/plain", TEXT),
        ("application/openmetrics-text;q=0.000, */*", TEXT),
        ("application/openmetrics-text;q=0, application/openmetrics-text;q=0, */*;q=0.1", TEXT),
        ("application/openmetrics-text;q=0.1, text/plain;q=0.9", TEXT),
        ("text/plain;q=0.1, application/openmetrics-text;q=0.9", OPENMETRICS),
        ("text/plain, application/openmetrics-text", OPENMETRICS),
        ("*/*;q=0, application/openmetrics-text;q=0.1", OPENMETRICS),
    ],
)
def test_weights_decide(accept: str, content_type: str) -> None:
    assert negotiate(accept) == content_type


@pytest.mark.parametrize(
    "accept",
    ["*/*;q=0", "text/plain;q=0", "application/openmetrics-text;q=0", "image/png", "text/plain;q=0, */*;q=0"],
)
def test_who_refuses_everything_gets_the_text_format(accept: str) -> None:
    assert negotiate(accept) == TEXT


@pytest.mark.parametrize("weight", ["2", "1.5", "-1", "x", "", "0.5.5", "nan", "1e-1"])
def test_an_element_with_a_weight_that_is_none_is_as_good_as_not_sent(weight: str) -> None:
    assert negotiate(f"application/openmetrics-text;q={weight}, text/plain;q=0.1") == TEXT


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_the_heavier_format_wins(text: int, openmetrics: int) -> None:
    accept = f"text/plain;q={text / 1000:.3f}, application/openmetrics-text;q={openmetrics / 1000:.3f}"
    assert negotiate(accept) == (OPENMETRICS if openmetrics >= text and openmetrics > 0 else TEXT)


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
        ("gzip;q=0.5, identity", False),
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
        ("identity;q=0, gzip;q=0", False),
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
