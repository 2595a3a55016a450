"""Scripts in processes of their own, with jaxobs and without, and every snapshot that jaxobs made of them."""
