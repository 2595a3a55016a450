"""Looks up the peaks of the device to train on, and measures them where none are known yet."""

from __future__ import annotations

from jaxobs.cli.calibrate import DEFAULT_SECONDS, CalibrationFailedError, calibrate_in_process
from jaxobs.cli.checks.devices import check_devices, read_devices
from jaxobs.cli.demonstration.progress import bar, say
from jaxobs.config import Settings
from jaxobs.hardware.calibration import cache_directory, save_calibration


class NoDeviceError(Exception):
    """JAX has no device to train on; the message says why."""


def ensure_peaks(settings: Settings) -> None:
    """Calibrate if the first device has no matrix peak. A failure is reported, and the demo continues without peaks.

    JAX is queried in a separate process, because a backend made here would hold a GPU's memory meanwhile.
    Raises NoDeviceError.
    """
    report = check_devices(read_devices(), settings)
    if not report["devices"]:
        raise NoDeviceError(f"JAX finds no device: {report['error']}")
    if report["devices"][0]["peaks"]["matrix"]:
        return
    kind = report["devices"][0]["kind"]
    say(f"no peaks are known for {kind}: measuring them, once ({DEFAULT_SECONDS:.0f} s and a few to start)")
    try:
        with bar("calibrating") as shown:
            calibration = calibrate_in_process(DEFAULT_SECONDS, shown)
        path = save_calibration(calibration, cache_directory(settings.cache_directory))
    except CalibrationFailedError as error:
        say(f"calibration failed, so there will be no MFU and no efficiency: {error}")
    except OSError as error:
        say(f"the calibration could not be kept, so there will be no MFU and no efficiency: {error}")
    else:
        say(f"peaks kept in {path}; `jaxobs calibrate` measures them again")
        if calibration.disturbed:
            say(
                f"other processes took {calibration.other_load:.1f} cores meanwhile: these peaks may be too low, "
                "and MFU and efficiency too high"
            )
