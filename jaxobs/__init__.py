"""Observability for JAX training: where each step's time went, on the dashboards you already have."""

import jaxobs.cost as _cost_model  # first, so that the name `cost` below is the function and not this package
from jaxobs.instrument import Observer, instrument
from jaxobs.model.cost import Cost
from jaxobs.model.snapshot import Snapshot
from jaxobs.probe.measuring import Roofline, cost, roofline

del _cost_model

__all__ = ["Cost", "Observer", "Roofline", "Snapshot", "cost", "instrument", "roofline"]
