"""Checks for `jaxobs check` where metrics would be served, and what prevents it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxobs.model.metrics_address import PORT_VARIABLE, Address, AddressError, wanted_address
from jaxobs.plugin.files import why_not_writable
from jaxobs.plugin.protocol import Remark
from jaxobs_plugins.prometheus.address import listen
from jaxobs_plugins.prometheus.background_call import BackgroundCall, NoAnswerError
from jaxobs_plugins.prometheus.credentials.files import CredentialsError
from jaxobs_plugins.prometheus.credentials.followed import FIRST_SECONDS, FollowedCredentials
from jaxobs_plugins.prometheus.routes import METRICS_PATH


def remarks(settings: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[Remark]:
    """Remarks from reading the files of the settings and listening at the address for a moment."""
    if not settings.get("prometheus", True):
        yield Remark("switched off by the setting prometheus")
        return
    yield from _address(settings, environment)
    directory = settings.get("file_sd_directory")
    reason = None if directory is None else _why_no_file(Path(directory))
    if reason is not None:
        yield Remark(
            f"no file_sd file can be written in {directory}: {reason}; "
            "set JAXOBS_FILE_SD_DIRECTORY to a writable directory",
            problem=True,
        )


def _why_no_file(directory: Path) -> str | None:
    try:
        return BackgroundCall(lambda: _why_not_writable(directory), "jaxobs-file-sd").result(FIRST_SECONDS)
    except (NoAnswerError, OSError) as problem:
        return str(problem)


def _why_not_writable(directory: Path) -> str | None:
    """Why no file can be written in `directory`, which is made if only its parent exists; None if one can."""
    if not os.path.exists(directory.parent):  # noqa: PTH110  # which raises nothing
        return f"there is no directory {directory.parent}"
    return why_not_writable(directory)


def _address(settings: Mapping[str, Any], environment: Mapping[str, str]) -> Iterator[Remark]:
    said: list[str] = []
    try:
        credentials = FollowedCredentials(settings, said.append)
        credentials.read_first()
        wanted = wanted_address(environment, int(settings.get("rank_on_host") or 0))
        listener, address = listen(wanted, may_move=not settings.get("in_kubernetes", False))
    except (AddressError, CredentialsError) as error:
        yield Remark(str(error), problem=True)
    else:
        listener.close()
        yield _where(wanted, address, "http" if credentials.tls is None else "https")
    yield from (Remark(line, problem=True) for line in said)


def _where(wanted: Address, address: Address, scheme: str) -> Remark:
    if not wanted.port:
        return Remark(f"metrics would be at any free port of {address.host}")
    url = f"{scheme}://{address.netloc()}{METRICS_PATH}"
    if address.port == wanted.port:
        return Remark(f"metrics would be at {url}")
    return Remark(
        f"port {wanted.port} is taken: metrics would be at {url}; free that port, or set {PORT_VARIABLE} to a free one",
        problem=True,
    )
