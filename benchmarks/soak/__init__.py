"""A training job while everything around it fails at random: what grows, and what is counted wrongly."""
