"""The peaks of a device, each with its source: data sheets, calibrations and the user's own values."""
