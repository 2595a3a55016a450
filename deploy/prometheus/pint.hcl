# pint's settings for rules.yml and alerts.yml: make lint-grafana, and in make prove-grafana against a real Prometheus.
parser {
  schema = "prometheus"
  names  = "utf-8"
}
