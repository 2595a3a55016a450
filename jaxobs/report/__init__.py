"""Figures as people read them: units, tables, summaries, pictures and pages. Plain values in, text out."""
