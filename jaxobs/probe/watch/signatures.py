"""Finds which of several executables a call runs, by the shapes of a few arguments.

A jitted function has one executable for each signature of its arguments. When it gets a second one, the leaves in which
the signatures differ are found once; from then on each call reads those leaves alone (about 0.3 µs a leaf), never the
whole tree, whose flattening costs 85 µs for 200 leaves. Values are never read, and no object of the user's is compared,
hashed or printed.

Where shapes and types are the same, executables may differ by whether and how the arrays are committed to devices: those
that a job makes at first are not, and the outputs of a sharded or pmapped step are, so the second turn compiles once
more.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

from jaxobs.jax_compat.arrays import are_ready, is_askable, is_deleted
from jaxobs.jax_compat.jit import is_tracer
from jaxobs.jax_compat.objects import committed_to, is_of, name_of, own_attributes
from jaxobs.plugin.guard import Suppressed

SMALL = 2**16
"""Bytes of the largest output that is kept alive until the device is done with it: no job misses so few."""

LARGE = 2**20
"""Bytes of an array of the host's whose way to the device counts: at 10 GB/s, as by PCI Express, 0.1 ms."""

ASKED_TOGETHER = 8
"""Most arrays of one container that are asked, as many as a batch has. To ask one takes 2 µs."""

LOST_IN_A_ROW = 40
"""Losses in a row, of leaves donated before they were ready, after which the function is no longer polled. It is more
than the calls by which a host can be ahead of its device; before that the host may wait for one of them, as where it
reads the loss each tenth step."""

Path = tuple[tuple[str, Any], ...]
"""Steps of `step_into` from arguments or an output to one of their leaves."""

Signature = dict[Path, tuple[Any, ...]]

CONTAINER_PACKAGES = ("collections", "flax", "haiku", "optax")
"""Packages whose containers may be indexed although their `__getitem__` is written in Python (FrozenDict)."""

DICTIONARIES = (dict, OrderedDict, defaultdict)
"""A subclass of the user's may define its methods itself."""

NODES_READ, DEPTH = 50_000, 30
"""Most nodes of a tree, and most steps down it, that are read: attributes may lead in a circle."""

LEAVES_TRIED = (1_000, 40)
"""How many of the leaves that differ are tried: one alone, two together. Signatures that differ only in other leaves, or
in more together, are not told apart. So 1 780 combinations are tried at most, on the training thread after a compile:
they take 2 ms with four signatures."""


ARRAY_PACKAGES = ("jax", "jaxlib", "numpy", "ml_dtypes")
"""Packages whose arrays' and numbers' attributes are read. No method of the user's types is called."""


_array_kinds: list[type] = []
"""Types of these packages met so far. A list: a set would call `__hash__` of a type, which may be the user's."""


def is_array_kind(kind: type) -> bool:
    """Whether the shape of objects of exactly this type may be read."""
    for known in _array_kinds:
        if kind is known:
            return True
    if not is_of(kind, *ARRAY_PACKAGES):
        return False
    _array_kinds.append(kind)
    return True


def leaf_signature(leaf: Any) -> tuple[Any, ...]:
    """Shape, element type and weak type of an array; the bare type of anything else."""
    kind = type(leaf)
    if is_array_kind(kind):
        shape = getattr(leaf, "shape", None)
        if type(shape) is tuple:
            # The type itself: its text takes twenty times as long as all else. None would equal `float64`.
            return (shape, getattr(leaf, "dtype", ""), bool(getattr(leaf, "weak_type", False)))
    return (name_of(kind),)


def placed_signature(leaf: Any) -> tuple[Any, ...]:
    """What `leaf_signature` gives, and the sharding that the array is committed to, empty if it is not."""
    where = committed_to(leaf) if is_array_kind(type(leaf)) else ""
    return (*leaf_signature(leaf), where)


