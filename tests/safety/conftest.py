"""Jobs are started, watched and ended by the fixtures of `tests/jobs.py`."""

from tests.jobs import run, start, unused_port

__all__ = ["run", "start", "unused_port"]  # fixtures
