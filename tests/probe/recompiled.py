"""What the cases of recompiles have in common: arrays, functions, and types of a user's."""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

x = jnp.ones((8, 16))


row = jnp.ones((16,))


mesh = Mesh(np.array(jax.devices()), ("data",))


CASES: dict[str, Any] = {}


class Pair(NamedTuple):
    left: Any
    right: Any


class Hostile:
    """As a user's static argument may be: nothing but JAX may compare or hash it, and nobody may print it."""

    quiet = True

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        raise AssertionError("printed")

    def __eq__(self, other: object) -> bool:
        assert sys._getframe(1).f_globals["__name__"].partition(".")[0] != "jaxobs_plugins"
        return isinstance(other, Hostile) and self.number == other.number

    def __hash__(self) -> int:
        assert sys._getframe(1).f_globals["__name__"].partition(".")[0] != "jaxobs_plugins"
        return hash(self.number)

    def __getattr__(self, name: str) -> Any:
        assert sys._getframe(1).f_globals["__name__"].partition(".")[0] != "jaxobs_plugins", name
        raise AttributeError(name)


class Text(str):
    """A user's type, though derived from one of Python's."""

    __slots__ = ()

    def __repr__(self) -> str:
        raise AssertionError("printed")


@jax.tree_util.register_pytree_node_class
class Layer:
    def __init__(self, weights: Any, activation: Any) -> None:
        self.weights, self.activation = weights, activation

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        return (self.weights,), self.activation

    @classmethod
    def tree_unflatten(cls, activation: Any, children: tuple[Any, ...]) -> Layer:
        made: Any = cls
        layer: Layer = made(*children, activation)
        return layer


@dataclass(frozen=True)
class Model:
    width: int

    @functools.partial(jax.jit, static_argnums=0)
    def apply(self, x: Any) -> Any:
        return x * self.width


def case(run: Any) -> Any:
    CASES[run.__name__] = run
    return run


def step_of_two() -> Any:
    @jax.jit
    def step(x: Any, scale: Any) -> Any:
        return x * scale

    return step


def step_of_a_tree() -> Any:
    @jax.jit
    def step(params: Any, x: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf * 2, params), x

    return step


def identity() -> Any:
    @jax.jit
    def step(x: Any) -> Any:
        return x * 2

    return step
