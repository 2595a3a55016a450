"""The server's token and TLS certificate, read from files and read again when those change."""
