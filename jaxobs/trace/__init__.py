"""Reads a profiler trace (XSpace): operations, their times and instructions, and each device's time.

Pure functions from bytes to plain data, which import neither JAX nor TensorFlow.
"""

from jaxobs.trace.planes import TraceError
from jaxobs.trace.reading import DEFAULT_MAXIMUM_BYTES, read_trace

__all__ = ["DEFAULT_MAXIMUM_BYTES", "TraceError", "read_trace"]
