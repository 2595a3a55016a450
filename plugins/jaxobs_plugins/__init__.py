"""The built-in plugins, one file or folder each, which are found by entry point like those of third parties."""
