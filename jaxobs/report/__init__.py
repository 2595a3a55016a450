"""Figures as text for people: units, tables, and the summary of a snapshot. Plain values in, text out."""
