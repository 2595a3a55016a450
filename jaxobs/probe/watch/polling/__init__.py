"""When the device is done with a call: one of its outputs is asked, without waiting."""
