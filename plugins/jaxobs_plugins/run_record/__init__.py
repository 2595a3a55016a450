"""The record that each process leaves of its run, for `jaxobs compare` and `jaxobs show`."""

from jaxobs_plugins.run_record.exporter import RunRecordExporter

__all__ = ["RunRecordExporter"]
