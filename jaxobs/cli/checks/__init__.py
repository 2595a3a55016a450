"""What `jaxobs check` looks at. Functions return plain data; what needs attention is under `problems`."""
