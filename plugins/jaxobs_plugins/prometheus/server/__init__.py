"""The HTTP/1.1 server: one thread, whatever its clients do; parsing is h11's."""
