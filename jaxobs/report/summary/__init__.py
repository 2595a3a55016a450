"""A snapshot as text for people: in full for the end of a run, and in one line."""

from jaxobs.report.summary.text import digest, render

__all__ = ["digest", "render"]
