"""The built-in probes, which run in the training process; each observes one library or one part of Python."""
