"""The error of this package."""


class TraceError(ValueError):
    """A trace that cannot be read: the message says what it is, what is wrong with it and what to do."""
