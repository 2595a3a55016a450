"""What happens in the script's own process under `jaxobs run`, before its first line and after its last."""
