"""The words of jaxobs as plain data: events, metrics, spans, costs, traces and the snapshot."""
