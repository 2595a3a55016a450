"""Who is observed, how the observer fares, and what happened last."""
