"""Arrays among the objects that Python's garbage collector has not gone through yet.

Objects of others are looked at within one call of compiled code, where no other thread gets the interpreter lock: nobody
meets a reference of ours, which could make resizing a tuple fail. Nothing is asked of an object but its type.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, compress, repeat
from operator import call, is_, methodcaller
from typing import Any

from jaxobs.probe.jax_internals import backends

_LIVE_ARRAYS = methodcaller("live_arrays")
_YOUNGEST = (0,)


def in_one_call(steps: Iterable[Callable[[], Any]]) -> None:
    """Call one after the other within a call of compiled code: where all are compiled, no other thread runs meanwhile."""
    deque(map(call, steps), maxlen=0)


def young_arrays(
    kind: type,
    each: Callable[[Any], Any],
    into: Callable[[Iterable[Any]], Any],
    first: tuple[Callable[[], Any], ...] = (),
) -> None:
    """Give `each` of the objects of exactly this type in the youngest generation `into` something, both compiled code.

    What is looked at is let go within the same call of compiled code, the list of it included: that list contains the
    very iterators that go through it, and would live until the collector finds it. `first` is called in there too.

    Up to Python 3.11 a pass of the collector could begin within that call and let other threads run: it is off meanwhile.
    """
    was_on: list[bool] = []
    off = (partial(was_on.extend, map(call, (gc.isenabled,))), gc.disable)
    on: Callable[[], Any] = partial(deque, map(call, compress((gc.enable,), was_on)), 0)
    box: list[Any] = []
    fill = partial(box.extend, chain.from_iterable(map(gc.get_objects, _YOUNGEST)))
    pick = partial(into, map(each, compress(box, map(is_, map(type, box), repeat(kind)))))
    try:
        in_one_call((*off, *first, fill, pick, box.clear, on))
    except BaseException:
        box.clear()
        in_one_call((on,))
        raise


def all_arrays() -> Iterator[Any]:
    """Arrays of every backend, as JAX lists them; to be used up within one call of compiled code."""
    return chain.from_iterable(map(_LIVE_ARRAYS, backends()))
