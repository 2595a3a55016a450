"""The roofline itself: roofs as lines, executables and operations as points, on two logarithmic axes."""

from __future__ import annotations

from typing import Final

from grafana.source.chart import Chart, Override, Query, Transformation
from grafana.source.look import NO_PEAK
from grafana.source.pages.roofline_queries import DRAWN, DRAWN_OPERATIONS, OPERATION_POINTS, POINTS

ELEMENT_TYPES: Final = (
    "float64", "float32", "tensorfloat32", "bfloat16", "float16", "float8", "int8", "int4", "float4",
)  # fmt: skip
"""Types that jaxobs knows peaks of: a query and a line for each, for a line of an XY chart is named beforehand."""

_ROOFS: Final = "/^roof_/"
_OTHER_TYPES: Final = "No device here has a peak of this element type."


def _roof(element_type: str) -> str:
    return (
        'max by (device_kind, dtype, intensity) (jaxobs_roofline_ceiling_flops_per_second{job=~"$job", '
        f'instance=~"$instance", device_kind="$device_kind", dtype=~"$dtype", dtype="{element_type}"}})'
    )


_AXIS: Final = {"custom.axisLabel": "FLOP per byte of device memory", "unit": "sishort"}
_SIZE: Final = {"unit": "s"}

ROOFLINE: Final = Chart(
    "Roofline",
    "Lines: what a device can do at each arithmetic intensity, by element type. Filled points: executables; rings: the "
    "largest operations of profiler windows. A point far below the roof can be faster; one left of the roof's bend "
    "waits for memory. Larger points took more of the device's time; the colour is the efficiency, bound time over "
    "measured time. FLOP/s are those of one device.",
    (
        *(Query(_roof(name), name=f"roof_{name}", table=True, optional=_OTHER_TYPES) for name in ELEMENT_TYPES),
        *(Query(f"{expression} and {DRAWN}", name=name, table=True) for name, expression in POINTS.items()),
        *(Query(f"{expression} and {DRAWN_OPERATIONS}", name=f"operation_{name}", table=True)
          for name, expression in OPERATION_POINTS.items()),
    ),
    "flops", "xychart", 24, 16, empty=NO_PEAK,
    transformations=(
        Transformation("convertFieldType", {
            "conversions": [{"targetField": "intensity", "destinationType": "number"}], "fields": {},
        }, _ROOFS),
        Transformation("sortBy", {"fields": {}, "sort": [{"field": "intensity"}]}, _ROOFS),
        Transformation("merge", {}, "/^(intensity|achieved|efficiency|seconds)$/"),
        Transformation("merge", {}, "/^operation_(intensity|achieved|seconds)$/"),
        Transformation("organize", {
            "excludeByName": {"Time": True},
            "renameByName": {
                "Value #intensity": "Intensity", "Value #achieved": "Achieved", "Value #efficiency": "Efficiency",
                "Value #seconds": "Device time", "Value #operation_intensity": "Operation intensity",
                "Value #operation_achieved": "Operation achieved", "Value #operation_seconds": "Operation time",
                "intensity": "Roof intensity", **{f"Value #roof_{name}": f"Roof {name}" for name in ELEMENT_TYPES},
            },
        }),
    ),
    overrides=(
        *(Override(f"Roof {name}", {"custom.show": "lines", "custom.lineWidth": 2}) for name in ELEMENT_TYPES),
        Override("Roof intensity", _AXIS),
        Override("Intensity", _AXIS),
        Override("Operation intensity", _AXIS),
        Override("Achieved", {"custom.axisLabel": "FLOP/s of one device", "custom.pointSize": {"min": 8, "max": 40}}),
        Override("Operation achieved", {
            "custom.pointSize": {"min": 4, "max": 24}, "custom.fillOpacity": 0, "custom.pointStrokeWidth": 1,
        }),
        Override("Efficiency", {
            "unit": "percentunit", "min": 0, "max": 1, "color": {"mode": "continuous-RdYlGr"},
        }),
        Override("Device time", _SIZE),
        Override("Operation time", _SIZE),
    ),
    series=(
        *({"name": name, "frame": f"/roof_{name}$/", "x": "Roof intensity", "y": f"Roof {name}"}
          for name in ELEMENT_TYPES),
        {"name": "executables", "frame": "/^(merge-)?intensity/", "x": "Intensity", "y": "Achieved",
         "size": "Device time", "color": "Efficiency"},
        {"name": "operations", "frame": "/operation_intensity/", "x": "Operation intensity",
         "y": "Operation achieved", "size": "Operation time"},
    ),
)  # fmt: skip
