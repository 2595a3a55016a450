"""The code that `jaxobs run` adds to the script's process, before its first line and after its last."""
