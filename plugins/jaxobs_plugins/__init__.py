"""The built-in plugins, one file or folder each; found by entry point, as a third party's are."""
