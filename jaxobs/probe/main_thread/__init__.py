"""What the main thread does, from samples of its Python stack: which line it is at, and what it waits for there."""
