"""Advice on how to make a job faster, each with a cause, a number and a remedy. Pure: a view in, plain data out.

The table of conditions is in `conditions.py`; docs/reference/advice.md is written from it.
"""

from jaxobs.derive.advice.conditions import CONDITIONS
from jaxobs.derive.advice.finding import LEAST_SAVED
from jaxobs.derive.advice.ranking import MOST, advise, advise_on_trace

__all__ = ["CONDITIONS", "LEAST_SAVED", "MOST", "advise", "advise_on_trace"]
