"""`python -m jaxobs.measure.device_report` writes the versions of JAX and its devices as one line of JSON.

`jaxobs check` runs it in a process of its own, because making a JAX backend may fail, hang, or abort.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import Any


def device_report() -> dict[str, Any]:
    """Versions, the default platform and its local devices; `error` says why there are none."""
    report: dict[str, Any] = {"jax": None, "jaxlib": None, "platform": None, "devices": [], "error": None}
    try:
        import jax

        report |= {"jax": jax.__version__, "jaxlib": version("jaxlib")}
        devices = jax.local_devices()
        report |= {
            "platform": jax.default_backend(),
            "devices": [
                {"device": ordinal, "kind": str(device.device_kind), "platform": str(device.platform)}
                for ordinal, device in enumerate(devices)
            ],
        }
    except Exception as error:  # noqa: BLE001  # the report says what went wrong
        report["error"] = f"{type(error).__name__}: {error}"
    return report


if __name__ == "__main__":
    # A line of its own, whatever was printed before.
    sys.stdout.write("\n" + json.dumps(device_report()) + "\n")
