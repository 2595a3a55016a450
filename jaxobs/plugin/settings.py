"""Declares and reads settings: those of jaxobs itself (`jaxobs.config`) and those of any plugin, in the same way.

Settings are a frozen dataclass whose fields have a type and a default; `setting` adds a description and bounds:

    @dataclass(frozen=True)
    class DiskSettings:
        directory: Path = Path("/")
        limit: int = setting(3, "most directories that are looked at", minimum=1)

The field `limit` of the plugin `example` is read from `JAXOBS_EXAMPLE_LIMIT`. A type is bool, int, float, str, Path, a
`dict[str, …]` of one of them (as JSON), or one of all these or None.

The training process reads settings before the script imports anything, so this needs no library.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from jaxobs.vocabulary import InputError
from jaxobs.vocabulary.text import MASK, masked

Value = TypeVar("Value")
Model = TypeVar("Model")

MOST_SHOWN = 200
"""Characters of a wrong value that a message shows."""

_WORDS = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off"), False),
}


class SettingsError(InputError, ValueError):
    """A setting has a value that cannot be used; the message names it, its value and what is allowed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """What is declared of one setting. `check` returns the value to keep, or raises ValueError saying what is wrong."""

    name: str
    type: Any
    default: Any
    description: str = ""
    minimum: float = -math.inf
    maximum: float = math.inf
    check: Callable[[Any], Any] | None = None
    stands_for: str = ""
    """What a default of None means in most processes, where a word or two say it."""

    @property
    def allowed(self) -> str:
        """What its value must be, in words."""
        kind = _kind(self.type)
        if self.maximum < math.inf:
            return f"{kind} from {self.minimum} to {self.maximum}"
        return f"{kind} of at least {self.minimum}" if self.minimum > -math.inf else kind

    def parsed(self, value: object) -> Any:
        """The value as its type, from text or as Python has it. Raises ValueError saying what is allowed."""
        try:
            found = _parsed(self.type, value)
        except (AttributeError, TypeError, ValueError, LookupError, OverflowError, RecursionError):
            raise ValueError(f"must be {self.allowed}") from None
        if isinstance(found, int | float) and not self.minimum <= found <= self.maximum:
            raise ValueError(f"must be {self.allowed}")
        return found if self.check is None or found is None else self.check(found)


def setting(
    default: Value,
    description: str,
    *,
    minimum: float = -math.inf,
    maximum: float = math.inf,
    check: Callable[[Any], Any] | None = None,
    stands_for: str = "",
) -> Value:
    """A field of settings with its description and bounds.

    `check` is given a value of the right type within these bounds. It returns the value to keep, or raises ValueError.
    """
    bounds = {"minimum": minimum, "maximum": maximum, "check": check}
    declared = {"description": description, "stands_for": stands_for, **bounds}
    if isinstance(default, dict):  # a default that can be changed is made anew for each instance
        return cast("Value", dataclasses.field(default_factory=default.copy, metadata=declared))
    return dataclasses.field(default=default, metadata=declared)


def declared(model: type[Any]) -> dict[str, Setting]:
    """The settings of a dataclass, by name. Raises TypeError for a field without a default, or of another type."""
    kinds, defaults = get_type_hints(model), model()
    found = {}
    for field in dataclasses.fields(model):
        name, kind = field.name, kinds[field.name]
        _kind(kind)
        found[name] = Setting(name, kind, getattr(defaults, name), **field.metadata)
    return found


def problem_of_settings(settings: object) -> str:
    """Why an object cannot be a plugin's settings, and what to do; empty where it can."""
    if not dataclasses.is_dataclass(settings) or isinstance(settings, type):
        return "declare a frozen dataclass with a default for every field, and set an instance of it"
    try:
        declared(type(settings))
    except Exception as error:  # noqa: BLE001  # names in annotations may be anything
        return str(error)
    return ""


