import math
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jaxobs.report.charts import Curve, LogScale, Scale, bands, line_chart, shares_bar, shares_over_time
from jaxobs.report.markup import markup, tag
from jaxobs.report.roofline_chart import roofline
from jaxobs.report.rooflines import Point
from jaxobs.roofline_model.bounds import Roof
from jaxobs.vocabulary.words import COMPONENTS, Component
from tests.report.markup_reading import Read

ROOF = Roof("H100", "float32", 250e9, 18e9)
positive = st.floats(1e-6, 1e15)


def point(intensity: float = 2.0, rate: float = 1e9, **changed) -> Point:
    given: dict[str, Any] = {
        "name": "step",
        "kind": "executable",
        "share": 0.5,
        "bottleneck": "memory",
        "about": "step\nmore",
    }
    return Point(intensity=intensity, rate=rate, **(given | changed))


def inside(text: str) -> bool:
    """Every position across lies on the chart."""
    return all(-0.01 <= float(x) <= 100.01 for x in re.findall(r'\b(?:x|x1|x2|cx)="(-?[\d.]+)%"', text))


@given(st.lists(st.tuples(positive, positive), max_size=20), st.booleans())
def test_each_point_and_roof_of_a_roofline_is_there_and_on_the_chart(found, with_roof):
    drawn = roofline([ROOF] if with_roof else [], [point(*each) for each in found])
    if not found and not with_roof:
        assert drawn is None
        return
    assert drawn is not None
    text = markup(drawn)
    read = Read(text)
    marks = read.all("svg", class_="mark")
    shown = {
        (float(mark["data-intensity"] or 0), float(mark["data-flops-per-second"] or 0)) for mark in marks
    }
    assert shown == {(float(f"{x:.9g}"), float(f"{y:.9g}")) for x, y in found}
    assert len(read.all("polyline", class_="roof")) == with_roof
    assert inside(text)
    assert "nan" not in text


def test_a_point_at_half_the_roof_lies_below_it_by_a_factor_of_two():
    intensities = [0.1, 1.0, 100.0]
    drawn = roofline(
        [ROOF], [point(each, ROOF.at(each) / 2, attainable=ROOF.at(each)) for each in intensities]
    )
    assert drawn is not None
    rooms = Read(markup(drawn)).all("line", class_="room")
    lengths = {float(room["y2"] or 0) for room in rooms}
    assert len(rooms) == 3
    assert max(lengths) == pytest.approx(min(lengths), abs=0.05)
    assert max(lengths) < 0


@given(st.floats(-9, 15), st.floats(0.7, 12))  # twice the margin at least
def test_every_logarithmic_axis_has_ticks_that_can_be_read(low, decades):
    axis = LogScale(low, low + decades, 0, 100)
    ticks = axis.ticks()
    assert 3 <= len(ticks) <= 14
    assert all(-1e-6 <= axis.at(tick) <= 100 + 1e-6 for tick in ticks)


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12))
def test_every_linear_axis_has_a_few_round_ticks(low, reach):
    if reach < 1e-12 * abs(low):
        return  # floats have no room for ticks in between
    axis = Scale(low, low + reach, 0, 100)
    assert len(axis.ticks()) <= 6


@given(
    st.dictionaries(st.sampled_from(COMPONENTS), st.floats(0, 1e6), min_size=1).filter(
        lambda parts: any(parts.values())
    )
)
def test_the_parts_of_a_bar_add_up_to_its_width(parts):
    drawn = shares_bar(parts)
    widths = [float(part["width"].rstrip("%")) for part in Read(markup(drawn)).all("svg", class_="part")]
    left_out = sum(seconds for seconds in parts.values() if seconds < 0.0005 * sum(parts.values()))
    assert sum(widths) == pytest.approx(100 - 100 * left_out / sum(parts.values()), abs=0.1)


