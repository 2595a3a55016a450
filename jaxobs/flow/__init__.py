"""How events get to the agent: the ring in the job, and the format on the pipe."""
