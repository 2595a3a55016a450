"""The one error that reading a module can raise."""


class HloDecodeError(ValueError):
    """The bytes are no HLO module that can be read: truncated, corrupted, of another kind, or too large."""
