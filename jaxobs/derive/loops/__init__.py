"""The user's loops: how long their steps take, and where the time goes."""
