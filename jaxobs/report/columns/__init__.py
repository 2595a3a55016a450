"""Columns of the tables that the page, notebooks and the terminal share: their headings, cells and order."""

from jaxobs.report.columns.column import (
    Column,
    Row,
    computed,
    figure,
    last_name,
    plain_table,
    sorted_rows,
    text,
    words,
)

__all__ = ["Column", "Row", "computed", "figure", "last_name", "plain_table", "sorted_rows", "text", "words"]
