"""Charts as SVG elements: the roofline, where the time went, and lines over time.

Every chart is as wide as the element around it and has a height in pixels of its own. Horizontal positions are
percentages and vertical ones pixels, so that letters and dots keep their size on a phone and on a wide screen without a
script. Lines and areas are drawn in a layer 100 units wide that is stretched to the width (`stretched`).

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
