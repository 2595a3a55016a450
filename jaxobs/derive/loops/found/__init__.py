"""Loops that nobody marked."""
