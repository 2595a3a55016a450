"""What is served of a snapshot: the metrics in the formats of Prometheus, the live page, and JSON."""
