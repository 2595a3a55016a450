// The dashboards, rules and alerts as a monitoring mixin, for those who deploy with jsonnet:
//   (import 'grafana/mixin.libsonnet') + { _config+:: { grafanaUrl: 'https://grafana.example.org' } }
local dashboards = ['overview', 'roofline', 'compile', 'memory', 'hardware', 'fleet'];
local files = {
  overview: import 'dashboards/jaxobs-overview.json',
  roofline: import 'dashboards/jaxobs-roofline.json',
  compile: import 'dashboards/jaxobs-compile.json',
  memory: import 'dashboards/jaxobs-memory.json',
  hardware: import 'dashboards/jaxobs-hardware.json',
  fleet: import 'dashboards/jaxobs-fleet.json',
};

{
  _config+:: {
    // Put before the relative addresses in the alerts' annotations.
    grafanaUrl: '',
    runbookUrl: '',
  },

  grafanaDashboards+:: { ['jaxobs-' + name + '.json']: files[name] for name in dashboards },

  prometheusRules+:: std.parseYaml(importstr '../deploy/prometheus/rules.yml'),

  prometheusAlerts+:: {
    local read = std.parseYaml(importstr '../deploy/prometheus/alerts.yml'),
    local addressed(rule) = rule {
      annotations+: {
        runbook_url: $._config.runbookUrl + super.runbook_url,
        dashboard_url: $._config.grafanaUrl + super.dashboard_url,
      },
    },
    groups: [group { rules: [addressed(rule) for rule in group.rules] } for group in read.groups],
  },
}
