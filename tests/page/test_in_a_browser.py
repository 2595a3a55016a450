"""The live page as a reader sees it: a real browser, a real training, and what both say to each other."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SERIES = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
SECONDS = 3.0
"""Within which a recompile is to be seen."""


def series(metrics: str, name: str) -> list[tuple[dict[str, str], float]]:
    return [
        (dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)), float(value))
        for found, labels, value in SERIES.findall(metrics)
        if found == name
    ]


@pytest.fixture(scope="module")
def seen(training: Any, look: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    shape = {"file": str(training.shape_file), "rows": 96, "text": "float32[96,256]"}
    return look(training.address, drawn=True, follow=True, recompile=shape, faults=True)


def test_roofs_and_points_are_those_of_the_metrics(seen):
    metrics = seen["moment"]["metrics"]
    for roof in seen["moment"]["roofs"]:
        flops, memory = float(roof["flopsPerSecond"]), float(roof["bytesPerSecond"])
        ceilings = [
            (float(labels["intensity"]), value)
            for labels, value in series(metrics, "jaxobs_roofline_ceiling_flops_per_second")
            if labels["dtype"] == roof["dtype"]
        ]
        assert len(ceilings) == 40
        assert all(value == pytest.approx(min(each * memory, flops), rel=1e-4) for each, value in ceilings)
    assert {roof["dtype"] for roof in seen["moment"]["roofs"]} == {"float32"}
    shown = sorted(
        (float(one["intensity"]), float(one["flopsPerSecond"])) for one in seen["moment"]["executables"]
    )
    achieved = {
        labels["executable"]: value
        for labels, value in series(metrics, "jaxobs_executable_achieved_flops_per_second")
    }
    intensity = {
        labels["executable"]: value
        for labels, value in series(metrics, "jaxobs_executable_intensity_flops_per_byte")
    }
    told = sorted((intensity[name], rate) for name, rate in achieved.items() if rate and intensity.get(name))
    assert [value for pair in shown for value in pair] == pytest.approx(
        [value for pair in told for value in pair]
    )
    assert seen["moment"]["operations"]


def test_every_point_is_on_the_chart_and_says_what_it_is(seen):
    for point in seen["positions"]:
        assert 0 <= point["across"] <= 1
        assert 0 <= point["down"] <= 1
        assert point["wide"] > 4
        assert "FLOP/byte" in point["tip"]
    assert any("job.py:" in point["tip"] and "layer" in point["tip"] for point in seen["positions"])
    assert any("efficiency" in point["tip"] for point in seen["positions"])


def test_a_recompile_is_seen_at_once(seen):
    assert seen["recompile_seconds"] <= SECONDS


def test_what_a_reader_does_stays_while_the_page_follows_the_run(seen):
    assert seen["kept"] == {"open": True, "focus": True, "same": True, "scrolled": pytest.approx(400, abs=80)}
    assert seen["tip"]["hidden"] is False
    assert "FLOP/s" in seen["tip"]["text"]
    assert seen["asked_while_hidden"] == 0


def test_nothing_leaves_the_host_and_the_console_is_empty(seen, training):
    ours = urlsplit(training.address).netloc
    elsewhere = [
        url for url in seen["requests"] if not url.startswith("data:") and urlsplit(url).netloc != ours
    ]
    assert elsewhere == []
    assert seen["console"] == []


def test_axe_finds_no_serious_fault_in_light_dark_and_on_a_phone(seen):
    assert [fault for fault in seen["faults"] if fault["impact"] in {"serious", "critical"}] == []
    assert seen["phone_overflow"] <= 0


def test_a_browser_is_asked_for_the_token(start, look, tmp_path: Path):
    token = tmp_path / "token"
    token.write_text("0af7651916cd43dd8448eb211c80319c")
    job = start(JAXOBS_METRICS_TOKEN_FILE=str(token))
    found = look(job.address, token=token.read_text(), drawn=True, follow=True)
    assert found["status"] == 200
    assert found["moment"]["executables"]
    assert found["console"] == []
    job.process.kill()


def test_screenshots_for_the_documentation(start, look, request):
    if not request.config.getoption("--write-screenshots"):
        pytest.skip("only with ARGS=--write-screenshots")
    images = Path(__file__).parents[2] / "docs" / "images"
    images.mkdir(exist_ok=True)
    job = start(JAXOBS_RUN="mlp")  # so that no other test's job on this machine is a rank of it
    for rows in (192, 256, 128):  # a minute of history, in which it compiles twice again
        time.sleep(20)
        job.shape_file.write_text(str(rows))
    look(job.address, screenshots=str(images))
    job.process.kill()
    assert sorted(path.name for path in images.glob("page-*.png")) == [
        "page-dark.png", "page-light.png", "page-phone.png", "page-top.png",
    ]  # fmt: skip
