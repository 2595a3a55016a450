"""What jaxobs costs beside its peers, figure by figure, written to docs/benchmarks.md by the command that measures it."""
