"""Pure: events are folded into state, and rates, bounds, efficiencies and labels are derived from it."""
