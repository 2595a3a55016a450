"""The exporter `prometheus`: serves the last snapshot on /metrics from the agent process."""
