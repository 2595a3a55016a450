"""FLOPs and bytes of programs by formula. The distributed ones need eight devices, asked for before JAX is imported."""

import os

DEVICES = 8

os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
