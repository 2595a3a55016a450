"""How long steps take: turns of the host, completions on the device, and device time of the runs."""
