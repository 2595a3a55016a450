"""How events travel: the ring in the job, and their form on the pipe."""
