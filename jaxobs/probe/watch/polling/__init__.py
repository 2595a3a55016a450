"""Finding out when the device is done with a call, by asking one of the call's outputs whether it is ready."""
