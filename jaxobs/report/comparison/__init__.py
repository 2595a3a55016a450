"""Two records of runs side by side: what became slower or faster, why, and what lies within the noise."""

from jaxobs.report.comparison.compare import compare
from jaxobs.report.comparison.finding import Cause, Comparison, Effect, Finding, Row
from jaxobs.report.comparison.noise import Change

__all__ = ["Cause", "Change", "Comparison", "Effect", "Finding", "Row", "compare"]
