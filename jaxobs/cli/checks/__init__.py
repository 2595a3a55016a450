"""The checks of `jaxobs check`. Functions return plain data; what needs attention is under `problems`."""
