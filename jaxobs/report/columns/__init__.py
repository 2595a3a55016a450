"""Columns of the tables that the page, notebooks and the terminal have in common: their cells and their order."""

from jaxobs.report.columns.column import Column, Row, figure, last_name, plain, sorted_rows, text

__all__ = ["Column", "Row", "figure", "last_name", "plain", "sorted_rows", "text"]
