"""Checks settings: each value with its origin, the OpenTelemetry variables, and unknown variables."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxobs.config import Settings, SettingsError, load_settings, origin, unknown_settings
from jaxobs.plugin.files import why_not_writable
from jaxobs.vocabulary.text import masked


def check_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """`settings`: name to value and origin; `variables`: the OTEL_ variables, secrets masked; `problems`.

    Settings that cannot be used are a problem, and the defaults are shown in their place.
    """
    loaded, unusable = usable_settings()
    settings = {
        name: {"value": masked(name.upper(), value), "origin": origin(name)}
        for name, value in loaded.to_dict().items()
    }
    variables = {
        name: masked(name, value)
        for name, value in sorted(environment.items())
        if name.startswith("OTEL_") and value
    }
    problems = [*unknown_settings(environment).values(), *unusable]
    return {"settings": settings, "variables": variables, "problems": problems}


def usable_settings() -> tuple[Settings, list[str]]:
    """The settings; where they cannot be used the defaults, and why."""
    try:
        return load_settings(), []
    except SettingsError as error:
        problem = f"{error}; the defaults are shown, and instrument() would raise"
        return Settings(), [problem]


def directory_problems(settings: Settings) -> list[str]:
    """A sentence if the directory of out-of-memory reports cannot be written to; else nothing."""
    directory = settings.out_of_memory_directory or Path(tempfile.gettempdir())
    reason = why_not_writable(directory) if settings.out_of_memory_reports else None
    if reason is None:
        return []
    lacking = f"no report could be written to {directory} when memory runs out: {reason}"
    return [f"{lacking}; set JAXOBS_OUT_OF_MEMORY_DIRECTORY to a writable directory"]
