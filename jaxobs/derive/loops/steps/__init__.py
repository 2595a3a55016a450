"""How long steps take: their turns on the host and their completions on the device."""
