"""What is told of JAX's backend."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

import jax
import jaxlib.version

from jaxobs.probe.side import find_backend

if TYPE_CHECKING:
    import pytest


def test_it_comes_with_the_variables_by_which_its_devices_were_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    jax.devices()
    found = find_backend()
    assert found is not None
    environment = dict(found.environment)
    assert (environment["CUDA_VISIBLE_DEVICES"], environment["HIP_VISIBLE_DEVICES"]) == ("3", None)


def test_it_is_told_where_the_metadata_of_installed_packages_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        importlib.metadata.MetadataPathFinder, "find_distributions", lambda *_, **__: iter(())
    )
    jax.devices()
    found = find_backend()
    assert found is not None
    assert found.jaxlib_version == jaxlib.version.__version__
