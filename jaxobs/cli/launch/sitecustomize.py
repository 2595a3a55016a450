"""Imported by Python itself before the script, because `jaxobs run` put this folder first on PYTHONPATH.

The script must find everything as it would without jaxobs. So this file first removes what made Python import it (the
two environment variables and the entry of `sys.path`), which also keeps child processes from importing it. Then it
hands over to the observer, and last it makes room for the system's own `sitecustomize`, if there is one.
"""

import marshal
import os
import sys
from _frozen_importlib import module_from_spec
from _frozen_importlib_external import spec_from_file_location  # both as `importlib.util` has them

TYPE_CHECKING = False  # as `typing` has it; only what Python's own start has imported is imported here
if TYPE_CHECKING:
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  # not pathlib: the fewer imports


def _take_back() -> "dict[str, Any] | None":
    handed = os.environ.pop("JAXOBS_LAUNCH", None)
    sys.path[:] = [entry for entry in sys.path if entry != _HERE]
    sys.path_importer_cache.pop(_HERE, None)
    if handed is None:
        return None
    launch = marshal.loads(bytes.fromhex(handed))  # noqa: S302  # written by this very Python, see `run`
    if launch["pythonpath"] is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = launch["pythonpath"]
    return dict(launch)


def _observe(launch: "dict[str, Any]") -> None:
    root = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))  # noqa: PTH120

    def load(name: str) -> "Any":
        # From its file: an import by name would first run `jaxobs/__init__.py`, and with it half a second of imports
        # that the script would find done. These two modules need nothing of the project.
        file = os.path.join(root, *name.split(".")) + ".py"  # noqa: PTH118
        spec = spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    try:
        if not any(finder.find_spec("jaxobs", None) for finder in sys.meta_path):
            # A source tree that was started with `python -m jaxobs` from its own folder.
            sys.path.append(root)
        when_imported = load("jaxobs.probe.import_hook").when_imported
        observe = load("jaxobs.cli.launch.observe").observe
        observe(launch["settings"], when_imported, prints=launch["prints"])
    except Exception as error:  # noqa: BLE001  # whatever is wrong with us, the script must run
        print(f"jaxobs: the script runs unobserved: {type(error).__name__}: {error}", file=sys.stderr)


_launch = _take_back()
if _launch is not None:
    _observe(_launch)

# The import system returns the module of this name when the import ends. Where there is no other, this raises
# the ModuleNotFoundError that Python's start expects then.
del sys.modules["sitecustomize"]
import sitecustomize  # type: ignore[import-not-found]  # noqa: E402, F401
