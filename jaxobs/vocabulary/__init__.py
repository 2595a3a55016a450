"""The closed sets of words that events, labels and documents are made of. Imports nothing of the project."""


class InputError(Exception):
    """What a user gave cannot be used; the message is one line that says what was wrong and what to do."""
