"""Floor 1: how events travel: the ring in the job, their form on the pipe, and the limits on what they may name."""
