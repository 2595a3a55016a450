"""Reads the settings that a plugin declares, from environment variables that begin with its name.

The field `limit` of the plugin `example` is read from `JAXOBS_EXAMPLE_LIMIT`, by the rules of pydantic-settings:
numbers, booleans and enumerations as text, containers as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel


class PluginSettingsError(ValueError):
    """A plugin's setting cannot be used; the message names the variable, its value and what is allowed."""


def prefix(plugin: str) -> str:
    """The prefix of a plugin's variables: `JAXOBS_EXAMPLE_` for `example`, `JAXOBS_MY_PLUGIN_` for `my-plugin`."""
    return f"JAXOBS_{re.sub(r'[^A-Za-z0-9]', '_', plugin).upper()}_"


def read_settings(plugin: str, declared: BaseModel) -> BaseModel:
    """An instance of the declared model (or a class derived from it) with the values of this process's environment.

    Raises PluginSettingsError for a value that cannot be used, and for a path that is not absolute: the agent has
    another working directory than the job.
    """
    from pathlib import Path

    from pydantic import ValidationError
    from pydantic_settings import BaseSettings, SettingsConfigDict

    model = type(declared)
    config = SettingsConfigDict(env_prefix=prefix(plugin), extra="ignore")
    reader = type(model.__name__, (BaseSettings, model), {"model_config": config, "__module__": __name__})
    try:
        found: BaseModel = reader()
    except ValidationError as error:
        raise PluginSettingsError(
            "; ".join(_explained(plugin, model, each) for each in error.errors())
        ) from None
    except ValueError as error:  # pydantic-settings: a JSON value that does not parse
        field = re.search(r'field "(\w+)"', str(error))
        variable = _variable(plugin, field[1]) if field else prefix(plugin) + "…"
        raise PluginSettingsError(f"environment variable {variable} is no JSON: {error.__cause__}") from None
    for name, value in found:
        if isinstance(value, Path) and not value.is_absolute():
            raise PluginSettingsError(
                f"environment variable {_variable(plugin, name)}={str(value)!r} is no absolute path: "
                "the agent has another working directory than the job"
            )
    return found


def variables(plugin: str, declared: BaseModel | None) -> dict[str, str]:
    """The variables of a plugin's own settings, with their descriptions and defaults."""
    fields = {} if declared is None else type(declared).model_fields
    return {
        _variable(plugin, name): " ".join(filter(None, (field.description, f"(default: {field.default!r})")))
        for name, field in fields.items()
    }


def unknown_variables(
    declared: Iterable[tuple[str, Any]], environment: Mapping[str, str], settings: Collection[str]
) -> list[str]:
    """One line for each variable that begins with a plugin's prefix and is no setting.

    `declared` holds each plugin's name and own settings, `settings` the names of jaxobs's own.
    """
    import difflib  # here: the agent, which loads every plugin, hardly ever needs it

    known: dict[str, set[str]] = {}
    for plugin, own in declared:
        known.setdefault(prefix(plugin), set()).update(variables(plugin, own))
    core = {f"JAXOBS_{name.upper()}" for name in settings}
    lines = []
    for name in sorted(environment):
        of = max((start for start in known if name.upper().startswith(start)), key=len, default=None)
        if of is not None and name.upper() not in known[of] | core:
            # Compared without the prefix, which makes all of them alike.
            fields = [variable.removeprefix(of) for variable in known[of]]
            meant = difflib.get_close_matches(name.upper().removeprefix(of), fields, 1)
            lines.append(f"unknown setting {name}" + (f" (did you mean {of}{meant[0]}?)" if meant else ""))
    return lines


def _variable(plugin: str, field: str) -> str:
    return prefix(plugin) + field.upper()


def _explained(plugin: str, model: type[BaseModel], problem: Any) -> str:
    field = str(problem["loc"][0]) if problem["loc"] else ""
    description = getattr(model.model_fields.get(field), "description", None)
    about = f" ({description})" if description else ""
    message = str(problem["msg"]).removeprefix("Value error, ")
    if not field:
        return f"settings of plugin {plugin}: {message}"
    return f"environment variable {_variable(plugin, field)}={problem['input']!r}: {message}{about}"
