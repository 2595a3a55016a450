"""What jaxobs costs beside its peers, figure by figure, written to docs/results/benchmarks.md by the command that measures it."""
