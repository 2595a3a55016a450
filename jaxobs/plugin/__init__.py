"""The interface of plugins, their discovery by entry point, and the guard that contains their failures."""
