"""Readers of a trace's planes, one for each kind of device, and the code that they share."""
