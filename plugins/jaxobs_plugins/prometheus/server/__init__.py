"""An HTTP/1.1 server on one thread, with h11 as its parser."""
