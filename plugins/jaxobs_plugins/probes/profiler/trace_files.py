"""Writes raw traces where XProf finds them: `<directory>/plugins/profile/<run>/<name>.xplane.pb`.

XProf should show ranks that record at the same time as the hosts of one run, so the run is named by the minute (UTC)
and each file by its rank. Ranks whose traces begin in different minutes make two runs.
"""

from __future__ import annotations

import time
from pathlib import Path

from jaxobs.plugin.files import write_whole

TRACES = Path("plugins") / "profile"


def keep_trace(keep: bool | str, directory: str | None, xspace: bytes, wall_time: float) -> tuple[str, str]:
    """Write a trace below `keep`, or below the settings' `directory`. Returns its path and why there is none."""
    import jax

    directory = keep if isinstance(keep, str) else directory
    if not directory:
        return "", "the trace was not kept: JAXOBS_PROFILE_DIRECTORY is not set"
    try:
        return write_trace(directory, jax.process_index(), xspace, wall_time), ""
    except OSError as error:
        return "", f"the trace could not be kept: {error}"


def write_trace(directory: str, rank: int, xspace: bytes, wall_time: float) -> str:
    """Write a trace, never over another one. Returns its path. Raises OSError where it cannot be written."""
    moment = time.gmtime(wall_time)
    # The second name is for a rank that has a trace in this minute already.
    for run in ("%Y_%m_%d_%H_%M", "%Y_%m_%d_%H_%M_%S"):
        folder = Path(directory) / TRACES / time.strftime(run, moment)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"rank_{rank:05d}.xplane.pb"
        try:
            write_whole(path, xspace, replace=False)  # XProf may look at any time
        except FileExistsError:
            continue
        return str(path)
    raise FileExistsError(f"{path} is there already")
