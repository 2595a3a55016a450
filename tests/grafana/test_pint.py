"""pint finds nothing in the rules, asked of the Prometheus that scraped a real training."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.grafana.scraped import RULES, Scraped

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

NOT_HERE = {
    "jaxobs_nvidia_.+": "no NVIDIA device on this machine",
    "jaxobs_amd_.+": "no AMD device on this machine",
    "jaxobs_device_(throttled_info|utilization_ratio|clock_ratio)": "no collector reads a CPU's clocks as a device's",
    "jaxobs_(device|process)_memory_exhaustion_seconds": "absent unless memory grows steadily",
    "jaxobs_compiling_seconds": "absent unless something is being compiled",
    "run_rank:jaxobs_gone:max": "absent while every rank is there",
}


# What is ignored above is reported as a warning, what is not as a bug; all else is found offline, by `make lint-grafana`.
def test_every_series_of_the_rules_is_there_or_says_why_not(scraped: Scraped, tmp_path: Path) -> None:
    pint = os.environ.get("JAXOBS_PINT")
    if not pint:
        reason = "pint is not there: run `make prove-grafana`, which builds it with Go"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    ignored = ", ".join(f'"{name}"' for name in NOT_HERE)
    settings = tmp_path / "pint.hcl"
    settings.write_text(
        f"""{(RULES / "pint.hcl").read_text()}
prometheus "test" {{
  uri     = "{scraped.prometheus.address}"
  timeout = "30s"
}}
check "promql/series" {{
  lookbackRange = "1h"
  lookbackStep  = "1m"
  ignoreMetrics = [{ignored}]
}}
"""
    )
    done = subprocess.run(
        [pint, "--no-color", "--log-level", "WARN", "--config", str(settings), "lint", "--min-severity", "bug",
         "--fail-on", "bug", str(RULES / "rules.yml"), str(RULES / "alerts.yml")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
