"""Settings: argument > `JAXOBS_…` environment variable > default. `OTEL_…` variables belong to the OpenTelemetry SDK."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from jaxobs.hardware.element_type_names import checked_element_type
from jaxobs.model.profile import LARGEST_TRACE
from jaxobs.plugin.discovery import prefixes_of_others

PREFIX = "JAXOBS_"

_HOST_NAME = re.compile(r"\*|(\.?[\w-]+(\.[\w-]+)*\.?)?")  # or nothing: an empty list, or a final comma


class SettingsError(ValueError):
    """A setting has a value that cannot be used; the message names it, its value and what is allowed."""


class Settings(BaseSettings):
    """Every setting of jaxobs. Each field is the environment variable `JAXOBS_<FIELD>` in upper case."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="forbid", frozen=True)

    enabled: bool = Field(True, description="false turns every call of jaxobs into a no-op")
    run: str | None = Field(
        None,
        description="name of the run, one over all its ranks and restarts "
        "(default: the job's in SLURM or Kubernetes, else the script's)",
    )
    interval: float = Field(1.0, ge=0.05, le=60, description="seconds between flushes and between snapshots")
    sample_interval: float = Field(
        0.5, ge=0.05, le=3600, description="seconds between sampled completions of steps, on average"
    )
    ring_capacity: int = Field(
        65_536, ge=16, le=10_000_000, description="events kept while the agent cannot follow"
    )
    shutdown_timeout: float = Field(
        0.6,
        ge=0,
        le=600,
        description="most seconds that the end of the job waits: for an agent that is up and its exporters that deliver, "
        "and under `jaxobs run` or in `obs.shutdown()` for the last snapshot",
    )
    watch_jitted: bool = Field(
        True,
        description="under `jaxobs run` and `opentelemetry-instrument`, watch every function that the script and its "
        "libraries jit, and find its loops",
    )
    summary_directory: Path | None = Field(
        None,
        description="directory in which the last summary is left when the job is killed "
        "(default: the system's temporary directory)",
    )
    prometheus: bool = Field(
        True, description="serve /metrics; the address follows OTEL_EXPORTER_PROMETHEUS_HOST/_PORT"
    )
    metrics_token_file: Path | None = Field(
        None, description="file with a token that every request to the metrics server must bring (`Bearer`)"
    )
    metrics_tls_certificate: Path | None = Field(
        None, description="file with a certificate chain in PEM form: /metrics is then served over TLS alone"
    )
    metrics_tls_key: Path | None = Field(
        None,
        description="file with its private key in PEM form (default: it is in the file of the certificate)",
    )
    metrics_hosts: str | None = Field(
        None,
        description="names, separated by commas, under which /metrics is served without a token besides this host's own "
        "(`.example.org`: all below it; `*`: any)",
    )
    file_sd_directory: Path | None = Field(
        None, description="directory for a Prometheus file_sd file while the job runs"
    )
    jsonl_directory: Path | None = Field(
        None, description="directory for a file of events, one JSON object a line"
    )
    run_directory: Path | None = Field(
        None, description="directory in which each process leaves a record of its run, for `jaxobs compare`"
    )
    run_interval: float = Field(
        120.0,
        ge=1,
        le=86_400,
        description="seconds between writes of this record; it is written at the end too",
    )
    tensorboard_directory: Path | None = Field(
        None, description="directory for TensorBoard's curves of these figures; needs `jaxobs[tensorboard]`"
    )
    series_limit: int = Field(
        2_000,
        ge=50,
        le=1_000_000,
        description="most time series of jaxobs itself; each plugin may have a quarter as many beside them",
    )
    cache_directory: Path | None = Field(
        None, description="where calibrated peaks are kept (default: the user's cache)"
    )
    peak_flops: dict[str, float] = Field(
        default_factory=dict,
        description='matrix peak FLOP/s of one device by element type, as JSON {"bfloat16": 1e14}',
    )
    peak_bytes_per_second: float | None = Field(None, gt=0, description="memory bandwidth of one device")
    tensorfloat32: bool | None = Field(
        None,
        description="whether float32 products run as TensorFloat-32: true all, false none (default: as the precision of "
        "each product and the device say, which is JAX's default on NVIDIA GPUs since Ampere)",
    )
    profile_budget_ratio: float = Field(
        0.002,
        ge=0,
        le=0.1,
        description="share of wall time that short profiler windows may cost the job; 0 opens none by itself",
    )
    host_lines: bool = Field(
        True,
        description="sample the main thread's Python stack, to tell which lines the host spends its time in",
    )
    profile_directory: Path | None = Field(
        None, description="directory in which traces that were asked for are kept, as XProf reads them"
    )
    profile_maximum_bytes: int = Field(
        32 * 2**20,
        ge=0,
        le=LARGEST_TRACE,
        description="larger traces are not read, and windows are kept short of them; at most 64 MiB",
    )
    out_of_memory_reports: int = Field(
        3, ge=0, le=100, description="most reports a process writes when memory runs out; 0 writes none"
    )
    out_of_memory_directory: Path | None = Field(
        None, description="directory for these reports (default: the system's temporary directory)"
    )
    maximum_module_bytes: int = Field(
        64 * 2**20,
        ge=0,
        description="larger compiled modules are not decoded, and their cost is absent with a reason",
    )

    @field_validator("metrics_tls_certificate")
    @classmethod
    def _where_it_is_now(cls, path: Path | None) -> Path | None:
        # The job's own web server reads it later, and the job may change its directory.
        return None if path is None else path.absolute()

    @field_validator("metrics_hosts")
    @classmethod
    def _host_names(cls, names: str | None) -> str | None:
        for name in (names or "").split(","):
            if not _HOST_NAME.fullmatch(name.strip()):
                raise ValueError(
                    f"{name.strip()!r} is no host name: give names alone, without http:// and without a port"
                )
        return names

    @field_validator("peak_flops")
    @classmethod
    def _element_types(cls, peaks: dict[str, float]) -> dict[str, float]:
        return {checked_element_type(dtype): rate for dtype, rate in peaks.items()}


