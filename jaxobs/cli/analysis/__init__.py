"""What `jaxobs analyze` shows of a trace: joining times with costs and peaks, as tables and as a page."""
