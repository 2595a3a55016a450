"""The peaks of the device that will be trained on: looked up, and measured where nothing is known of it yet."""

from __future__ import annotations

from jaxobs.cli.calibrate import DEFAULT_SECONDS, CalibrationFailedError, calibrate_in_process
from jaxobs.cli.checks.devices import check_devices, read_devices
from jaxobs.cli.demonstration.progress import bar, say
from jaxobs.config import Settings
from jaxobs.hardware.calibration_file import cache_directory, save_calibration


class NoDeviceError(Exception):
    """JAX has no device to train on; the message says why."""


def ensure_peaks(settings: Settings) -> None:
    """Calibrate if the first device has no matrix peak. A failure is said, and the demo goes on without.

    JAX is asked in a process of its own: a backend made here would hold the memory of a GPU meanwhile.
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
