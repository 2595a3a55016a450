"""Compares the records of two runs: what became slower or faster, why, and what lies within the noise."""

from jaxobs.report.comparison.compare import compare
from jaxobs.report.comparison.finding import Cause, Comparison, Effect

__all__ = ["Cause", "Comparison", "Effect", "compare"]
