"""Where a loop's wall time went: its components, its bottleneck, its stalls."""
