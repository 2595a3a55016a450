"""What a plugin is, how plugins are found, and how they are kept from hurting anyone."""
