"""Floor 0: the words of jaxobs as plain data. Imports nothing of the project."""
