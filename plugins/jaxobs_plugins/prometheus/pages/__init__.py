"""Renders a snapshot: its metrics in the formats of Prometheus, the live page, and JSON."""
