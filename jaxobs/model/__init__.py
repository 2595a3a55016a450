"""The data types of jaxobs: events, metrics, spans, costs, traces and the snapshot."""
