"""Eight devices on the host, for the distributed programs; to be imported before JAX."""

import os

DEVICES = 8

os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
)
os.environ.setdefault("JAX_PLATFORMS", "cpu")
