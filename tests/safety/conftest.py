"""Jobs are started, watched and ended by the fixtures of `tests/jobs.py`."""

from tests.jobs import run, start

__all__ = ["run", "start"]  # fixtures
