"""Keeps the agent from importing JAX, whatever a plugin does: it costs seconds and memory, and could use devices."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

REFUSED = frozenset({"jax", "jaxlib"})


class _Refuser(MetaPathFinder, Loader):
    """An import finder that finds the REFUSED modules, so that a search for them succeeds, and refuses to load them."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002  # the import system's
        target: ModuleType | None = None,  # noqa: ARG002  # the import system's
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in REFUSED else None

    def exec_module(self, module: ModuleType) -> None:
        raise ImportError(
            f"the agent does not import {module.__name__}: a probe imports it in start(), which runs in the job alone,"
            " and not at the top of its module",
            name=module.__name__,
        )


def refuse_jax() -> None:
    """Let `import jax` raise ImportError in this process from now on. JAX must not be imported yet."""
    sys.meta_path.insert(0, _Refuser())
