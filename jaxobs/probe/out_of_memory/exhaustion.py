"""Which errors say that memory ran out."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxobs.jax_compat.memory import speaks_of_memory

CHAIN = 5
"""Most errors of a chain of causes that are searched: training code wraps errors in its own."""


RUNTIME_ERRORS = frozenset({"JaxRuntimeError", "XlaRuntimeError", "RuntimeError", "ValueError"})
"""Types whose message is read: XLA's own, and those that JAX turns them into (ValueError for an eager operation)."""


MODULES = ("builtins", "jax", "jaxlib", "numpy")


class Exhaustion(NamedTuple):
    """The error in a chain of causes that says that memory ran out, with its type's name and its message."""

    error: BaseException
    type: str
    message: str


def exhaustion(error: BaseException | None) -> Exhaustion | None:
    """Find the error that says that memory ran out, in `error` and its causes; None where none does."""
    for _ in range(CHAIN):
        if error is None:
            return None
        kind = type(error)
        module = type.__dict__["__module__"].__get__(kind)
        if type(module) is str and module.partition(".")[0] in MODULES:
            # Read from the slots: an error of the user's may define `__str__`, `args` or `__cause__` itself.
            arguments = BaseException.args.__get__(error)  # type: ignore[attr-defined]  # a slot of the class
            message = arguments[0] if arguments and type(arguments[0]) is str else ""
            if issubclass(kind, MemoryError):
                return Exhaustion(error, kind.__name__, message)
            if kind.__name__ in RUNTIME_ERRORS and speaks_of_memory(message):
                return Exhaustion(error, kind.__name__, message)
        slots: Any = BaseException
        cause = slots.__cause__.__get__(error)
        error = slots.__context__.__get__(error) if cause is None else cause
    return None
