"""A training that gives `obs.values()` to four trackers, offline, and prints what each kept of the last."""

import json
import os
import sys
from pathlib import Path

import aim
import jax
import jax.numpy as jnp
import mlflow
import tensorboardX
import wandb
from tensorboardX.proto.event_pb2 import Event

import jaxobs

STEPS = 300

folder = Path(sys.argv[1])
mlflow.set_tracking_uri(f"file:{folder / 'mlflow'}")
active = mlflow.start_run(run_name=os.environ["MLFLOW_RUN_NAME"])
run = wandb.init(project="tested", dir=folder)
tracked = aim.Run(repo=str(folder / "aim"), system_tracking_interval=None, log_system_params=False)
writer = tensorboardX.SummaryWriter(str(folder / "tensorboard"))

obs = jaxobs.instrument()
train_step = jax.jit(lambda state, batch: state - 1e-4 * batch.T @ (batch @ state))
state, batch = jnp.ones((512, 256)), jnp.ones((1024, 512)) / 1024
for step in obs.steps(range(STEPS)):
    state = jax.block_until_ready(train_step(state, batch))
    values = obs.values()
    wandb.log({"loss": 1.0, **values}, step=step)
    mlflow.log_metrics(values, step=step)
    tracked.track(values, step=step)
    for name, value in values.items():
        writer.add_scalar(name, value, step)

mlflow.end_run()
writer.close()
kept = mlflow.get_run(active.info.run_id).data.metrics
summary = {name: value for name, value in dict(run.summary).items() if name.startswith("jaxobs/")}
run.finish()
series = {metric.name: metric.data.numpy() for metric in tracked.metrics()}
last = {name: float(values[-1]) for name, (_, (values, *_)) in series.items()}
tracked.close()
curves = {}
for file in sorted((folder / "tensorboard").iterdir()):
    data = file.read_bytes()
    while data:  # a record: length, its checksum, an event, its checksum
        length = int.from_bytes(data[:8], "little")
        for each in Event.FromString(data[12 : 12 + length]).summary.value:
            curves[each.tag] = each.simple_value
        data = data[16 + length :]
named = obs.snapshot().to_dict()["process"]["run"]
print(
    json.dumps(
        {"given": values, "wandb": summary, "mlflow": kept, "aim": last, "tensorboard": curves, "run": named}
    )
)
