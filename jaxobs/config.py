"""Settings: argument > `JAXOBS_…` environment variable > default. `OTEL_…` variables belong to the OpenTelemetry SDK."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jaxobs.model.addresses import DEFAULT_PORT, LAST_PORT
from jaxobs.model.profile import LARGEST_TRACE
from jaxobs.plugin.settings import SettingsError, declared, meant, read, setting, unknown

__all__ = ["PREFIX", "SETTINGS", "Settings", "SettingsError", "load_settings", "origin", "plain_settings"]

PREFIX = "JAXOBS_"

_HOST_NAME = re.compile(r"\*|(\.?[\w-]+(\.[\w-]+)*\.?)?")  # or nothing: an empty list, or a final comma


def sdk_disabled() -> bool:
    """Whether `OTEL_SDK_DISABLED` turns OpenTelemetry's SDK off, and with it jaxobs unless JAXOBS_ENABLED is set."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _host_names(names: str) -> str:
    for name in names.split(","):
        if not _HOST_NAME.fullmatch(name.strip()):
            raise ValueError(
                f"{name.strip()!r} is no host name: give names alone, without http:// and without a port"
            )
    return names


def _peaks(peaks: dict[str, float]) -> dict[str, float]:
    for dtype, rate in peaks.items():
        if dtype not in ELEMENT_TYPES:
            known = ", ".join(ELEMENT_TYPES[:9])
            raise ValueError(
                f"unknown element type {dtype!r}{meant(dtype, ELEMENT_TYPES)}; known are {known}"
            )
        if rate <= 0:
            raise ValueError(f"the peak of {dtype} must be more than 0")
    return peaks


