"""A rank is stopped, then another dies: the rules name these and no others. Last, for it takes ranks away."""

from __future__ import annotations

import os
import signal

import pytest

from tests.grafana.scraped import Scraped
from tests.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SILENCE = 10.0
"""Seconds: the job says something about once a second; the alert waits for a minute of silence."""


def silences(scraped: Scraped) -> dict[str, float]:
    """Of the ranks of the fleet."""
    found = scraped.prometheus.query('run_rank:jaxobs_silence_seconds:max{run="fleet"}')
    return {series["metric"]["rank"]: float(series["value"][1]) for series in found}


def test_a_rank_that_is_stopped_is_the_silent_one(scraped: Scraped) -> None:
    stopped = scraped.jobs["fleet 2"].process
    os.kill(stopped.pid, signal.SIGSTOP)
    try:
        wait_for(lambda: silences(scraped)["2"] > SILENCE, "the silence of rank 2")
        silent = silences(scraped)
        assert {rank for rank, seconds in silent.items() if seconds > SILENCE / 2} == {"2"}, silent
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    wait_for(lambda: silences(scraped)["2"] < SILENCE / 2, "rank 2 to be heard of again")


def test_a_rank_that_dies_is_the_one_that_is_gone(scraped: Scraped) -> None:
    def gone() -> set[str]:
        found = scraped.prometheus.query("run_rank:jaxobs_gone:max")
        return {f"{series['metric']['run']} {series['metric']['rank']}" for series in found}

    wait_for(lambda: gone() == set(), "all ranks, of which a busy machine may have lost one for a scrape", 60)
    scraped.jobs["fleet 1"].kill()
    assert wait_for(gone, "rank 1 to be gone") == {"fleet 1"}
