"""Compares what was around the program in both runs: other load, settings, versions and devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jaxobs.report.comparison.finding import Cause, Effect, Finding
from jaxobs.report.record import Record
from jaxobs.vocabulary.units import digits, rough

LEAST_LOAD: Final = 0.1
"""Share of the host's processors by which the load of other processes must differ to be a finding: the agent's own
profiling, cron and the like stay below it."""

THROTTLED: Final = 0.05
"""Processors by which what a container's limit holds back must differ to be a finding."""

NOT_SPEED: Final = frozenset({
    "run", "summary_directory", "run_directory", "run_interval", "file_sd_directory", "jsonl_directory",
    "metrics_token_file",
    "metrics_tls_certificate", "metrics_tls_key", "metrics_hosts", "out_of_memory_directory", "profile_directory",
    "cache_directory", "tensorboard_directory", "shutdown_timeout",
})  # fmt: skip
"""Settings that do not affect speed, as they say where something is written or served."""


def load_findings(before: Record, after: Record) -> Iterator[Finding]:
    """Differences in the load by other processes on the host, and in what the container's limit held back."""
    one, other = (record.part("host") for record in (before, after))
    old, new = one.get("other_cpus"), other.get("other_cpus")
    cpus = max(one.get("cpus") or 0, other.get("cpus") or 0)
    if old is not None and new is not None and cpus and abs(new - old) >= LEAST_LOAD * cpus:
        yield Finding(
            Cause.LOAD,
            "host",
            Effect.of(new > old),
            f"other processes kept {rough(new)} of {digits(cpus)} processors busy instead of {rough(old)}: the machine "
            f"was {'more' if new > old else 'less'} loaded" + _switches(one, other),
        )
    held, now = one.get("throttled_cpus"), other.get("throttled_cpus")
    if held is not None and now is not None and abs(now - held) >= THROTTLED:
        yield Finding(
            Cause.LOAD,
            "container",
            Effect.of(now > held),
            f"the container's processor limit held back {digits(now)} processors instead of {digits(held)}",
        )


def _switches(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    old, new = (host.get("involuntary_switches_per_second") for host in (one, other))
    if old is None or new is None:
        return ""
    return f" (the job lost a processor {digits(new)} times a second instead of {digits(old)})"


def settings_findings(before: Record, after: Record) -> Iterator[Finding]:
    """Differences in settings of jaxobs, and in variables that XLA and the libraries below it read."""
    for part, words in (("settings", "setting"), ("environment", "variable")):
        for name, said in _differences(before.part(part), after.part(part)):
            if name not in NOT_SPEED:
                yield Finding(Cause.SETTINGS, name, Effect.OPEN, f"the {words} {said}")


def version_findings(before: Record, after: Record) -> Iterator[Finding]:
    """Differences in the versions of Python, JAX and the compilers below it."""
    for name, said in _differences(before.part("versions"), after.part("versions")):
        yield Finding(Cause.VERSIONS, name, Effect.OPEN, said)


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The names whose values differ, each with both values in words."""
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            old, new = (_shown(values.get(name)) for values in (one, other))
            yield name, f"{name} is {new} instead of {old}"


def device_findings(before: Record, after: Record) -> Iterator[Finding]:
    """Differences in the devices and the number of processes, and in the host where the device is its processor."""
    one, other = (_devices(record) for record in (before, after))
    processes = [record.part("snapshot", "process") for record in (before, after)]
    ranks, ranks_now = (process.get("process_count") for process in processes)
    host, host_now = (process.get("host_name") for process in processes)
    found = {}
    if one != other:
        found["devices"] = f"the devices are {_listed(other)} instead of {_listed(one)}"
    if None not in {ranks, ranks_now} and ranks != ranks_now:
        found["processes"] = f"{ranks_now} processes run the job instead of {ranks}"
    if "cpu" in one | other and None not in {host, host_now} and host != host_now:
        found["host"] = f"it ran on the processor of {host_now} instead of that of {host}"
    for subject, words in found.items():
        yield Finding(Cause.DEVICES, subject, Effect.OPEN, words)


def _devices(record: Record) -> Counter[str]:
    return Counter(str(device.get("kind")) for device in record.entries("devices"))


def _listed(kinds: Counter[str]) -> str:
    return ", ".join(f"{number} × {kind}" for kind, number in sorted(kinds.items())) or "none"


def _shown(value: object) -> str:
    return "not there" if value is None else f"`{value}`"
