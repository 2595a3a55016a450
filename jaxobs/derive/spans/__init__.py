"""Spans: of compilations, steps, phases, profiler windows and the run."""
