"""The error that reading a module can raise."""


class HloDecodeError(ValueError):
    """The bytes cannot be read as an HLO module: truncated, corrupted, of another kind, or too large."""
