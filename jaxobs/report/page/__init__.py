"""The live page: one HTML document made from a snapshot and the history of the last hour."""

from jaxobs.report.page.history import History
from jaxobs.report.page.view import Rank, View
from jaxobs.report.page.whole import page, policy

__all__ = ["History", "Rank", "View", "page", "policy"]
