"""The names, types and labels that panels, alerts and recordings rely on."""

from __future__ import annotations

import inspect
import re

import pytest

from jaxobs.derive import series, writer
from jaxobs.derive.catalogue import CORE_METRICS
from jaxobs.model.metrics import Catalogue, Metric
from jaxobs.plugin.discovery import COLLECTORS, EXPORTERS, PROBES, discover

EXECUTABLE = "function executable"
FIXED = [
    ("jaxobs_build_info", "gauge", "version jax jaxlib platform agent address"),
    ("jaxobs_run_info", "gauge", "run run_id attempt rank host user job_id namespace cluster experiment"),
    ("jaxobs_job_last_heard_timestamp_seconds", "gauge", ""),
    ("jaxobs_slowdown_ratio", "gauge", "loop"),
    ("jaxobs_slowdown_timestamp_seconds", "gauge", "loop"),
    ("jaxobs_slowdown_info", "gauge", "loop activity line"),
    ("jaxobs_slowdowns_total", "counter", "loop"),
    ("jaxobs_steps_total", "counter", "loop"),
    ("jaxobs_steps_failed_total", "counter", "loop"),
    ("jaxobs_step_seconds", "histogram", "loop"),
    ("jaxobs_step_host_seconds", "histogram", "loop"),
    ("jaxobs_last_step_timestamp_seconds", "gauge", "loop"),
    ("jaxobs_step_component_seconds_total", "counter", "loop component"),
    ("jaxobs_run_seconds_total", "counter", "category"),
    ("jaxobs_phase_seconds_total", "counter", "phase"),
    ("jaxobs_goodput_ratio", "gauge", ""),
    ("jaxobs_examples_total", "counter", "loop"),
    ("jaxobs_tokens_total", "counter", "loop"),
    ("jaxobs_recorded", "gauge", "loop name"),
    ("jaxobs_recorded_not_finite_total", "counter", "loop name"),
    ("jaxobs_recorded_leaps_total", "counter", "loop name"),
    ("jaxobs_bottleneck_ratio", "gauge", "loop bottleneck"),
    ("jaxobs_bottleneck_confidence_ratio", "gauge", "loop"),
    ("jaxobs_bottleneck_info", "gauge", "loop bottleneck runner_up"),
    ("jaxobs_mfu_ratio", "gauge", "loop"),
    ("jaxobs_hfu_ratio", "gauge", "loop"),
    ("jaxobs_flops_total", "counter", "loop dtype kind"),
    ("jaxobs_bytes_total", "counter", "loop"),
    ("jaxobs_bound_seconds_total", "counter", "loop bound"),
    ("jaxobs_compilations_total", "counter", "function"),
    ("jaxobs_compile_seconds", "histogram", "phase"),
    ("jaxobs_compile_function_seconds_total", "counter", "function phase"),
    ("jaxobs_compiling_seconds", "gauge", "function"),
    ("jaxobs_recompilations_total", "counter", "function cause"),
    ("jaxobs_recompilation_seconds_total", "counter", "cause"),
    ("jaxobs_persistent_cache_requests_total", "counter", "outcome"),
    ("jaxobs_persistent_cache_enabled", "gauge", ""),
    ("jaxobs_persistent_cache_saved_seconds_total", "counter", ""),
    ("jaxobs_executable_flops", "gauge", EXECUTABLE),
    ("jaxobs_executable_bytes", "gauge", EXECUTABLE),
    ("jaxobs_executable_intensity_flops_per_byte", "gauge", EXECUTABLE),
    ("jaxobs_executable_peak_buffer_bytes", "gauge", "function kind operation shape dtype"),
    ("jaxobs_executable_runs_total", "counter", EXECUTABLE),
    ("jaxobs_executable_seconds_total", "counter", EXECUTABLE),
    ("jaxobs_executable_achieved_flops_per_second", "gauge", EXECUTABLE),
    ("jaxobs_executable_attainable_flops_per_second", "gauge", EXECUTABLE),
    ("jaxobs_executable_efficiency_ratio", "gauge", EXECUTABLE),
    ("jaxobs_executable_bottleneck_info", "gauge", f"{EXECUTABLE} bottleneck runner_up"),
    ("jaxobs_executable_memory_bytes", "gauge", f"{EXECUTABLE} kind"),
    ("jaxobs_device_info", "gauge", "device device_kind uuid"),
    ("jaxobs_device_peak_flops_per_second", "gauge", "device dtype"),
    ("jaxobs_device_peak_bytes_per_second", "gauge", "device"),
    ("jaxobs_device_peak_info", "gauge", "device dtype provenance"),
    ("jaxobs_roofline_ceiling_flops_per_second", "gauge", "device_kind dtype intensity"),
    ("jaxobs_source_up", "gauge", "source"),
    ("jaxobs_source_last_success_timestamp_seconds", "gauge", "source"),
    ("jaxobs_source_seconds_total", "counter", "source"),
    ("jaxobs_listener_restored_total", "counter", ""),
    ("jaxobs_events_total", "counter", "outcome"),
    ("jaxobs_agent_cpu_seconds_total", "counter", "where"),
    ("jaxobs_agent_resident_bytes", "gauge", ""),
    ("jaxobs_exporter_failures_total", "counter", "exporter"),
    ("jaxobs_exporter_dropped_total", "counter", "exporter"),
    ("jaxobs_series_limited_total", "counter", "metric"),
]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    """The core's metrics and those of every built-in plugin."""
    whole = Catalogue(CORE_METRICS)
    for group in (PROBES, COLLECTORS, EXPORTERS):
        for found in discover(group):
            assert not found.error, f"{found.name}: {found.error}"
            whole.declare(found.plugin.metrics, found.name)
    return whole


@pytest.mark.parametrize(("name", "kind", "labels"), FIXED)
def test_a_fixed_name_has_its_type_and_labels(
    catalogue: Catalogue, name: str, kind: str, labels: str
) -> None:
    metric = catalogue.get(name)
    assert metric is not None
    assert (metric.kind, metric.labels) == (kind, tuple(labels.split()))


def test_step_and_compile_buckets_reach_as_far_as_steps_and_compiles_do(catalogue: Catalogue) -> None:
    steps, compiles = catalogue.get("jaxobs_step_seconds"), catalogue.get("jaxobs_compile_seconds")
    assert isinstance(steps, Metric)
    assert isinstance(compiles, Metric)
    assert (steps.buckets[0], steps.buckets[-1]) == (0.00001, 600.0)
    assert compiles.buckets[-1] == 3600.0


def test_every_metric_says_what_it_is(catalogue: Catalogue) -> None:
    assert all(len(metric.help) > 10 for metric in catalogue)
    for metric in CORE_METRICS:
        assert metric.help.endswith("."), metric.name
        assert metric.unit or metric.name.endswith(("_info", "_total", "_up", "_enabled", "_recorded")), (
            metric.name
        )


def test_what_is_written_is_what_is_declared() -> None:
    """Series are written by name: a misspelt one would be missing without a word."""
    source = "".join(inspect.getsource(module) for module in (writer, series))
    assert set(re.findall(r'"(jaxobs_\w+)"', source)) == {metric.name for metric in CORE_METRICS}
