"""The programs of this folder, and what their marked runs can be."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SUITE = Path(__file__).with_name("suite")


class Program(NamedTuple):
    """A training program. `unmarked` says what of it cannot be marked, because a library calls it; "" where all can.

    `often`: part of what continuous integration runs. `environment`: another than .venv-programs.
    """

    name: str
    package: str
    unmarked: str = ""
    often: bool = False
    environment: str = ".venv-programs"

    @property
    def path(self) -> Path:
        """Its file."""
        return SUITE / f"{self.name}.py"

    @property
    def python(self) -> Path:
        """The interpreter that runs it: this one, where its environment is not made here."""
        path = ROOT / self.environment / "bin" / "python"
        return path if path.exists() else Path(sys.executable)

    @property
    def can_be_marked(self) -> bool:
        """Whether there is a marked run at all."""
        return self.unmarked != NEITHER


NEITHER = "loop and step are the library's"
STEP = "the step is the library's"

PROGRAMS = (
    Program("keras_fit", "Keras fit", STEP, often=True),
    Program("flax_linen", "Flax linen"),
    Program("flax_nnx", "Flax nnx"),
    Program("equinox_mlp", "Equinox", often=True),
    Program("haiku_transform", "Haiku"),
    Program("brax_ppo", "brax PPO", NEITHER, environment=".venv-programs-jax-0.8.2"),
    Program("numpyro_nuts", "NumPyro NUTS", NEITHER),
    Program(
        "blackjax_nuts", "BlackJAX NUTS", "the scan is called outside jit: there is no function to watch"
    ),
    Program("purejaxrl_scan", "PureJaxRL-style scan", often=True),
    Program("diffrax_neural_ode", "diffrax"),
    Program("pmap_two_devices", "pmap"),
    Program("shard_map_two_devices", "shard_map", often=True),
    Program("orbax_checkpoints", "orbax"),
    Program("grain_workers", "Grain with workers"),
    Program("vae_fori_loop", "VAE, fori_loop", often=True),
)
