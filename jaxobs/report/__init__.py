"""Figures of snapshots and of finished runs as records, comparisons and flat values: pure functions of plain data."""
