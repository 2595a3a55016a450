"""Names of JAX that are private or differ between versions, with the versions seen and what is lost without them."""
