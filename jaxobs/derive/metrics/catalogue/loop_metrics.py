"""Loops: steps, where their wall time went, and how well the device was used."""

from __future__ import annotations

from typing import Final

from jaxobs.model.metrics import Metric

TEN_A_DECADE: Final = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)
"""Bucket bounds of one decade, about a quarter apart (the series R10 of ISO 3)."""

FINE: Final = tuple(round(10 ** (part / 24), 2) for part in range(24))
"""Bucket bounds of one decade, a tenth apart."""

STEP_BUCKETS: Final = (
    *(round(number * 10.0**decade, 8) for decade in range(-5, 1) for number in FINE),
    *(number * 10.0 for number in TEN_A_DECADE),
    100.0, 125.0, 160.0, 200.0, 250.0, 315.0, 400.0, 500.0, 600.0,
)  # fmt: skip
"""Steps that all take the same time lie in one bucket, and a quantile is read somewhere within it: a median is right to
5 %, and any other quantile to 10 %, from 10 µs (a jitted call takes 5 µs of the host) to 10 s, and to twice as much
beyond."""

HOST_STEP_BUCKETS: Final = (
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0,
    120.0, 300.0, 600.0,
)  # fmt: skip

STEPS = Metric("jaxobs_steps_total", "counter", "Steps that ended.", ("loop",))
STEPS_FAILED = Metric("jaxobs_steps_failed_total", "counter", "Steps that raised.", ("loop",))
STEP_SECONDS = Metric(
    "jaxobs_step_seconds", "histogram",
    "What a step takes: each turn of a host that waits for the device, else the mean between two completions that were "
    "seen, entered for each step between them; the host's turns, a second's mean, where nothing is watched. Buckets a "
    "tenth apart: a quantile of single steps between 10 µs and 10 s is right to 10 %, the median to 5 %.",
    ("loop",), "seconds", STEP_BUCKETS,
)  # fmt: skip
STEP_HOST_SECONDS = Metric(
    "jaxobs_step_host_seconds",
    "histogram",
    "The host's turn of the loop. Buckets a factor of 2 to 3 apart: its mean is exact, its quantiles are rough.",
    ("loop",),
    "seconds",
    HOST_STEP_BUCKETS,
)
LAST_STEP = Metric(
    "jaxobs_last_step_timestamp_seconds",
    "gauge",
    "When the last step ended, in Unix time.",
    ("loop",),
    "seconds",
)
COMPONENT_SECONDS = Metric(
    "jaxobs_step_component_seconds_total", "counter",
    "Where the loop's wall time went; the components of a loop add up to it.", ("loop", "component"), "seconds",
)  # fmt: skip
HOST_LINE_SECONDS = Metric(
    "jaxobs_host_line_sampled_seconds_total", "counter",
    "Where the main thread was, by samples of its Python stack: the lines with most time, and the rest. `loop` is empty "
    "outside steps.",
    ("loop", "line", "waits_in", "activity"), "seconds",
)  # fmt: skip
EXAMPLES = Metric(
    "jaxobs_examples_total", "counter", "Examples of ended steps, this process's share.", ("loop",)
)
TOKENS = Metric("jaxobs_tokens_total", "counter", "Tokens of ended steps, this process's share.", ("loop",))
RECORDED = Metric("jaxobs_recorded", "gauge", "The user's own values, by obs.record().", ("loop", "name"))
BOTTLENECK = Metric(
    "jaxobs_bottleneck_ratio", "gauge", "Share of the last half minute's wall time; adds up to 1.",
    ("loop", "bottleneck"), "ratio",
)  # fmt: skip
BOTTLENECK_CONFIDENCE = Metric(
    "jaxobs_bottleneck_confidence_ratio", "gauge", "How sure the bottleneck's label is.", ("loop",), "ratio"
)
BOTTLENECK_INFO = Metric(
    "jaxobs_bottleneck_info", "gauge", "The bottleneck's label and its runner-up.",
    ("loop", "bottleneck", "runner_up"),
)  # fmt: skip
MFU = Metric(
    "jaxobs_mfu_ratio", "gauge", "Model FLOPs utilization: matrix FLOPs without rematerialised ones, over wall time "
    "and matrix peak, in the last half minute, without stretches that compiled.", ("loop",), "ratio",
)  # fmt: skip
HFU = Metric(
    "jaxobs_hfu_ratio",
    "gauge",
    "Hardware FLOPs utilization: as MFU, with rematerialised FLOPs.",
    ("loop",),
    "ratio",
)
FLOPS = Metric(
    "jaxobs_flops_total", "counter", "Modelled matrix FLOPs of watched runs on this process's devices.",
    ("loop", "dtype", "kind"),
    "flops",
)  # fmt: skip
BYTES = Metric(
    "jaxobs_bytes_total", "counter", "Modelled device-memory bytes of watched runs on this process's devices.",
    ("loop",), "bytes",
)  # fmt: skip
BOUND_SECONDS = Metric(
    "jaxobs_bound_seconds_total", "counter", "Least time that watched runs could have taken, by what bounds them.",
    ("loop", "bound"), "seconds",
)  # fmt: skip
