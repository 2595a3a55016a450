"""The pytest plugin: the marker `jaxobs` and the fixture `jaxobs_expect`.

pytest loads it wherever jaxobs is installed, so at its top it imports next to nothing, and the rest, JAX included, only
where a test asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import suppress
from functools import partial

import pytest

TYPE_CHECKING = False  # as `typing` has it, without importing that
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from jaxobs.testing.expecting import Expect

MARKER = "jaxobs(recompilations=0): fail the test if it compiles a function again; JAX's caches are cleared before it"


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", MARKER)


def pytest_report_header() -> str | None:
    """Say that nothing is checked where jaxobs is switched off."""
    if not {"JAXOBS_ENABLED", "OTEL_SDK_DISABLED"} & {name.upper() for name in os.environ}:
        return None
    from jaxobs.config import SettingsError, load_settings

    with suppress(SettingsError):  # a test that is marked says so
        if not load_settings().enabled:
            return "jaxobs: switched off, so tests marked `jaxobs` are not checked"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Have a marked test checked as it ends. One that has failed by itself says more, and is not checked.

    It is no wrapper of the hook: those that every pluggy knows cannot fail a test, and only pluggy 1.2 brought others.
    """
    marker = item.get_closest_marker("jaxobs")
    if marker is None:
        return
    if marker.args:
        what = f"{marker.args[0]!r} has no name: write what is expected, as recompilations=0"
        raise pytest.fail.Exception(f"marker jaxobs: {what}", pytrace=False)
    item.runtest = partial(_checked, item, marker.kwargs)  # type: ignore[method-assign]


def _checked(item: pytest.Item, bounds: Mapping[str, Any]) -> None:
    from jaxobs.expectations import ExpectationError
    from jaxobs.testing.expecting import expecting

    del item.runtest  # the test's own again, also where it is run once more
    with expecting() as expect:
        try:
            expected = expect(**bounds)
        except (TypeError, ValueError) as error:
            raise pytest.fail.Exception(f"marker jaxobs: {error}", pytrace=False) from None
        try:
            with expected:
                item.runtest()
        except ExpectationError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture
def jaxobs_expect() -> Generator[Expect]:
    """What fails a test whose block compiles again what it has compiled: call it in a `with`, with `recompilations=0`.

    Without a `with` the rest of the test is meant, and its end fails.
    """
    from jaxobs.expectations import ExpectationError
    from jaxobs.testing.expecting import expecting

    try:
        with expecting() as expect:
            yield expect
    except ExpectationError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
