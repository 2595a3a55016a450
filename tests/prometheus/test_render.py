import math
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric as ParsedFamily
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.samples import Sample

from jaxobs.model.metrics import Family, HistogramValue, Metric
from jaxobs.vocabulary.text import clean_label
from jaxobs_plugins.prometheus.render import OPENMETRICS, TEXT, label_name, render

GAUGE = Metric("example_value", "gauge", "A value.", ("name",))
HISTOGRAM = Metric("example_wait_seconds", "histogram", "Waits.", ("name",), "seconds", (0.5, 1.0, 2.5e7))

# What the core makes of any text, lone surrogates included, which bytes that are not UTF-8 become in Python.
label_texts = st.text(st.characters(), max_size=300).map(clean_label)
label_sets = st.lists(label_texts, unique=True, max_size=6)


def parsed(families: Iterable[Family], resource: Mapping[str, str] | None = None) -> dict[str, ParsedFamily]:
    """By name, as the strict parser of OpenMetrics reads what was rendered."""
    text = render(families, resource or {}, OPENMETRICS).decode()
    return {family.name: family for family in parse_openmetrics(text)}


def samples(families: Iterable[Family]) -> list[Sample]:
    return [sample for family in parsed(families).values() for sample in family.samples]


def test_both_formats_say_the_same_values(families: tuple[Family, ...], resource: dict[str, str]) -> None:
    def values(read: Iterable[ParsedFamily]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in read for s in family.samples}

    openmetrics = values(parse_openmetrics(render(families, resource, OPENMETRICS).decode()))
    text = values(parse_text(render(families, resource, TEXT).decode()))
    assert openmetrics == text
    assert openmetrics["jaxobs_steps_total", (("loop", "train"),)] == 12
    assert openmetrics["jaxobs_goodput_ratio", ()] == 0.75


def test_openmetrics_names_counters_without_total_and_says_the_units(families: tuple[Family, ...]) -> None:
    text = render(families, {}, OPENMETRICS).decode()
    assert "# TYPE jaxobs_steps counter\n" in text
    assert "# TYPE jaxobs_step_component_seconds counter\n" in text
    assert "# UNIT jaxobs_step_component_seconds seconds\n" in text
    assert 'jaxobs_step_component_seconds_total{component="compute",loop="train"} 3.5\n' in text
    assert text.endswith("# EOF\n")


def test_text_format_names_counters_with_total(families: tuple[Family, ...]) -> None:
    assert "# TYPE jaxobs_steps_total counter\n" in render(families, {}, TEXT).decode()


def test_histograms_are_cumulative_and_carry_exemplars_in_openmetrics(families: tuple[Family, ...]) -> None:
    buckets = [s for s in parsed(families)["jaxobs_step_seconds"].samples if s.name.endswith("_bucket")]
    assert [(s.labels["le"], s.value) for s in buckets] == [
        ("0.0001", 0), ("0.01", 3), ("1.0", 5), ("600.0", 5), ("+Inf", 6),
    ]  # fmt: skip
    exemplar = buckets[2].exemplar
    assert exemplar is not None
    assert exemplar.labels == {"trace_id": "0af7651916cd43dd8448eb211c80319c", "span_id": "b7ad6b7169203331"}
    assert (exemplar.value, float(exemplar.timestamp or 0)) == (0.02, 1_700_000_000.25)
    assert [s.exemplar for s in buckets if s is not buckets[2]] == [None] * 4
    assert b"trace_id" not in render(families, {}, TEXT)


def test_target_info_has_the_resource_under_prometheus_names(resource: dict[str, str]) -> None:
    [sample] = parsed((), resource)["target"].samples
    assert (sample.name, sample.value) == ("target_info", 1)
    assert sample.labels == {
        "service_name": "train", "host_name": "node1", "process_pid": "42", "jaxobs_run": "first",
        "jax_process_index": "3",
    }  # fmt: skip
    assert b"# TYPE target_info gauge\n" in render((), resource, TEXT)


def test_nothing_known_is_an_empty_page() -> None:
    assert render((), {}, TEXT) == b""
    assert render((), {}, OPENMETRICS) == b"# EOF\n"


def test_infinite_gauges_are_shown() -> None:
    shown = samples([Family(GAUGE, {("up",): math.inf, ("down",): -math.inf})])
    assert [sample.value for sample in shown] == [math.inf, -math.inf]


@given(label_sets)
def test_any_label_parses_strictly_and_comes_back_unchanged(texts: list[str]) -> None:
    shown = samples([Family(GAUGE, {(text,): float(index) for index, text in enumerate(texts)})])
    assert [sample.value for sample in shown] == [float(index) for index in range(len(texts))]
    for text, sample in zip(texts, shown, strict=True):
        assert sample.labels["name"] == text


@given(st.dictionaries(label_texts, st.lists(st.integers(0, 2**40), min_size=4, max_size=4), max_size=4))
def test_any_histogram_parses_strictly_and_keeps_its_count(series: dict[str, list[int]]) -> None:
    family = Family(
        HISTOGRAM, {(text,): HistogramValue(tuple(counts), 1.5) for text, counts in series.items()}
    )
    counts = [sample.value for sample in samples([family]) if sample.name.endswith("_count")]
    assert counts == [sum(counts) for counts in series.values()]


@given(st.text(st.characters(), max_size=300))
def test_any_resource_parses_strictly(text: str) -> None:
    [sample] = parsed((), {"service.name": text})["target"].samples
    assert sample.labels == {"service_name": clean_label(text)}


@pytest.mark.parametrize(
    ("dotted", "name"),
    [("service.name", "service_name"), ("k8s.pod.name", "k8s_pod_name"), ("2nd-key", "_2nd_key")],
)
def test_resource_names_become_label_names(dotted: str, name: str) -> None:
    assert label_name(dotted) == name


def test_promtool_finds_nothing(
    families: tuple[Family, ...], resource: dict[str, str], promtool: Path
) -> None:
    strange = [chr(code) for code in (*range(0x100), 0x85, 0x2028, 0xD800, 0xFFFE, 0xFFFF, 0x1F600)]
    hostile: dict[tuple[str, ...], float] = {
        (clean_label(f"a{character}{{}},= # \\"),): 1.0 for character in strange
    }
    everything = (
        *families,
        Family(Metric("example_age", "gauge", 'An "age" \\ of\nthings.', ("name",)), hostile),
    )
    page = render(everything, resource, TEXT)
    assert page.count(b"\nexample_age{") == len(set(strange))
    checked = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_promtool_finds_what_is_wrong(promtool: Path) -> None:
    wrong = Metric("example_seconds_total", "counter", "", (), "seconds")
    page = render([Family(wrong, {(): 1.0})], {}, TEXT)
    checked = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, check=False)
    assert checked.returncode != 0
