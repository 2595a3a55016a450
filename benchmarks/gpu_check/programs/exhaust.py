"""Holds arrays of known size and asks for more than is left: `python exhaust.py`.

On a GPU it holds half of what the allocator may have and asks for three quarters. A CPU has no such limit: there the
process may have 700 MiB of addresses more than by then, holds 64 MiB and asks for 4 GiB.
"""

from __future__ import annotations

import json
import resource
from pathlib import Path

import jax
import jax.numpy as jnp

import jaxobs

HELD = 16
ROW = 1024


def main() -> None:
    """Say what is held and what is asked for, and ask for it."""
    limit = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")
    part, asked = (limit // 2 // HELD, 3 * limit // 4) if limit else (4 * 2**20, 4 * 2**30)
    rows = asked // 4 // ROW

    @jax.jit
    def grow(x: jax.Array) -> jax.Array:
        return jnp.broadcast_to(x, (rows, ROW)) + 1.0

    with jaxobs.instrument() as obs:
        watched = obs.watch(grow)
        held = [jnp.full(part // 4, float(number), jnp.float32) for number in range(HELD)]
        row = jnp.arange(ROW, dtype=jnp.float32)
        jax.block_until_ready([*held, row])
        obs.snapshot(20)  # the agent is up, as in a job that has run for a while
        if not limit:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            addresses = pages * resource.getpagesize() + 700 * 2**20
            resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
        told = {"held": sum(one.nbytes for one in held) + row.nbytes, "asked": rows * ROW * 4}
        print(json.dumps({"truth": told}), flush=True)
        watched(row).block_until_ready()


if __name__ == "__main__":
    main()
