"""Observability for JAX training: where each step's time went, on the dashboards you already have."""

from jaxobs.instrument import Observer, instrument
from jaxobs.model.snapshot import Snapshot

__all__ = ["Observer", "Snapshot", "instrument"]
