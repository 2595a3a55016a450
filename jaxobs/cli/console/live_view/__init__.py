"""The view of `jaxobs top`: fetches snapshots from metrics servers and draws them, with Textual or once as text."""
