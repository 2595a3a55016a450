"""Runs an action right after a module has been imported, without importing it.

A finder in front of `sys.meta_path` asks the finders behind it where the module is, and wraps the loader for
that one import. Before the module's code runs, the loader is put back, so that `__spec__.loader`,
`importlib.resources` and `pkgutil.get_data` find what they always found.

`jaxobs run` loads this file before the script, so at its top it imports only modules that Python's own start has
imported, and nothing of the project.
"""

from __future__ import annotations

import _thread
import sys
from _frozen_importlib import ModuleSpec  # as `importlib.machinery` has it, without importing that

TYPE_CHECKING = False  # as `typing` has it
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any

    Action = Callable[[ModuleType], None]

_lock = _thread.RLock()  # re-entrant: an action, or a signal handler within, may call `when_imported` again
_waiting: dict[str, list[Action]] = {}


def when_imported(module_name: str, action: Action) -> None:
    """Call `action(module)` once: now if the module is fully imported, else right after its import completes.

    After an import it runs on the importing thread, and what it raises is logged and does not reach the import. A
    failed import leaves the action waiting for the next one. An import under way on another thread is not waited for:
    the action runs when it completes. One import is missed: that which another thread begins during the first call for
    the module, and which has then found the module's file but not begun to run it.
    """
    with _lock:
        _waiting.setdefault(module_name, []).append(action)
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
        module = sys.modules.get(module_name)
        if module is None:
            return
        spec = getattr(module, "__spec__", None)
        if isinstance(spec, ModuleSpec) and getattr(spec, "_initializing", False):
            if type(spec) is ModuleSpec:
                spec.__class__ = _InitializingSpec
            if spec.__dict__["_initializing"]:
                return
            spec.__class__ = ModuleSpec  # another thread completed the import between the two checks
    _imported(module_name, module)


def weakly(method: Action) -> Action:
    """An action that calls a bound method while its object lives, and does not keep that object alive.

    Without a callback, which `weakref.WeakMethod` has: what a user's signal handler raises in one would be lost.
    """
    from weakref import ref

    bound: Any = method
    held, function = ref(bound.__self__), bound.__func__

    def action(module: ModuleType) -> None:
        found = held()
        if found is not None:
            function(found, module)

    return action


def _imported(module_name: str, module: ModuleType) -> None:
    with _lock:
        actions = _waiting.pop(module_name, [])
    for action in actions:
        try:
            action(module)
        except (Exception, SystemExit) as error:  # it would surface in the user's import statement
            if not _is_contained(module_name, error):
                raise


def _is_contained(module_name: str, error: BaseException) -> bool:
    """Log an error of an action, unless a signal handler of the user's raised it. Returns whether it was logged."""
    try:
        from jaxobs.plugin.guard import described, raised_by_signal_handler
        from jaxobs.plugin.log import warn
    except (Exception, SystemExit):  # noqa: BLE001  # a finder of the job's forbids what is imported late
        if sys.__stderr__ is not None:
            sys.__stderr__.write(f"jaxobs: cannot observe {module_name}: {type(error).__name__}\n")
        return True
    if raised_by_signal_handler(error):
        return False
    warn(f"cannot observe {module_name}: {described(error)}")
    return True


class _Finder:
    """The finder in `sys.meta_path`. It stays there: removing it could make another thread's import skip a finder."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _waiting:
            return None
        finders = list(sys.meta_path)
        # Called by a finder that somebody has put around this one, which others are behind it is not known.
        ours = [finder is self for finder in finders]  # not `in`, which calls `__eq__` of others
        if True not in ours:
            return None
        for finder in finders[ours.index(True) + 1 :]:
            spec = finder.find_spec(fullname, path, target) if hasattr(finder, "find_spec") else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    announcing: Any = _Announcing(spec.loader)
                    spec.loader = announcing
                return spec
        return None


class _Announcing:
    """Stands in for a loader until the module's code runs. Attributes are those of the loader behind it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # in a copy whose attributes are not set yet
            raise AttributeError(name)
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        for owner, attribute in ((module.__spec__, "loader"), (module, "__loader__")):
            if getattr(owner, attribute, None) is self:
                setattr(owner, attribute, self._loader)
        try:
            self._loader.exec_module(module)
        except BaseException as error:
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next  # without this frame
            raise
        _imported(module.__name__, module)


class _InitializingSpec(ModuleSpec):
    """The spec of a module whose import is under way: it runs the actions when `importlib` clears `_initializing`."""

    @property
    def _initializing(self) -> bool:
        return bool(self.__dict__["_initializing"])

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        self.__dict__["_initializing"] = value
        if value:
            return
        self.__class__ = ModuleSpec  # type: ignore[assignment]  # what it was before
        module = sys.modules.get(self.name)
        if module is not None and module.__spec__ is self:  # else the import has failed
            _imported(self.name, module)