@dataclass(frozen=True)
class Settings:
    """Every setting of jaxobs. Each field is the environment variable `JAXOBS_<FIELD>` in upper case."""

    enabled: bool = setting(
        True,
        "false turns every call of jaxobs into a no-op, and so does OTEL_SDK_DISABLED=true where this is not set",
    )
    run: str | None = setting(
        None,
        "name of the run, one over all its ranks and restarts "
        "(default: the job's in SLURM or Kubernetes, else the script's)",
        stands_for="script's",
    )
    interval: float = setting(1.0, "seconds between flushes and between snapshots", minimum=0.05, maximum=60)
    sample_interval: float = setting(
        0.5, "seconds between sampled completions of steps, on average", minimum=0.05, maximum=3600
    )
    ring_capacity: int = setting(
        65_536, "events kept while the agent cannot follow", minimum=16, maximum=10_000_000
    )
    shutdown_timeout: float = setting(
        0.8,
        "most seconds that the end of the job, or of `with jaxobs.instrument()`, waits for exporters and last snapshot",
        minimum=0,
        maximum=600,
    )
    watch_jitted: bool = setting(
        True,
        "under `jaxobs run` and `opentelemetry-instrument`, watch every function that the script and its "
        "libraries jit, and find its loops",
    )
    prometheus: bool = setting(True, "serve /metrics; false opens no port")
    metrics_host: str | None = setting(
        None,
        "address to serve at (default: OTEL_EXPORTER_PROMETHEUS_HOST, else `localhost`)",
        stands_for="localhost",
    )
    metrics_port: int | None = setting(
        None,
        "port to serve at, plus the rank on the host; 0 is any free one (default: OTEL_EXPORTER_PROMETHEUS_PORT, else "
        "9464, or the next one where the job itself serves Prometheus)",
        minimum=0,
        maximum=LAST_PORT,
        stands_for=str(DEFAULT_PORT),
    )
    metrics_token_file: Path | None = setting(
        None, "file with a token that every request to the metrics server must bring (`Bearer`)"
    )
    metrics_tls_certificate: Path | None = setting(
        None,
        "file with a certificate chain in PEM form: /metrics is then served over TLS alone",
        check=Path.absolute,  # the job's own web server reads it later, and the job may change its directory
    )
    metrics_tls_key: Path | None = setting(
        None, "file with its private key in PEM form (default: it is in the file of the certificate)"
    )
    metrics_hosts: str | None = setting(
        None,
        "names, separated by commas, under which /metrics is served besides this host's own (`.example.org`: all below "
        "it; `*`: any)",
        check=_host_names,
    )
    file_sd_directory: Path | None = setting(
        None, "directory for a Prometheus file_sd file while the job runs"
    )
    jsonl_directory: Path | None = setting(None, "directory for a file of events, one JSON object a line")
    keep_runs: bool = setting(
        True,
        "the first rank keeps a folder of its run in the user's state directory ($XDG_STATE_HOME/jaxobs/runs, the last "
        "hundred), for `jaxobs runs`, `show`, `compare` and `postmortem`",
    )
    run_directory: Path | None = setting(None, "directory in which each process keeps its folder instead")
    run_interval: float = setting(
        120.0, "seconds between writes of the record; it is written at the end too", minimum=1, maximum=86_400
    )
    tensorboard_directory: Path | None = setting(
        None, "directory for TensorBoard's curves of these figures; needs `jaxobs[tensorboard]`"
    )
    series_limit: int = setting(
        2_000,
        "most time series of jaxobs itself; each plugin may have a quarter as many beside them",
        minimum=50,
        maximum=1_000_000,
    )
    cache_directory: Path | None = setting(
        None, "where calibrated peaks are kept (default: the user's cache)", stands_for="~/.cache"
    )
    peak_flops: dict[str, float] = setting(
        {},
        'matrix peak FLOP/s of one device by element type, as JSON {"bfloat16": 1e14}',
        check=_peaks,
    )
    peak_bytes_per_second: float | None = setting(None, "memory bandwidth of one device", minimum=1)
    tensorfloat32: bool | None = setting(
        None,
        "whether float32 products run as TensorFloat-32: true all, false none (default: as each product's precision and "
        "the device say)",
    )
    slowdown_alarms_per_hour: float = setting(
        0.001,
        "false alarms an hour that a loop became slower for good; with fewer a small slowdown is found later; 0 looks "
        "for none",
        minimum=0,
        maximum=1,
    )
    profile_budget_ratio: float = setting(
        0.002,
        "share of wall time that short profiler windows may cost the job; 0 opens none by itself",
        minimum=0,
        maximum=0.1,
    )
    host_lines: bool = setting(
        True, "sample the main thread's Python stack, to tell which lines the host spends its time in"
    )
    locate_nan: bool = setting(
        False,
        "find where a recorded value that is not finite began: each recorded value is waited for, and watched functions "
        "keep the arguments of their last two calls",
    )
    profile_maximum_bytes: int = setting(
        32 * 2**20,
        "larger traces are not read, and windows are kept short of them; at most 64 MiB",
        minimum=0,
        maximum=LARGEST_TRACE,
    )
    out_of_memory_reports: int = setting(
        3, "most reports a process writes when memory runs out; 0 writes none", minimum=0, maximum=100
    )
    maximum_module_bytes: int = setting(
        64 * 2**20,
        "larger compiled modules are not decoded, and their cost is absent with a reason",
        minimum=0,
    )

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain data, by name. Paths are absolute: the job's directory is not the agent's."""
        return {
            name: str(_absolute(value)) if isinstance(value, Path) else value
            for name, value in vars(self).items()
        }


def _absolute(path: Path) -> Path:
    try:
        return path.absolute()
    except OSError:  # the working directory is gone, and the agent has another: who writes there says so
        return Path("/proc/self/cwd (deleted)", path)


SETTINGS = declared(Settings)
"""What is declared of each setting, by name."""


def load_settings(**arguments: Any) -> Settings:
    """Settings of this process. Raises SettingsError naming each wrong setting, its value and what is allowed."""
    if sdk_disabled() and arguments.get("enabled") is None and origin("enabled") != PREFIX + "ENABLED":
        arguments["enabled"] = False
    return read(Settings, PREFIX, arguments)


def plain_settings(
    settings: Settings, *, rank_on_host: int, in_kubernetes: bool, run_folder: Path | None = None
) -> dict[str, Any]:
    """The settings as plugins and the agent get them, and where this process is.

    `run_folder` is an absolute path (`jaxobs.report.runs.folder_of`), or None where nothing of the run is kept.
    """
    facts = {"rank_on_host": rank_on_host, "in_kubernetes": in_kubernetes}
    return settings.to_dict() | facts | {"run_folder": None if run_folder is None else str(run_folder)}


def origin(name: str) -> str:
    """Where the value of a setting comes from that no argument gives: its environment variable, or `default`."""
    variable = PREFIX + name.upper()
    if variable in {key.upper() for key, value in os.environ.items() if value}:
        return variable
    return "OTEL_SDK_DISABLED" if name == "enabled" and sdk_disabled() else "default"


def unknown_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """`JAXOBS_…` variables that mean nothing, each with a line that names the setting which was probably meant.

    Those that begin with the name of somebody else's plugin are left to it (`jaxobs.plugin.settings`).
    """
    names = [name.upper() for name in SETTINGS]
    own = (name for name in environment if name.upper().startswith(PREFIX))
    strange = sorted(name for name in own if name.upper().removeprefix(PREFIX) not in names)
    if not strange:
        return {}
    from jaxobs.plugin.discovery import prefixes_of_others  # here: it reads what is installed

    others = prefixes_of_others()
    return {name: unknown(name, PREFIX, names) for name in strange if not name.upper().startswith(others)}


ELEMENT_TYPES: Final = (
    "float64", "float32", "tensorfloat32", "bfloat16", "float16", "float8", "float4", "int8", "int4",
    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn", "complex64", "complex128",
    "uint8", "uint4",
)  # fmt: skip
"""The element types that can have a peak: those of the data sheets, then JAX's types that stand for one of them."""
