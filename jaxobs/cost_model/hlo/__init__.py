"""Decodes an HLO module: instructions, shapes, the call graph, scopes and the fingerprint."""
