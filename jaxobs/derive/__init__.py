"""Folds events into state and derives rates, bounds, efficiencies and labels from it. Pure: no effects, no clock."""
