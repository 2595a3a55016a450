"""One file a check: each has a function `check(told)` that says figures, and runs in a process of its own."""
