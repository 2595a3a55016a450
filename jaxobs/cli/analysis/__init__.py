"""The report of `jaxobs analyze`: joins a trace's times with costs and peaks, and shows them as tables or a page."""
