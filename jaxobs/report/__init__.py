"""Shows figures to people: units, tables, summaries, records, comparisons, charts and pages, all from plain data."""
