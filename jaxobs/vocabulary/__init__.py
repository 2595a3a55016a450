"""The closed sets of words that events, labels and documents are made of. Imports nothing of the project."""
