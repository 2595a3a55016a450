"""Keeps the target file up to date while the job runs, without waiting for a directory that does not answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jaxobs_plugins.prometheus.background_call import NO_ANSWER_SECONDS, BackgroundCall, NoAnswerError
from jaxobs_plugins.prometheus.discovery.target_file import RANK, TargetFile

_SECONDS = 1.0  # how late a snapshot is shown where the directory begins not to answer, once


class Announcement:
    """Announces this process to Prometheus by a target file. Metrics are served even if it cannot be written."""

    def __init__(self, file: TargetFile, log: Callable[[str], None]) -> None:
        self._file = file
        self._log = log
        self._resource: Mapping[str, str] = {}
        self._withdrawn = False
        self._cleared = False
        self._said_silent = False
        self._call = BackgroundCall(self._bring_about, "jaxobs-file-sd")

    def publish(self, resource: Mapping[str, str]) -> None:
        """Write these attributes to the file, or log why that fails.

        Does nothing until the launcher or JAX has named the rank: it is a label of every series, and adding it later
        would split each series in two.
        """
        if RANK not in resource:
            return
        self._resource = dict(resource)
        try:
            self._call.result(_SECONDS)
        except NoAnswerError as silent:
            if silent.seconds >= NO_ANSWER_SECONDS and not self._said_silent:
                self._said_silent = True
                self._log(
                    f"file_sd: {self._file.path.parent} has not answered for {NO_ANSWER_SECONDS:.0f} s;"
                    " Prometheus is not told of this process until it does"
                )
        except OSError as error:
            self._log(f"file_sd: {error}; Prometheus is not told of this process")
        else:
            self._said_silent = False

    def withdraw(self, timeout: float) -> None:
        """Remove the file, or have it removed as soon as its directory answers; wait `timeout` seconds, or one."""
        self._withdrawn = True
        timeout = max(timeout, _SECONDS)
        try:
            self._call.result(timeout)  # this call may have begun earlier and have written the file
            self._call.result(timeout)
        except NoAnswerError as silent:
            self._log(f"file_sd: {self._file.path}: {silent}; remove the file yourself")
        except OSError as error:
            self._log(f"file_sd: {error}; remove the file yourself")

    def _bring_about(self) -> None:
        """Write or remove the file, on the call's thread. Raises OSError."""
        if not self._withdrawn:
            self._clear()
            self._file.publish(self._resource)
        if self._withdrawn:  # perhaps only since the check above
            self._file.remove()

    def _clear(self) -> None:
        if self._cleared:
            return
        self._cleared = True
        try:
            self._file.remove_stale()
        except OSError as error:
            self._log(f"file_sd: {error}")