def load_settings(**arguments: Any) -> Settings:
    """Settings of this process. Raises SettingsError naming each wrong setting, its value and what is allowed."""
    try:
        return Settings(**{name: value for name, value in arguments.items() if value is not None})
    except ValidationError as error:
        raise SettingsError("; ".join(_explain(problem, arguments) for problem in error.errors())) from None
    except ValueError as error:  # pydantic-settings: a JSON value that does not parse
        field = re.search(r'field "(\w+)"', str(error))
        name = PREFIX + field[1].upper() if field else "a setting"
        value = os.environ.get(name, "its value")
        raise SettingsError(f"environment variable {name}={value!r} is no JSON: {error.__cause__}") from None


def plain_settings(settings: Settings, *, rank_on_host: int, in_kubernetes: bool) -> dict[str, Any]:
    """The settings as plugins and the agent get them: plain data, directories absolute; and where this process is."""
    plain = settings.model_dump(mode="json")
    for name, value in settings:
        if isinstance(value, Path):  # relative to the job's directory, which is not the agent's
            plain[name] = str(value.absolute())
    return plain | {"rank_on_host": rank_on_host, "in_kubernetes": in_kubernetes}


def origin(name: str) -> str:
    """Where the value of a setting comes from that no argument gives: its environment variable, or `default`."""
    variable = PREFIX + name.upper()
    return variable if variable in {key.upper() for key in os.environ} else "default"


def unknown_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """`JAXOBS_…` variables that mean nothing, each with a line that names the setting which was probably meant.

    Those that begin with the name of somebody else's plugin are left to it (`jaxobs.plugin.settings`).
    """
    known = [PREFIX + name.upper() for name in Settings.model_fields]
    unknown = sorted(
        name for name in environment if name.upper().startswith(PREFIX) and name.upper() not in known
    )
    others = prefixes_of_others() if unknown else ()
    return {
        name: f"unknown setting {name}" + (f" (did you mean {PREFIX}{meant.upper()}?)" if meant else "")
        for name in unknown
        if not name.upper().startswith(others)
        for meant in [_closest(name.upper().removeprefix(PREFIX).lower())]
    }


def _closest(word: str) -> str | None:
    """The setting whose name is most similar to `word`. Both lack the prefix, which would make all names similar."""
    return next(iter(difflib.get_close_matches(word, Settings.model_fields, 1)), None)


def _explain(problem: Any, arguments: Mapping[str, Any]) -> str:
    name = str(problem["loc"][0]) if problem["loc"] else "settings"
    if problem["type"] == "extra_forbidden":
        meant = _closest(name)
        return f"unknown setting {name!r}" + (f" (did you mean {meant!r}?)" if meant else "")
    place = f"argument {name}" if name in arguments else f"environment variable {PREFIX}{name.upper()}"
    return f"{place}={problem['input']!r}: {problem['msg'].removeprefix('Value error, ')}"
