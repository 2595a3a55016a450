"""The `file_sd` file that tells Prometheus where to scrape this process, for as long as it serves metrics."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from jaxobs.model.scrape_targets import INSTANCE_LABEL, RANK_LABEL, RUN_LABEL, SCHEME_LABEL
from jaxobs.plugin.files import DRAFT_NAME, write_whole
from jaxobs_plugins.prometheus.pages.labels import label_name, label_value

_META = "__meta_jaxobs_"
RANK = "jax.process_index"
INSTANCE = "service.instance.id"
_KEPT = {RUN_LABEL: "jaxobs.run", RANK_LABEL: RANK}


def target_group(target: str, resource: Mapping[str, str], scheme: str = "http") -> list[dict[str, object]]:
    """The content of the file: one target (`host:port`) and its labels.

    `jaxobs_run` and `jaxobs_rank` stay on every series, so that successive runs on one port, and ranks that moved to
    another port, are not joined into one line; no metric but `target_info` has labels of these names. The whole
    resource is there for relabelling: labels that begin with `__meta_` are dropped unless a rule uses them.
    `__scheme__` tells Prometheus to use TLS, whatever its scrape job is configured for. `__param_instance` makes it
    request this process alone: it notices a changed file some seconds late, and would otherwise take the next run on a
    port for the last one.
    """
    kept = {label: resource.get(name, "") for label, name in _KEPT.items()}
    labels = {label: label_value(value) for label, value in kept.items() if value}
    labels |= {
        _META + label_name(name).removeprefix("jaxobs_"): label_value(value)
        for name, value in sorted(resource.items())
    }
    if instance := resource.get(INSTANCE):
        labels[INSTANCE_LABEL] = instance
    if scheme != "http":
        labels[SCHEME_LABEL] = scheme
    return [{"targets": [target], "labels": labels}]


def files_of_host(directory: Path, host: str) -> list[Path]:
    """The target files of a host's processes in a directory, sorted by name. Raises OSError."""
    name = re.compile(rf"jaxobs-{re.escape(_host_in_names(host))}-\d{{1,10}}\.json")
    paths = directory.iterdir() if directory.is_dir() else ()
    return sorted(path for path in paths if name.fullmatch(path.name))


class TargetFile:
    """The target file of this process, named by host and process, in a directory that others may share."""

    def __init__(self, directory: Path, target: str, scheme: str = "http") -> None:
        self._directory = directory
        self._target = target
        self._scheme = scheme
        self._written = ""
        self._host = _host_in_names(socket.gethostname())
        self.path = directory / f"jaxobs-{self._host}-{os.getpid()}.json"

    def publish(self, resource: Mapping[str, str]) -> None:
        """Write the file where it is missing or out of date. Raises OSError.

        It may be missing because a process in another container of the same host name, which cannot see this one, took
        it for a dead process's and removed it.
        """
        text = json.dumps(target_group(self._target, resource, self._scheme), indent=2) + "\n"
        if text == self._written and self.path.is_file() and not self.path.is_symlink():
            return
        self._directory.mkdir(exist_ok=True)  # without its parents: a mistyped path must not be created
        write_whole(self.path, text.encode())  # its draft is not matched by Prometheus's `*.json`
        self._written = text

    def remove(self) -> None:
        """Withdraw the target. Raises OSError where the file cannot be removed."""
        self.path.unlink(missing_ok=True)

    def remove_stale(self) -> list[Path]:
        """Remove the files that killed processes of this host left behind, and return their paths. Raises OSError."""
        name = re.compile(rf"jaxobs-{re.escape(self._host)}-(\d{{1,10}})\.json")
        stale = []
        for path in self._directory.iterdir() if self._directory.is_dir() else ():
            draft = DRAFT_NAME.fullmatch(path.name)
            match = name.fullmatch(draft["name"] if draft else path.name)
            if match and not _is_alive(int(match[1])):
                path.unlink(missing_ok=True)
                stale.append(path)
        return stale


def _host_in_names(host: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "_", host)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # another user's
    return True
