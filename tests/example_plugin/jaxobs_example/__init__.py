"""A plugin of each kind, as a third party would ship them."""
