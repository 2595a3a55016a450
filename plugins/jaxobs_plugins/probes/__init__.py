"""The built-in probes, a library each; they run in the training process."""
