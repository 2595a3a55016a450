"""Something runs once, right after an import has completed, and the import does not notice."""

from __future__ import annotations

import importlib
import importlib.resources
import importlib.util
import itertools
import logging
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jaxobs.probe.import_hook import when_imported

_numbers = itertools.count()

MAILBOX: Any = sys
"""Where a module that is imported finds what its test left for it."""

MakeModule = Callable[[str], str]


@pytest.fixture
def make_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeModule]:
    """Writes a module with this source and returns its name, which no other test uses."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def make(source: str) -> str:
        name = f"hooked_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        made.append(name)
        return name

    yield make
    for name in made:
        sys.modules.pop(name, None)


def test_runs_at_once_where_the_module_is_there() -> None:
    seen: list[ModuleType] = []
    when_imported("json", seen.append)
    assert seen == [sys.modules["json"]]


def _append(seen: list[int], number: int, _: ModuleType) -> None:
    seen.append(number)


def test_runs_once_after_the_modules_code(make_module: MakeModule) -> None:
    name = make_module("finished = True")
    seen: list[bool] = []
    when_imported(name, lambda module: seen.append(module.finished))
    assert seen == []
    module = importlib.import_module(name)
    importlib.import_module(name)
    importlib.reload(module)
    assert seen == [True]


def test_actions_run_in_the_order_in_which_they_were_given(make_module: MakeModule) -> None:
    name = make_module("")
    seen: list[int] = []
    for number in range(3):
        when_imported(name, partial(_append, seen, number))
    importlib.import_module(name)
    assert seen == [0, 1, 2]


def test_the_module_keeps_its_own_loader(make_module: MakeModule, tmp_path: Path) -> None:
    name = make_module("loader_while_running = __loader__, __spec__.loader")
    (tmp_path / "data.txt").write_text("data")
    when_imported(name, lambda _: None)
    looked_at = importlib.util.find_spec(name)
    assert looked_at is not None
    loader: Any = looked_at.loader
    assert loader.get_source(name) == Path(tmp_path / f"{name}.py").read_text()
    module = importlib.import_module(name)
    loaders = {type(module.__loader__), type(module.__spec__.loader), *map(type, module.loader_while_running)}
    assert loaders == {SourceFileLoader}
    assert pkgutil.get_data(name, "data.txt") == b"data"


def test_resources_of_a_package_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"hooked_{next(_numbers)}"
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / name / "data.txt").write_text("data")
    monkeypatch.syspath_prepend(tmp_path)
    when_imported(name, lambda _: None)
    importlib.import_module(name)
    assert (importlib.resources.files(name) / "data.txt").read_text() == "data"
    del sys.modules[name]


def test_an_action_that_raises_is_logged_and_the_import_goes_on(
    make_module: MakeModule, caplog: pytest.LogCaptureFixture
) -> None:
    name = make_module("value = 3")
    seen: list[int] = []

    def broken(_: ModuleType) -> None:
        raise RuntimeError("no luck")

    when_imported(name, broken)
    when_imported(name, lambda module: seen.append(module.value))
    with caplog.at_level(logging.WARNING, logger="jaxobs"):
        assert importlib.import_module(name).value == 3
    assert seen == [3]
    assert caplog.messages == [f"jaxobs: cannot observe {name}: RuntimeError: no luck"]


def test_a_log_that_raises_does_not_reach_the_import(
    make_module: MakeModule, caplog: pytest.LogCaptureFixture
) -> None:
    name = make_module("value = 3")
    asked: list[Any] = []

    def broken(asked_of: Any) -> Any:
        asked.append(asked_of)
        raise RuntimeError("no luck")

    when_imported(name, broken)
    logger = logging.getLogger("jaxobs")
    logger.addFilter(broken)
    try:
        assert importlib.import_module(name).value == 3
    finally:
        logger.removeFilter(broken)
    assert len(asked) == 2
    assert caplog.messages == []


def test_a_failed_import_raises_as_ever_and_the_next_one_counts(make_module: MakeModule) -> None:
    name = make_module(
        "import sys\nsys.tries = getattr(sys, 'tries', 0) + 1\nassert sys.tries > 1, 'not yet'"
    )
    seen: list[ModuleType] = []
    when_imported(name, seen.append)
    with pytest.raises(AssertionError, match="not yet") as raised:
        importlib.import_module(name)
    assert not [frame for frame in raised.traceback if "probe/import_hook.py" in str(frame.path)]
    assert seen == []
    module = importlib.import_module(name)
    del MAILBOX.tries
    assert seen == [module]


def test_a_missing_module_is_missing() -> None:
    when_imported("no_such_module_anywhere", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
        importlib.import_module("no_such_module_anywhere")


def test_an_import_under_way_on_this_thread_completes_first(make_module: MakeModule) -> None:
    name = make_module(
        "from jaxobs.probe.import_hook import when_imported\n"
        "import sys\n"
        "seen = []\n"
        "when_imported(__name__, lambda module: seen.append(getattr(module, 'finished', False)))\n"
        "seen_while_running = list(seen)\n"
        "finished = True\n"
    )
    module = importlib.import_module(name)
    assert (module.seen_while_running, module.seen) == ([], [True])
    assert type(module.__spec__) is ModuleSpec


def test_an_import_under_way_that_fails_leaves_the_action_waiting(make_module: MakeModule) -> None:
    name = make_module("import sys\nsys.under_way(__name__)")
    seen: list[ModuleType] = []

    def under_way(name: str) -> None:
        when_imported(name, seen.append)
        MAILBOX.under_way = lambda _: None
        raise ValueError("not this time")

    MAILBOX.under_way = under_way
    with pytest.raises(ValueError, match="not this time"):
        importlib.import_module(name)
    assert seen == []
    assert importlib.import_module(name) is seen[0]
    del MAILBOX.under_way


def test_an_import_under_way_on_another_thread_is_not_waited_for(make_module: MakeModule) -> None:
    name = make_module("import sys\nsys.began.set()\nassert sys.go_on.wait(30)\nfinished = True")
    MAILBOX.began, MAILBOX.go_on = threading.Event(), threading.Event()
    importer = threading.Thread(target=importlib.import_module, args=(name,))
    importer.start()
    assert MAILBOX.began.wait(30)
    seen: list[tuple[bool, threading.Thread]] = []
    when_imported(name, lambda module: seen.append((module.finished, threading.current_thread())))
    assert seen == []
    MAILBOX.go_on.set()
    importer.join(30)
    assert seen == [(True, importer)]
    del MAILBOX.began, MAILBOX.go_on


def test_an_action_may_wait_for_the_same_module_again(make_module: MakeModule) -> None:
    name = make_module("")
    seen: list[str] = []
    when_imported(name, lambda _: when_imported(name, lambda _: seen.append("inner")))
    importlib.import_module(name)
    assert seen == ["inner"]


def test_each_action_runs_once_while_threads_import_and_register(make_module: MakeModule) -> None:
    name = make_module("import time\ntime.sleep(0.05)\nfinished = True")
    seen: list[int] = []
    when_imported(name, lambda _: None)
    start = threading.Barrier(16)

    def register(number: int) -> None:
        start.wait(30)
        when_imported(name, lambda module: seen.append(number if module.finished else -1))

    def load() -> None:
        start.wait(30)
        importlib.import_module(name)

    threads = [threading.Thread(target=register, args=(number,)) for number in range(12)]
    threads += [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    importlib.reload(sys.modules[name])
    assert sorted(seen) == list(range(12))


def test_finders_of_others_are_not_compared(make_module: MakeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, _: object) -> bool:
            raise ValueError("eq")

        def find_spec(self, *_: object) -> None:
            return None

    name = make_module("value = 7")
    when_imported(name, lambda _: None)
    monkeypatch.setattr(sys, "meta_path", [Odd(), *sys.meta_path])
    assert importlib.import_module(name).value == 7


def test_an_import_through_finders_that_somebody_put_around_all_others_succeeds(
    make_module: MakeModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Around:
        def __init__(self, finder: Any) -> None:
            self.finder = finder

        def find_spec(self, *arguments: Any) -> ModuleSpec | None:
            found: ModuleSpec | None = self.finder.find_spec(*arguments)
            return found

    name = make_module("value = 7")
    when_imported(name, lambda _: None)
    monkeypatch.setattr(sys, "meta_path", list(map(Around, sys.meta_path)))
    assert importlib.import_module(name).value == 7
