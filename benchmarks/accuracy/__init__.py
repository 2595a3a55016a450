"""FLOPs and bytes of programs by formula. The distributed ones need eight devices, asked for before JAX is imported."""

import os

flags = os.environ.get("XLA_FLAGS", "")
os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
