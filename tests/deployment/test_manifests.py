"""What is shipped in `deploy/` is what Docker, Kubernetes, Prometheus and Slurm take."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from jaxobs.model.addresses import DEFAULT_PORT
from tests.deployment.programs import DEPLOY, ROOT, tool

pytestmark = pytest.mark.deployment

CHART = ROOT / "build" / "chart" / "jaxobs"
"""As `make chart`, which `make deployment` runs first, puts it together."""
CHECK = ROOT / ".venv-schemas" / "bin" / "check-jsonschema"
RESTRICTED_POD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
RESTRICTED_CONTAINER = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
"""What a namespace asks of its pods that enforces Kubernetes' standard `restricted`."""
EVERYTHING = [
    "--set", "demo.enabled=true", "--set", "networkPolicy.enabled=true",
    "--set", "jobs.namespaces={research,production}",
]  # fmt: skip


def run(*command: str | Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False)


def rendered(*options: str) -> str:
    done = run(tool("helm"), "template", "jaxobs", CHART, "--kube-version", "1.34.0", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_packed_chart_is_the_same() -> None:
    (packed,) = CHART.parent.glob("jaxobs-*.tgz")
    done = run(tool("helm"), "template", "jaxobs", packed, "--kube-version", "1.34.0")
    assert (done.returncode, done.stdout) == (0, rendered()), done.stderr


def validated(manifests: str) -> dict[str, object]:
    """By Kubernetes' own schemas, from this machine alone; unknown fields are errors."""
    schemas = f"{tool('kubernetes-schemas')}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command = ["-strict", "-summary", "-output", "json", "-schema-location", schemas]
    done = run(tool("kubeconform"), *command, given=manifests)
    summary: dict[str, object] = json.loads(done.stdout)["summary"]
    return summary


def test_the_chart_has_nothing_to_complain_of() -> None:
    done = run(tool("helm"), "lint", "--strict", CHART)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout + done.stderr


def test_a_chart_without_its_files_says_how_to_get_them() -> None:
    done = run(tool("helm"), "template", "jaxobs", "--kube-version", "1.34.0", DEPLOY / "helm" / "jaxobs")
    assert done.returncode != 0
    assert "run `make chart`" in done.stderr


@pytest.mark.parametrize(("options", "resources"), [([], 13), (EVERYTHING, 16)])
def test_kubernetes_takes_what_the_chart_renders(options: list[str], resources: int) -> None:
    found = validated(rendered(*options))
    assert found == {"valid": resources, "invalid": 0, "errors": 0, "skipped": 0}


def test_a_field_that_nobody_knows_is_found() -> None:
    assert validated(rendered().replace("interval: 15s", "intervall: 15s"))["invalid"] == 2


def test_the_example_of_a_jobset_is_one_and_has_what_the_chart_selects() -> None:
    text = (DEPLOY / "kubernetes" / "jobset.yaml").read_text()
    assert validated(text) == {"valid": 1, "invalid": 0, "errors": 0, "skipped": 0}
    assert validated(text.replace("backoffLimit", "backofLimit"))["invalid"] == 1
    pod = yaml.safe_load(text)["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["securityContext"].items() >= RESTRICTED_POD.items()
    assert container["securityContext"] == RESTRICTED_CONTAINER
    values = yaml.safe_load((CHART / "values.yaml").read_text())["jobs"]
    assert pod["metadata"]["labels"] == values["labels"]
    assert {"name": values["portName"], "containerPort": values["port"]} in pod["spec"]["containers"][0][
        "ports"
    ]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("podmonitor.enabled=false", "podmonitor"),
        ("jobs.port=no", "port"),
        ("podMonitor.interval=15", "interval"),
    ],
)
def test_a_mistyped_value_is_refused(value: str, says: str) -> None:
    done = run(tool("helm"), "template", "jaxobs", CHART, "--kube-version", "1.34.0", "--set", value)
    assert done.returncode != 0
    assert says in done.stderr


def test_the_schema_knows_every_value_and_no_other() -> None:
    def names(part: object, key: str) -> set[str]:
        return {f"{key}{name}" for name in part} if isinstance(part, dict) else set()

    known = json.loads((CHART / "values.schema.json").read_text())["properties"]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert known.keys() - {"global"} == values.keys()
    for name, part in values.items():
        assert names(known[name]["properties"], f"{name}.") == names(part, f"{name}.")


def test_an_image_is_built_from_what_it_copies_alone() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", (DEPLOY / "demo.Dockerfile").read_text(), re.MULTILINE)
    let_in = re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert sorted(let_in) == sorted(name for line in copied for name in line.split())
    assert all((ROOT / name).exists() for name in let_in)


def test_everything_runs_without_being_root() -> None:
    manifests = rendered(*EVERYTHING)
    pods = len(re.findall(r"^kind: (?:Deployment|Job)$", manifests, re.MULTILINE))
    assert pods == 2
    for line in ("runAsNonRoot: true", "allowPrivilegeEscalation: false", "readOnlyRootFilesystem: true"):
        assert manifests.count(line) == pods, line


