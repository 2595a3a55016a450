"""Where the dashboards come from: `python -m grafana.source` writes grafana/dashboards/ anew."""
