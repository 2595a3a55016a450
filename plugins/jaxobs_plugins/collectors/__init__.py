"""The built-in collectors, a source each; they run in the agent."""
