"""For those who write plugins: the checks that every plugin must pass, and stand-ins for the job and the agent.

A plugin's own test can be one line: `check_collector(MyCollector())`. Each check raises AssertionError saying what is
wrong and what to do; nothing here needs pytest.
"""

from jaxobs.testing.checks import check_collector, check_exporter, check_probe
from jaxobs.testing.stand_ins import DEFAULT_SETTINGS, FakeAgent, FakeJob

__all__ = ["DEFAULT_SETTINGS", "FakeAgent", "FakeJob", "check_collector", "check_exporter", "check_probe"]