def step_into(value: Any, how: str, key: Any) -> Any:
    """The item or attribute `key` of a container. Raises LookupError where reading it would call the user's code."""
    kind = type(value)
    if how == "attribute":
        return object.__getattribute__(value, "__dict__")[key]
    if issubclass(kind, dict):
        if not dict.__contains__(value, key):
            raise KeyError(key)  # where a `defaultdict` would add it
        return dict.__getitem__(value, key)
    if type(getattr(kind, "__getitem__", None)) is FunctionType and not is_of(kind, *CONTAINER_PACKAGES):
        raise LookupError(f"items of {name_of(kind)} are the user's own")
    return value[key]


def leaf_at(path: Path, tree: Any) -> Any:
    """The leaf of a tree that the path leads to. Raises as `step_into` does."""
    for how, key in path:
        tree = step_into(tree, how, key)
    return tree


def array_at(path: Path, result: Any) -> Any:
    """The array that the path leads to; None where a result has another structure than the first time."""
    with Suppressed(AttributeError, LookupError, TypeError):
        leaf = leaf_at(path, result)
        return leaf if is_askable(leaf) else None
    return None


def is_transformed(leaves: Iterable[Any]) -> bool:
    """Whether leaves of a call's arguments outside any trace contain tracers, as under `jax.grad` and `jax.vmap`.

    Of the user's types it flattens those without `__dict__`.
    """
    # Never imported for this: what is called is then no function of JAX's.
    trees = sys.modules.get("jax.tree_util")
    return trees is not None and any(map(is_tracer, trees.tree_leaves([*leaves])))


def leaves_by_path(tree: Any) -> Iterator[tuple[Path, Any]]:
    """The leaves of a pytree, each with the steps of `step_into` that lead to it.

    It is not flattened, which would call the user's code for types that a script has registered: of these the attributes
    are read. What cannot be entered so is itself a leaf: a registered type without `__dict__`, a dictionary with other
    keys than text and integers.
    """
    waiting: list[tuple[Path, Any]] = [((), tree)]
    for _ in range(NODES_READ):
        if not waiting:
            break
        path, value = waiting.pop()
        inner = _within(value) if len(path) < DEPTH else None
        if inner is None:
            yield path, value
        else:
            waiting += [((*path, step), each) for step, each in reversed(inner)]


def _within(value: Any, most: int | None = None) -> list[tuple[tuple[str, Any], Any]] | None:
    """What a container holds, by step, or the first `most` of it. None for a leaf."""
    kind = type(value)
    iterate: Any = tuple.__iter__ if issubclass(kind, tuple) else list.__iter__ if kind is list else None
    if iterate is not None:
        return [(("item", index), each) for index, each in enumerate(itertools.islice(iterate(value), most))]
    if True in [kind is one for one in DICTIONARIES] or (
        is_of(kind, *CONTAINER_PACKAGES) and hasattr(kind, "items")
    ):
        pairs = list(itertools.islice(value.items(), most))
        # A list: what a signal handler raises while a generator is closed would be lost.
        plain = False not in [type(key) in (str, int) for key, _ in pairs]
        return [(("item", key), each) for key, each in pairs] if plain else None
    is_leaf = getattr(sys.modules.get("jax.tree_util"), "all_leaves", None)
    if is_leaf is None or is_leaf((value,)):
        return None
    attributes = own_attributes(value)
    if attributes is None:
        return None
    return [(("attribute", key), each) for key, each in itertools.islice(attributes.items(), most)]


def signature(leaves: Mapping[Path, Any]) -> Signature:
    """The `placed_signature` of every leaf, by its path."""
    return {path: placed_signature(leaf) for path, leaf in leaves.items()}


def telling_paths(signatures: list[Signature]) -> tuple[Path, ...] | None:
    """The fewest paths (within LEAVES_TRIED) whose leaves tell all signatures apart; None where none do."""
    common = set(signatures[0]).intersection(*signatures[1:])
    differing = sorted(
        (path for path in common if len({seen[path] for seen in signatures}) > 1),
        key=lambda path: (len(path), str(path)),
    )
    for size, tried in enumerate(LEAVES_TRIED, 1):
        for paths in itertools.combinations(differing[:tried], size):
            if len({tuple(seen[path] for path in paths) for seen in signatures}) == len(signatures):
                return paths
    return None


