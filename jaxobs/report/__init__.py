"""Figures as people read them: units, tables, summaries, records, comparisons, pictures and pages; plain values in."""
