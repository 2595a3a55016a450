"""What jaxobs costs beside its peers, figure by figure, for docs/results/benchmarks.md."""
