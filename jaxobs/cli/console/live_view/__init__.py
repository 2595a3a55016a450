"""The view of `jaxobs top`: fetches snapshots from jobs' metrics servers and draws them, with Textual or once as text."""
