"""Programs of which jaxobs once showed false figures, or none: their truth beside what is shown now."""
