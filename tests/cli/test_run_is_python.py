"""Under `jaxobs run` a script does what it does under Python: output, exit status, and what it sees of itself."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jaxobs.cli.launch.observe import NOTHING
from tests.cli.launched import JAXOBS, environment, jaxobs, outcome, without_summary

SCRIPTS = {
    "prints": "print('out'); import sys; print('err', file=sys.stderr)",
    "sees-itself": """
        import os, sys
        print(sys.argv, sys.path, sys.flags, sys.orig_argv[-3:], __name__, __file__, __spec__, __package__)
        print(sorted(globals()), sys.modules['__main__'].__dict__ is globals(), sys.meta_path[-3:])
        print(sorted(item for item in os.environ.items()), 'sitecustomize' in sys.modules, os.getcwd())
        print(sys.getrecursionlimit(), sys.excepthook, sys.displayhook, sys._getframe().f_back)
    """,
    "raises": """
        def inner(value):
            raise ValueError(value)
        inner('wrong')
    """,
    "raises-with-cause": """
        try:
            {}['missing']
        except KeyError as error:
            raise RuntimeError('outer') from error
    """,
    "own-excepthook": """
        import sys, traceback
        def hook(kind, error, trace):
            print('hook', kind, error, [frame.name for frame in traceback.extract_tb(trace)])
        sys.excepthook = hook
        1 / 0
    """,
    "excepthook-raises": """
        import sys
        def hook(kind, error, trace):
            raise RuntimeError('in the hook')
        sys.excepthook = hook
        1 / 0
    """,
    "exits-none": "import sys; sys.exit()",
    "exits-number": "import sys; sys.exit(37)",
    "exits-text": "import sys; sys.exit('a reason')",
    "exits-object": "raise SystemExit({'a': 1})",
    "exits-hard": "import os, sys; print('x', flush=True); os._exit(5)",
    "interrupted": "raise KeyboardInterrupt",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "signal-handlers": """
        import signal
        print([signal.getsignal(number) for number in sorted(signal.valid_signals())])
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
    """,
    "threads": """
        import threading, time
        def work():
            time.sleep(0.2)
            print('thread ends')
        threading.Thread(target=work).start()
        print([thread.name for thread in threading.enumerate()])
    """,
    "thread-raises": """
        import threading
        def work():
            raise ValueError('in the thread')
        thread = threading.Thread(target=work, name='worker')
        thread.start()
        thread.join()
    """,
    "exit-functions": """
        import atexit, sys
        atexit.register(print, 'first in, last out')
        atexit.register(sys.stderr.write, 'last in, first out\\n')
    """,
    "warns": """
        import warnings
        warnings.warn('here')
        warnings.warn('above the first line', stacklevel=2)
    """,
    "stack": """
        import inspect, traceback
        traceback.print_stack()
        print([frame.filename for frame in inspect.stack()], inspect.getsource(inspect.currentframe())[:30])
    """,
    "pickles": """
        import pickle
        class Point:
            def __init__(self, x):
                self.x = x
        print(pickle.dumps(Point(3)), pickle.loads(pickle.dumps(Point(3))).x)
    """,
    "spawns": """
        import multiprocessing
        class Result:
            def __init__(self, value):
                self.value = value
        def square(number):
            return Result(number * number)
        if __name__ == '__main__':
            with multiprocessing.get_context('spawn').Pool(1) as pool:
                print([result.value for result in pool.map(square, [1, 2, 3])])
    """,
    "forks": """
        import os, sys
        child = os.fork()
        if child == 0:
            sys.exit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """,
    "starts-python": """
        import subprocess, sys
        code = 'import sys, os; print(sys.argv, os.environ.get("PYTHONPATH"), "jaxobs" in sys.modules)'
        subprocess.run([sys.executable, '-c', code], check=True)
    """,
    "closes-stderr": "import sys; sys.stderr.close()",
    "reads-input": "import sys; print(repr(sys.stdin.read()))",
    "syntax-error": "print('never'\nx = = 1",
    "not-utf-8": "# -*- coding: latin-1 -*-\nprint(ascii('\\xe9'))",
}


def write(folder: Path, name: str, source: str) -> Path:
    lines = source.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    script = folder / f"{name}.py"
    script.write_text("\n".join(line[indent:] for line in lines) + "\n")
    return script


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_does_the_same(tmp_path: Path, name: str) -> None:
    script = write(tmp_path, name, SCRIPTS[name])
    plain = outcome([sys.executable, script.name, "--flag", "a b"], tmp_path)
    observed = jaxobs("run", "--", script.name, "--flag", "a b", folder=tmp_path)
    assert without_summary(observed) == plain


@pytest.mark.parametrize("path", ["./here/../here/script.py", "{folder}/here/script.py", "link.py"])
def test_the_script_sees_its_path_as_python_gives_it(tmp_path: Path, path: str) -> None:
    (tmp_path / "here").mkdir()
    write(tmp_path / "here", "script", "import sys; print(sys.argv, sys.path[0], __file__)")
    (tmp_path / "link.py").symlink_to("here/script.py")
    path = path.format(folder=tmp_path)
    plain = outcome([sys.executable, path], tmp_path)
    assert without_summary(jaxobs("run", path, folder=tmp_path)) == plain


@pytest.mark.parametrize("options", [["-W", "error"], ["-X", "dev"], ["-O", "-u"], ["-P"], ["-Xutf8", "-b"]])
def test_options_of_python_reach_the_script(tmp_path: Path, options: list[str]) -> None:
    write(tmp_path, "script", "import sys, warnings; print(sys.flags, sys.warnoptions); warnings.warn('x')")
    plain = outcome([sys.executable, *options, "script.py"], tmp_path)
    observed = outcome([sys.executable, *options, "-m", "jaxobs", "run", "script.py"], tmp_path)
    assert without_summary(observed) == plain


@pytest.mark.parametrize("language", ["", "xx_YY", "C.UTF-8"])
def test_in_any_language_the_script_has_the_mode_and_the_variables_that_python_gives_it(
    tmp_path: Path, language: str
) -> None:
    write(tmp_path, "script", "import os, sys; print(sys.flags.utf8_mode, sorted(os.environ.items()))")
    variables = {"LANG": language, "LC_ALL": "", "LC_CTYPE": ""}
    plain = outcome([sys.executable, "script.py"], tmp_path, **variables)
    assert without_summary(jaxobs("run", "script.py", folder=tmp_path, **variables)) == plain


@pytest.mark.parametrize("module", ["package", "package.inner", "package.raises", "package.missing"])
def test_a_module_does_the_same(tmp_path: Path, module: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("print('package', __name__)\n")
    (package / "__main__.py").write_text(
        "import sys; print(sys.argv, sys.path[0], __spec__.name, __package__)\n"
    )
    (package / "inner.py").write_text("from package import __name__ as outer; print(outer, __file__)\n")
    (package / "raises.py").write_text("def f():\n    raise ValueError\nf()\n")
    plain = outcome([sys.executable, "-m", module, "-m", "--x"], tmp_path)
    assert without_summary(jaxobs("run", "--", "-m", module, "-m", "--x", folder=tmp_path)) == plain


def test_a_script_on_standard_input_does_the_same(tmp_path: Path) -> None:
    script = write(tmp_path, "script", "import sys; print(sys.argv, sys.path[0], __name__)")
    line = f"{shlex.quote(sys.executable)} {{}} - --flag < {shlex.quote(str(script))}"
    plain = outcome(["sh", "-c", line.format("")], tmp_path)
    observed = outcome(["sh", "-c", line.format("-m jaxobs run")], tmp_path)
    assert "--flag" in plain.stdout
    assert without_summary(observed) == plain


def test_where_there_is_no_such_module_nothing_is_added_to_what_python_says(tmp_path: Path) -> None:
    assert jaxobs("run", "-m", "nope", folder=tmp_path).stderr.count("\n") == 1


def test_the_site_customisation_of_this_place_still_runs(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys; sys.customised = __name__\n")
    write(tmp_path, "script", "import sys; print(sys.customised, sys.modules['sitecustomize'].__file__)")
    path = f"{site}{os.pathsep}{environment()['PYTHONPATH']}"
    plain = outcome([sys.executable, "script.py"], tmp_path, PYTHONPATH=path)
    assert plain.stdout.startswith("sitecustomize ")
    assert without_summary(outcome([*JAXOBS, "run", "script.py"], tmp_path, PYTHONPATH=path)) == plain


def test_the_process_is_the_one_that_was_started_and_signals_reach_the_script(tmp_path: Path) -> None:
    source = "import os, signal, sys\nprint(os.getpid(), flush=True)\nsignal.pause()"
    write(tmp_path, "script", source)
    with subprocess.Popen(
        [*JAXOBS, "run", "script.py"], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    assert NOTHING in errors


def test_a_script_without_jax_is_told_so_and_next_to_nothing_is_imported_before_it(tmp_path: Path) -> None:
    source = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    write(tmp_path, "script", source)
    plain = outcome([sys.executable, "script.py"], tmp_path)
    observed = jaxobs("run", "script.py", folder=tmp_path)
    assert observed.stderr == f"{NOTHING}\n"
    before = set(observed.stdout.split()) - set(plain.stdout.split())
    assert {name for name in before if not name.startswith("_")} <= {
        "atexit", "collections", "contextlib", "copyreg", "enum", "fnmatch", "functools", "importlib", "io",
        "itertools", "jaxobs", "json", "keyword", "linecache", "logging", "operator", "re", "reprlib", "string",
        "textwrap", "threading", "token", "tokenize", "traceback", "types", "typing", "warnings", "weakref",
    }  # fmt: skip


def test_switched_off_it_says_nothing(tmp_path: Path) -> None:
    write(tmp_path, "script", "print('out')")
    observed = jaxobs("run", "--no-enabled", "script.py", folder=tmp_path)
    assert (observed.status, observed.stdout, observed.stderr) == (0, "out\n", "")