def read(
    model: type[Model], prefix: str, arguments: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> Model:
    """An instance of the model: argument > variable > default. None as an argument is one that was not given.

    Raises SettingsError naming each wrong setting, its value and what is allowed.
    """
    variables = {
        name.upper(): name for name in sorted(environment, reverse=True) if name.upper().startswith(prefix)
    }
    settings, values = declared(model), {}
    wrong = [
        f"unknown setting {name!r}" + meant(name, settings) for name in arguments if name not in settings
    ]
    for name, one in settings.items():
        variable = variables.get(prefix + name.upper())
        if arguments.get(name) is not None:
            place, value = f"argument {name}", arguments[name]
        elif variable is not None and environment[variable]:  # empty is not set, as in OpenTelemetry
            place, value = f"environment variable {variable}", environment[variable]
        else:
            continue
        try:
            values[name] = one.parsed(value)
        except ValueError as error:
            problem = masked("", f"{in_short(value)}: {error}")
            if masked(name, "text") == MASK:  # it is a secret
                problem = f"{MASK}: must be {one.allowed}"
            wrong.append(f"{place}={problem}" + (f" ({one.description})" if one.description else ""))
    if wrong:
        raise SettingsError("; ".join(wrong))
    try:
        return model(**values)
    except ValueError as error:  # its own `__post_init__`
        raise SettingsError(f"settings {prefix}…: {masked('', str(error))}") from None


def prefix(plugin: str) -> str:
    """The prefix of a plugin's variables: `JAXOBS_EXAMPLE_` for `example`, `JAXOBS_MY_PLUGIN_` for `my-plugin`."""
    return f"JAXOBS_{re.sub(r'[^A-Za-z0-9]', '_', plugin).upper()}_"


def read_of_plugin(plugin: str, settings: Model) -> Model:
    """The settings that a plugin has declared, with the values of this process's environment.

    Raises SettingsError for a value that cannot be used, and for a path that is not absolute: the agent has another
    working directory than the job.
    """
    found = read(type(settings), prefix(plugin), {})
    for name in declared(type(settings)):
        value = getattr(found, name)
        if isinstance(value, Path) and not value.is_absolute():
            raise SettingsError(
                f"environment variable {prefix(plugin)}{name.upper()}={str(value)!r} is no absolute path: "
                "the agent has another working directory than the job"
            )
    return found


def variables(plugin: str, settings: object) -> dict[str, str]:
    """The variables of a plugin's own settings, with their descriptions and defaults."""
    fields = {} if settings is None else declared(type(settings))
    return {
        prefix(plugin) + name.upper(): f"{one.description} (default: {one.default!r})".lstrip()
        for name, one in fields.items()
    }


def unknown_variables(
    of_plugins: Iterable[tuple[str, Any]], environment: Mapping[str, str], settings: Collection[str]
) -> list[str]:
    """One line for each variable that begins with a plugin's prefix and is no setting.

    `of_plugins` holds each plugin's name and own settings, `settings` the names of jaxobs's own.
    """
    known: dict[str, set[str]] = {}
    for plugin, own in of_plugins:
        known.setdefault(prefix(plugin), set()).update(variables(plugin, own))
    core = {f"JAXOBS_{name.upper()}" for name in settings}
    lines = []
    for name in sorted(environment):
        of = max((start for start in known if name.upper().startswith(start)), key=len, default=None)
        if of is not None and name.upper() not in known[of] | core:
            lines.append(unknown(name, of, [variable.removeprefix(of) for variable in known[of]]))
    return lines


def unknown(variable: str, prefix: str, fields: Iterable[str]) -> str:
    """A line that says that a variable is no setting; compared without the prefix, which makes all of them alike."""
    nearest = meant(variable.upper().removeprefix(prefix), fields, f"{prefix}{{}}")
    return f"unknown setting {variable}{nearest}"


def meant(word: str, known: Iterable[str], form: str = "{!r}") -> str:
    """` (did you mean …?)` for a mistyped name, empty where nothing is close."""
    import difflib  # here: it is hardly ever needed

    close = difflib.get_close_matches(word, list(known), 1)
    return f" (did you mean {form.format(close[0])}?)" if close else ""


def in_short(value: object) -> str:
    """A value as text for an error message, shortened where it is long."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001  # it may be anything
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "…"


def _kind(kind: Any, plural: bool = False) -> str:
    """The type in words. Raises TypeError for one that no setting may have."""
    names = {int: "whole number", float: "number", str: "text", Path: "path"}
    origin, parts = get_origin(kind), get_args(kind)
    if kind is bool:
        return "true or false"
    if kind in names:
        return f"{names[kind]}s" if plural else f"a {names[kind]}"
    if origin in {Union, types.UnionType} and len(parts) == 2 and parts[1] is type(None):
        return _kind(parts[0], plural)
    if origin is dict and parts[0] is str:
        return f"a JSON object of {_kind(parts[1], plural=True)}"
    raise TypeError(
        f"{kind} is no type of a setting: it may be bool, int, float, str, Path, dict[str, …] of these, or one of "
        "them or None"
    )


def _parsed(kind: Any, value: Any) -> Any:
    """The value as this type. Where it is none, raises what `Setting.parsed` expects."""
    origin, parts = get_origin(kind), get_args(kind)
    found: Any = None
    if origin in {Union, types.UnionType}:
        return None if value is None else _parsed(parts[0], value)
    if origin is dict:
        items = (json.loads(value) if isinstance(value, str) else value).items()
        found = {_parsed(str, name): _parsed(parts[1], one) for name, one in items}
    elif kind in {int, float} and not isinstance(value, bool):
        number = kind(value)
        if math.isfinite(number) and (isinstance(value, str) or number == value):
            found = number
    elif kind is bool and isinstance(value, str | int):
        found = _WORDS[str(value).strip().lower()]
    elif (kind is str and isinstance(value, str)) or (kind is Path and isinstance(value, str | os.PathLike)):
        found = kind(value)
    if found is None:
        raise TypeError
    return found
