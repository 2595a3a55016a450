"""A real Prometheus scrapes a real training process, and both say the same."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.end_to_end.training import Training, page, prometheus_of
from tests.otel.job import Receiver
from tests.waiting import wait_for

STEPS = 300
PAUSED = f"""
with jaxobs.instrument() as obs:
    train(obs, {STEPS})
    time.sleep(0.5)
    say(document=obs.snapshot(60).to_dict(), address=obs.address, pid=os.getpid())
    wait()
    say(document=obs.snapshot(60).to_dict())
    wait()
    train(obs, 100)
    say(document=obs.snapshot(60).to_dict())
    wait()
say(ended=True)
"""


def test_promql_says_the_steps_and_flops_of_the_process_itself(
    start_training: Callable[..., Training],
    prometheus_server_binary: Path,
    promtool: Path,
    receiver: Receiver,
    tmp_path: Path,
) -> None:
    targets = tmp_path / "targets"
    training = start_training(
        PAUSED, JAXOBS_FILE_SD_DIRECTORY=str(targets), JAXOBS_RUN="night",
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{receiver.endpoint}/v1/traces",
    )  # fmt: skip
    server = prometheus_of(prometheus_server_binary, tmp_path, targets)
    try:
        heard = training.hear()
        document, address = heard["document"], heard["address"]
        executable = next(made for made in document["executables"] if made["function"] == "train_step")
        flops = STEPS * executable["cost"]["matrix_flops"]
        assert flops == STEPS * 2 * (2 * 32 * 64 * 64)  # the product, and the gradient's
        assert document["loops"]["train"]["steps"] == STEPS
        assert executable["runs"] == STEPS

        steps = 'jaxobs_steps_total{loop="train"}'
        wait_for(lambda: server.value(steps) == STEPS, "300 steps in Prometheus")
        assert server.value("sum(jaxobs_flops_total)") == flops
        assert server.value('target_info{jaxobs_run="night"}') == 1.0
        assert server.value('jaxobs_build_info{agent="process"}') == 1.0
        assert server.value('jaxobs_examples_total{loop="train"}') == STEPS * 32

        checked = subprocess.run(
            [promtool, "check", "metrics"],
            input=page(address),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")

        # By now the device was seen to be done with the last of these steps, so their time is counted, too.
        training.go_on()
        wall = training.hear()["document"]["loops"]["train"]["wall_seconds"]
        wait_for(
            lambda: server.value("sum(jaxobs_step_component_seconds_total)") == pytest.approx(wall, rel=1e-6),
            "the time of 300 steps in Prometheus",
        )

        training.go_on()
        again = training.hear()["document"]["loops"]["train"]
        assert again["steps"] == STEPS + 100
        wait_for(lambda: server.value(steps) == STEPS + 100, "400 steps in Prometheus")
        increase = server.value('increase(jaxobs_steps_total{loop="train"}[1m])')
        assert increase is not None
        assert 90 <= increase <= 2 * (STEPS + 100)
        rate = server.value('rate(jaxobs_steps_total{loop="train"}[1m])')
        assert rate is not None
        assert 0 < rate < 1 / 0.002  # no step was faster than its pause
        quantile = server.value(
            'histogram_quantile(0.5, rate(jaxobs_step_host_seconds_bucket{loop="train"}[1m]))'
        )
        assert quantile is not None
        assert 0.001 < quantile < 0.1

        exemplars = server.get(
            "query_exemplars", query="jaxobs_compile_seconds_bucket", start="0", end="9999999999"
        )
        found = [exemplar["labels"] for series in exemplars for exemplar in series["exemplars"]]
        assert found

        assert training.end() == 0
        sent = {span.trace_id.hex() for span in receiver.spans()}
        assert {labels["trace_id"] for labels in found} <= sent
        wait_for(lambda: not list(targets.glob("*.json")), "the target to be withdrawn")
    finally:
        server.close()
