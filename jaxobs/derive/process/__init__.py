"""The observed process, how jaxobs itself is doing, and the newest steps and compiles."""
