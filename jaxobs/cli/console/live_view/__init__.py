"""What `jaxobs top` shows: snapshots fetched from the metrics servers of jobs, drawn with Textual or written once."""
