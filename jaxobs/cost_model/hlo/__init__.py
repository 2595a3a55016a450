"""The module as it is read: instructions, shapes, the call graph, scopes and the fingerprint."""
