"""Charts as SVG elements: the roofline, where the time went, and lines over time.

Every chart is as wide as what holds it, and as high as it says. Across, positions are percentages; down, they are
pixels: so that letters and dots keep their size on a phone and on a wide screen, without a script. What is a shape of
many corners stands in a layer of 100 units across that is stretched (`stretched`).

Colours are classes, which `style()` defines for light and dark surroundings. What a chart shows under the pointer is in
the `<title>` of its parts, which every browser shows.
"""

from jaxobs.report.drawing.elements import Element, markup, tag
from jaxobs.report.drawing.lines import line_chart
from jaxobs.report.drawing.roofline import Point, Roof, roofline
from jaxobs.report.drawing.style import legend, style
from jaxobs.report.drawing.time_shares import shares_bar, shares_over_time

__all__ = [
    "Element",
    "Point",
    "Roof",
    "legend",
    "line_chart",
    "markup",
    "roofline",
    "shares_bar",
    "shares_over_time",
    "style",
    "tag",
]
