"""The process and its observer: versions, the run, advice, events, plugins and what observing costs."""

from __future__ import annotations

from jaxobs.model.metrics import Metric

BUILD_INFO = Metric(
    "jaxobs_build_info", "gauge", "Versions and platform; the agent is always a process.",
    ("version", "jax", "jaxlib", "platform", "agent", "address"),
)  # fmt: skip
RUN_INFO = Metric(
    "jaxobs_run_info", "gauge", "Which run this process belongs to, and as what. A label is empty where it is not known.",
    ("run", "attempt", "rank", "host", "user"),
)  # fmt: skip
LAST_HEARD = Metric(
    "jaxobs_job_last_heard_timestamp_seconds", "gauge",
    "When the agent last heard of the training process, in Unix time; about once a second.", (), "seconds",
)  # fmt: skip
RUN_SECONDS = Metric(
    "jaxobs_run_seconds_total", "counter", "Where the process's time went; the categories add up to its age.",
    ("category",), "seconds",
)  # fmt: skip
GOODPUT = Metric("jaxobs_goodput_ratio", "gauge", "Productive share of the process's age.", (), "ratio")
ADVICE_INFO = Metric(
    "jaxobs_advice_info", "gauge", "Advice given now; what it says is in the snapshot and in docs/reference/advice.md.",
    ("condition", "loop", "function"),
)  # fmt: skip
ADVICE_SAVES = Metric(
    "jaxobs_advice_saves_ratio", "gauge", "Share of wall time that the advice would give back.",
    ("condition", "loop", "function"), "ratio",
)  # fmt: skip
ADVICE_SAVES_BYTES = Metric(
    "jaxobs_advice_saves_bytes", "gauge", "Device memory that the advice would give back.",
    ("condition", "loop", "function"), "bytes",
)  # fmt: skip
SOURCE_UP = Metric(
    "jaxobs_source_up", "gauge",
    "1 where the plugin works, 0 where it failed; absent where there is nothing for it to read.", ("source",),
)  # fmt: skip
SOURCE_LAST_SUCCESS = Metric(
    "jaxobs_source_last_success_timestamp_seconds", "gauge", "When the plugin last worked, in Unix time.", ("source",),
    "seconds",
)  # fmt: skip
SOURCE_SECONDS = Metric(
    "jaxobs_source_seconds_total", "counter", "Time spent in the plugin.", ("source",), "seconds"
)
LISTENERS_RESTORED = Metric(
    "jaxobs_listener_restored_total",
    "counter",
    "Times that JAX's listeners had been cleared and were put back.",
)
EVENTS = Metric(
    "jaxobs_events_total", "counter", "Events of the job and the agent, by what became of them.", ("outcome",)
)
EVENTS_EMITTED = Metric(
    "jaxobs_events_emitted_total",
    "counter",
    "Events that the job and the agent have emitted; those in no count of jaxobs_events_total are on their way.",
)
AGENT_CPU = Metric(
    "jaxobs_agent_cpu_seconds_total", "counter", "CPU time of jaxobs: its threads in the job, and the agent.",
    ("where",), "seconds",
)  # fmt: skip
AGENT_RESIDENT = Metric("jaxobs_agent_resident_bytes", "gauge", "Resident memory of the agent.", (), "bytes")
EXPORTER_FAILURES = Metric(
    "jaxobs_exporter_failures_total", "counter", "Failed turns of an exporter.", ("exporter",)
)
EXPORTER_DROPPED = Metric(
    "jaxobs_exporter_dropped_total", "counter", "Events and spans that an exporter is known to have lost.",
    ("exporter",),
)  # fmt: skip
SERIES_LIMITED = Metric(
    "jaxobs_series_limited_total",
    "counter",
    "Updates that found no series of their own, by metric.",
    ("metric",),
)
CONTRADICTIONS = Metric(
    "jaxobs_contradictions_total", "counter", "Figures that were withheld because another contradicts them, each once.",
    ("figure",),
)  # fmt: skip