def reader(paths: tuple[Path, ...], of_leaf: Callable[[Any], Any]) -> Callable[..., tuple[Any, ...]]:
    """Return a function that reads the signatures of the leaves at these paths from a call's arguments."""
    # A list: what a signal handler raises while a generator is closed would be lost.
    return lambda args, kwargs: tuple([of_leaf(leaf_at(path, (args, kwargs))) for path in paths])


def holds_up(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the device had to wait for an argument of a call that was just made: for its computation or its transfer.

    Arguments are looked at, and what they hold as a batch does. Deeper lies a state, which the call before has made.
    """
    arrays: list[Any] = []
    array = None
    for value in (*args, *kwargs.values()):
        if type(value) is array or is_askable(value):  # first, as some jobs give thousands
            array = type(value)
            arrays.append(value)
            continue
        for _, leaf in _within(value, ASKED_TOGETHER) or [(("", 0), value)]:
            if is_askable(leaf):
                arrays.append(leaf)
            elif is_array_kind(type(leaf)) and getattr(leaf, "nbytes", 0) > LARGE:
                return True
    return not are_ready(arrays)


class OutputLeaf:
    """The way to the smallest output leaf of one watched function that lives long enough, found once.

    A donated leaf is dead by the next step. If every leaf is donated, or too large to be kept, one of them is polled as
    long as it lives: until the next call. Where it is never ready by then, the function's device time stays absent.
    """

    def __init__(self) -> None:
        self._ways: list[Path] | None = None
        self._earlier: list[tuple[Path, weakref.ref[Any]]] | None = None
        """After a loss: all leaves of one result. At the next call they show at once which of hundreds are donated."""
        self._short_lived = False
        self._losses = 0
        self.exhausted = False
        self.size = 0
        """Bytes that the leaf of `take` keeps alive."""

    def take(self, result: Any) -> Any:
        """The leaf of this result to poll, by a weak reference if it is too large to keep; None where there is none.

        Raises what the user's types raise as they are flattened.
        """
        if self._ways is None:
            self._ways = _ways_to_leaves(result)
        if self._earlier is not None:
            self._leave_out_donated(result)
        while self._ways:
            if (leaf := array_at(self._ways[0], result)) is not None:
                self.size = leaf.nbytes
                if self.size <= SMALL:
                    return leaf
                self._short_lived, self.size = True, 0
                return weakref.ref(leaf)
            self._ways.pop(0)
        self.exhausted = True
        return None

    def found(self) -> None:
        """Note that the leaf was ready."""
        self._losses = 0

    def lost(self) -> None:
        """Note that the leaf was donated or released before it was seen to be ready; another may then be chosen."""
        self._losses += 1
        if not self._short_lived and self._earlier is None:
            self._earlier = []
        if self._losses >= LOST_IN_A_ROW:
            self.exhausted = True

    def _leave_out_donated(self, result: Any) -> None:
        """Leave out donated leaves: remember the leaves of one call, and at the next see which of them it deleted."""
        if not self._ways:
            return
        if not self._earlier:
            leaves = [(way, array_at(way, result)) for way in self._ways]
            self._earlier = [(way, weakref.ref(leaf)) for way, leaf in leaves if leaf is not None]
            return
        # By identity: keys in a way may be the user's.
        donated = {id(way) for way, leaf in self._earlier if is_deleted(leaf)}
        left = [way for way in self._ways if id(way) not in donated]
        if left and len(left) < len(self._ways):
            self._losses = 0
        self._short_lived = not left
        self._ways, self._earlier = left or self._ways[:1], None


def _ways_to_leaves(result: Any) -> list[Path]:
    """Paths to the array leaves, smallest first: the loss before the parameters."""
    found: list[tuple[int, int, Path]] = []
    for path, leaf in leaves_by_path(result):
        if is_askable(leaf):
            # The later of equally large leaves: by custom the state comes first, and is donated to the next step.
            found.append((int(getattr(leaf, "nbytes", sys.maxsize)), -len(found), path))
    return [path for _, _, path in sorted(found)]
