"""Dashboards for Grafana: the JSON files, and the typed Python that writes them."""