def test_the_network_policy_is_asked_for_and_closes_the_port_of_the_metrics_alone() -> None:
    assert "kind: NetworkPolicy" not in rendered()
    policies = rendered("--set", "networkPolicy.enabled=true", "--set", "jobs.port=9500")
    (policy,) = [each for each in yaml.safe_load_all(policies) if each and each["kind"] == "NetworkPolicy"]
    (to_all,) = [rule["ports"] for rule in policy["spec"]["ingress"] if "from" not in rule]
    assert to_all == [
        {"port": 1, "endPort": 9499, "protocol": "TCP"},
        {"port": 9501, "endPort": 65535, "protocol": "TCP"},
        {"port": 1, "endPort": 65535, "protocol": "UDP"},
    ]


def test_the_chart_carries_every_dashboard_and_rule() -> None:
    manifests = rendered(*EVERYTHING)
    for dashboard in (ROOT / "grafana" / "dashboards").glob("*.json"):
        assert f"  {dashboard.name}: |-" in manifests
    for file in ("alerts.yml", "rules.yml"):
        rules = re.findall(r"(?:alert|record): [\w:]+", (DEPLOY / "prometheus" / file).read_text())
        assert len(rules) > 3
        assert [rule for rule in rules if f"{rule}\n" not in manifests] == []
    assert "{{ $labels." in manifests, "Helm leaves Prometheus's own templates alone"
    assert f"port: {DEFAULT_PORT}," in manifests


def test_the_alerts_lead_to_whole_addresses() -> None:
    manifests = rendered("--set", "rules.grafanaUrl=https://grafana.example.org/")
    assert (
        "runbook_url: https://github.com/jaxobs/jaxobs/blob/main/docs/runbook.md#jaxrankgone\n" in manifests
    )
    assert 'dashboard_url: "https://grafana.example.org/d/jaxobs-fleet?var-run=' in manifests
    assert not re.search(r'(?:runbook|dashboard)_url: "?/', manifests)


def test_jobs_with_a_token_and_tls_are_read_as_the_values_say() -> None:
    values = {"scheme": "https", "authorization": {"credentials": {"name": "jaxobs", "key": "token"}}}
    manifests = rendered("--set-json", f"podMonitor.endpoint={json.dumps(values)}")
    assert validated(manifests)["invalid"] == 0
    jobs, pushed = [each for each in yaml.safe_load_all(manifests) if each and each["kind"] == "PodMonitor"]
    assert jobs["spec"]["podMetricsEndpoints"][0].items() >= values.items()
    assert not any("scheme" in endpoint for endpoint in pushed["spec"]["podMetricsEndpoints"])


def test_docker_compose_takes_the_file_by_its_published_schema() -> None:
    done = run(CHECK, "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_file_that_compose_mounts_is_there() -> None:
    mounted = re.findall(r"^ +- (\.[^:]+):", (DEPLOY / "compose.yaml").read_text(), re.MULTILINE)
    assert len(mounted) >= 5
    assert [path for path in mounted if not (DEPLOY / path).exists()] == []


def test_who_looks_at_the_composed_grafana_may_follow_links_into_traces() -> None:
    """They open Explore, which Grafana gives to viewers only where they can edit."""
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    settings = services["grafana"]["environment"]
    assert settings["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert settings["GF_USERS_VIEWERS_CAN_EDIT"] == "true"


def test_the_service_asks_for_the_network_that_it_waits_for() -> None:
    unit = (DEPLOY / "systemd" / "jaxobs-train@.service").read_text()
    awaited, wanted = (re.findall(rf"^{key}=(.+)$", unit, re.MULTILINE) for key in ("After", "Wants"))
    assert awaited == wanted == ["network-online.target"]


def test_an_image_that_lies_on_the_node_is_not_asked_for_elsewhere() -> None:
    (job,) = [each for each in yaml.safe_load_all(rendered(*EVERYTHING)) if each and each["kind"] == "Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["imagePullPolicy"] == "IfNotPresent"


def test_prometheus_takes_its_configuration(promtool: Path) -> None:
    done = run(promtool, "check", "config", DEPLOY / "prometheus" / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_collector_takes_its_configuration() -> None:
    done = run(tool("collector"), "validate", "--config", DEPLOY / "collector" / "config.yaml")
    assert done.returncode == 0, done.stderr


def test_the_batch_script_is_bash() -> None:
    done = run("bash", "-n", DEPLOY / "slurm" / "train.sbatch")
    assert done.returncode == 0, done.stderr


def test_each_rank_of_the_batch_script_sees_the_gpu_of_its_number() -> None:
    """It is what `jax.distributed.initialize()` takes under Slurm; of `--gpus-per-task=1` it would see number 0 alone."""
    text = (DEPLOY / "slurm" / "train.sbatch").read_text()
    options = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)", text, re.MULTILINE))
    assert options["gpus-per-node"] == options["ntasks-per-node"]
    assert "gpus-per-task" not in options


def test_metrics_of_the_batch_script_are_fetched_and_spans_alone_are_pushed(tmp_path: Path) -> None:
    srun = tmp_path / "srun"
    srun.write_text("#!/bin/sh\nenv\n")
    srun.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.defpath}", "COLLECTOR": "http://collector:4318"}
    script = DEPLOY / "slurm" / "train.sbatch"
    done = subprocess.run(
        ["bash", script], env=variables, capture_output=True, text=True, timeout=60, check=True
    )
    given = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert given["JAXOBS_FILE_SD_DIRECTORY"] == "/shared/prometheus/targets"
    assert {name: value for name, value in given.items() if name.startswith("OTEL_EXPORTER_OTLP_")} == {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"
    }
