"""All uses of JAX names that are private or differ between versions, with the versions seen and what is lost without.

Where nothing else is said, a name was seen in 0.6.2, 0.8.2, 0.10.2, 0.11.2 and 0.12.0.1. Each function returns None (or
does nothing) where its name is missing, so that a future JAX costs a feature and never the job.
"""
