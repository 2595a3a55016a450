"""Every name of JAX that is private or differs between versions, with the versions seen and what is lost without it.

Seen in 0.6.2, 0.8.2, 0.10.2 and 0.11.2 where nothing else is said. Each function answers None (or does nothing) where the
name is missing, so that a future JAX costs a feature and never the job.
"""
