"""Reads settings from command-line options: `--name value` for each field, `--name`/`--no-name` for a boolean."""

from __future__ import annotations

import json
from typing import Any, get_origin

from jaxobs.cli import UsageError, suggestion
from jaxobs.config import PREFIX, SETTINGS


def option_names() -> list[str]:
    """The names of all options, in the order of the settings."""
    names = []
    for name, field in SETTINGS.items():
        option = "--" + name.replace("_", "-")
        names.append(option)
        if field.type is bool:
            names.append("--no-" + option[2:])
    return names


def read_option(arguments: list[str]) -> tuple[str, Any, list[str]]:
    """The setting that the first argument names, its value, and the remaining arguments.

    Raises UsageError for an option that does not exist, has no value, or one that is not the JSON it must be.
    """
    option, equals, inline = arguments[0].partition("=")
    name = option.removeprefix("--").replace("-", "_")
    field = SETTINGS.get(name)
    if field is None and not equals and name.startswith("no_"):
        positive = SETTINGS.get(name[3:])
        if positive is not None and positive.type is bool:
            return name[3:], False, arguments[1:]
    if field is None:
        raise UsageError(
            f"unknown option {option}{suggestion(option, option_names())}; `--help` lists the options"
        )
    if field.type is bool and not equals:
        return name, True, arguments[1:]
    rest = arguments[1:] if equals else arguments[2:]
    if not equals and len(arguments) < 2:
        raise UsageError(f"option {option} needs a value: {field.description}")
    value = inline if equals else arguments[1]
    if get_origin(field.type) is not dict:
        return name, value, rest
    try:
        return name, json.loads(value), rest
    except ValueError as error:
        raise UsageError(f"option {option} {value!r} is not JSON ({error}): {field.description}") from None


def options_help() -> str:
    """The help text: one entry for each setting with its option, description, default and environment variable."""
    lines = []
    for name, field in SETTINGS.items():
        boolean = field.type is bool
        option = ("--[no-]" if boolean else "--") + name.replace("_", "-") + ("" if boolean else " VALUE")
        lines.append(
            f"  {option}\n      {field.description}\n      default {field.default}; also {PREFIX}{name.upper()}"
        )
    return "\n".join(lines)
