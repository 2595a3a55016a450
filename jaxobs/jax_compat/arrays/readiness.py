"""Asks an array whether the device has computed it, without waiting and without crashing the process.

`is_ready()` of an array that the user has deleted (`array.delete()`) crashes the process (seen in JAX 0.6.2, 0.8.2 and
0.10.2; since 0.11.2, and of a donated one, it raises), and another thread may delete the array between a check for that
and the call. So both are made within one call into C, during which no other thread gets the interpreter lock.
"""

from __future__ import annotations

import weakref
from itertools import filterfalse
from operator import methodcaller
from types import FunctionType
from typing import Any

_IS_DELETED = methodcaller("is_deleted")
_IS_READY = methodcaller("is_ready")
_AWAIT = methodcaller("block_until_ready")


def is_askable(value: Any) -> bool:
    """Whether `value` is an array of JAX's own, with compiled methods: a method of a user's type is never called."""
    methods = (getattr(type(value), name, None) for name in ("is_deleted", "is_ready"))
    return all(callable(method) and not isinstance(method, FunctionType) for method in methods)


def is_ready(array: Any) -> bool:
    """Whether an array, or a weak reference to one, is computed. Raises RuntimeError if it was deleted or freed."""
    if type(array) is weakref.ref and (array := array()) is None:
        raise RuntimeError("the array has been let go of")
    for ready in map(_IS_READY, filterfalse(_IS_DELETED, (array,))):
        return bool(ready)
    raise RuntimeError("the array has been deleted")


def raise_its_error(array: Any) -> None:
    """Raise the error of an array whose making has failed; nothing if it is deleted, still being made, or made.

    `block_until_ready()` of a deleted array crashes the same versions, hence one call into C here too. JAX lets go of
    the lock within it, so that a `delete()` in that microsecond may still crash: one in a million tries (0.10.2).
    """
    for _ in map(_AWAIT, filter(_IS_READY, filterfalse(_IS_DELETED, (array,)))):
        return


def is_deleted(reference: weakref.ref[Any]) -> bool:
    """Whether an askable array was deleted or donated; False if it was freed, because nothing refers to it any more."""
    array = reference()
    return array is not None and bool(array.is_deleted())