def test_a_stack_reaches_the_top_at_every_moment():
    shares = {"compute": [0.5, 0.25, 1.0], "input": [0.5, 0.5, 0.0], "compile": [0.0, 0.25, 0.0]}
    drawn = shares_over_time([-30, -20, -10, 0], shares, 60.0, [(-15.0, "compiled again")])
    assert drawn is not None
    read = Read(markup(drawn))
    areas = read.all("polygon", class_="area")
    assert len(areas) == 3
    top = areas[-1]["points"].split()[:6]
    assert {float(corner.split(",")[1]) for corner in top} == {8.0}
    assert len(read.all("svg", class_="event")) == 1


@given(
    st.lists(st.floats(-1e280, 1e280) | st.sampled_from([math.nan, math.inf, 1e308]), max_size=80),
    st.booleans(),
)
@example([0.0, 5e-324], True)
@example([5e-324, 5e-324], False)
def test_a_line_is_drawn_where_two_values_are_known_and_broken_where_none_is(values, from_zero):
    times = [index - len(values) + 1.0 for index in range(len(values))]
    drawn = line_chart(Curve("loss", times, values, 60.0, lambda value: f"{value:.3g}", from_zero=from_zero))
    drawable = [abs(value) < 1e290 for value in values]
    if sum(drawable) < 2:
        assert drawn is None
        return
    assert drawn is not None
    text = markup(drawn)
    runs = "".join("x" if each else " " for each in drawable).split()
    assert len(Read(text).all("polyline", class_="line")) == len(runs)
    assert "nan" not in text
    assert inside(text)


def test_one_moment_far_above_the_others_does_not_flatten_them():
    drawn = line_chart(Curve("steps/s", list(range(-39, 1)), [300.0] + [10.0] * 39, 60.0, str))
    assert drawn is not None
    [line] = Read(markup(drawn)).all("polyline", class_="line")
    heights = [float(corner.split(",")[1]) for corner in line["points"].split()]
    assert heights[0] < 0  # beyond the top, where the layer ends
    assert 14 < heights[-1] < 50  # of 92


@given(st.lists(st.floats(0, 100), unique=True, max_size=500).map(sorted), st.integers(1, 60))
def test_bands_cover_what_can_be_pointed_at_without_a_gap(positions, most):
    found = bands(positions, most, 0.0, 100.0)
    assert len(found) <= most
    assert [end for _, _, end in found[:-1]] == [start for _, start, _ in found[1:]]
    if positions:
        assert (found[0][1], found[-1][2]) == (0.0, 100.0)
        assert found[-1][0] == len(positions) - 1


@given(st.text(), st.text())
def test_text_and_attributes_are_read_back_as_they_were(text, attribute):
    element = tag("p", text, title=attribute)
    plain = [each.replace("\x00", "\ufffd").encode("utf-8", "replace").decode() for each in (text, attribute)]
    read = Read(markup(element))
    assert read.elements == [("p", {"title": plain[1]})]
    assert read.text == plain[0]


# Machado, Oliveira and Fernandes 2009, table 1: full protanopia, deuteranopia and tritanopia, on linear RGB.
SEEN = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}  # fmt: skip
TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))


def times_matrix(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def lab(colour: str, eye) -> list[float]:
    """CIELAB of a colour as that eye sees it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    seen = [min(1.0, max(0.0, part)) for part in times_matrix(eye, linear)]
    xyz = [part / white for part, white in zip(times_matrix(TO_XYZ, seen), (0.9505, 1.0, 1.089), strict=True)]
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in xyz)
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


@pytest.mark.parametrize("ground", ["light", "dark"])
@pytest.mark.parametrize("eye", SEEN)
def test_neighbours_of_a_stack_differ_for_every_eye(ground, eye):
    """A difference of 10 is plain at a glance (CIE 1976); all pairs differ by as much."""
    seen = {each.word: lab(getattr(each, ground), SEEN[eye]) for each in Component}
    near = {
        (one, other): math.dist(seen[one], seen[other])
        for one in COMPONENTS for other in COMPONENTS if one < other and math.dist(seen[one], seen[other]) < 10
    }  # fmt: skip
    assert near == {}
