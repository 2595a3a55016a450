"""Exporter `run_record`: writes a record of each process's run, for `jaxobs compare` and `jaxobs show`."""

from jaxobs_plugins.run_record.exporter import RunRecordExporter

__all__ = ["RunRecordExporter"]
