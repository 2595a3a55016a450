"""Columns of the tables that the page, notebooks and the terminal share: their headings, cells and order."""

from jaxobs.report.columns.column import Column, Row, figure, last_name, plain, sorted_rows, text

__all__ = ["Column", "Row", "figure", "last_name", "plain", "sorted_rows", "text"]
