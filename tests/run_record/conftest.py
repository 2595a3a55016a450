from tests.jobs import run, start

__all__ = ["run", "start"]
