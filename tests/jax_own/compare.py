"""JAX's own tests with jaxobs in the process: which end otherwise than without it.

    make jax-own-tests TESTS=PATH [ARGS="tests/api_test.py …"]

PATH is a checkout of JAX at the version installed here. Each file runs in a process of its own in three ways: plain, with
`jaxobs.instrument()`, and attached as by `jaxobs run`, with every function that is jitted watched. What differs from
plain is run once more both ways; a test that then ends alike, or ends otherwise than before without jaxobs, is flaky and
only counted. Exit status 1 where something differs, or was not reached with jaxobs and was without. JAX's tests need
absl-py, which is no dependency of jaxobs: pip install absl-py.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections import Counter
from pathlib import Path

from tests.jax_own.outcomes import MODES, Outcome, run

FILES = (
    "monitoring_test", "profiler_test", "profiler_session_test", "jax_jit_test", "compilation_cache_test",
    "source_info_test", "api_util_test", "pickle_test", "garbage_collection_guard_test", "clear_backends_test",
    "aot_test", "traceback_test", "name_stack_test", "metadata_test", "python_callback_test",
    "debug_nans_test", "transfer_guard_test", "multi_device_test", "xla_bridge_test", "logging_test",
    "heap_profiler_test", "cache_key_test", "api_test", "pmap_test", "pjit_test",
    "lax_control_flow_test",
)  # fmt: skip
"""Those of what jaxobs hooks into or reads: `jit` and its relatives, listeners, the profiler, the persistent cache, names
of functions and arguments, callbacks, garbage, backends. The quick ones come first."""

SECONDS = 900.0
"""For one file in one way. api_test takes some 150 s of one core."""


def differing(plain: dict[str, Outcome], other: dict[str, Outcome]) -> list[str]:
    """Tests that were reached both ways and whose outcome is not the same."""
    return [test for test in plain if test in other and plain[test].outcome != other[test].outcome]


def confirmed(
    checkout: Path, tests: list[str], mode: str, plain: dict[str, Outcome], seconds: float
) -> dict[str, tuple[Outcome, Outcome]]:
    """Those of the tests that differ again, each with both outcomes."""
    if not tests:
        return {}
    again, _ = run(checkout, tests, "plain", seconds)
    other, _ = run(checkout, tests, mode, seconds)
    return {
        test: (again[test], other[test])
        for test in differing(again, other)
        if again[test].outcome == plain[test].outcome
    }


def compare(checkout: Path, file: str, seconds: float) -> int:
    """Print a file's counts and what differs; how many that is. A file without a test is one: nothing was compared."""
    plain, end = run(checkout, [file], "plain", seconds)
    counts = [f"{count} {outcome}" for outcome, count in Counter(o.outcome for o in plain.values()).items()]
    print(f"{file}: {', '.join(counts) or 'no test'}{'; ' + end if end else ''}", flush=True)
    return int(not plain) + sum(compare_mode(checkout, file, mode, plain, seconds) for mode in MODES[1:])


def compare_mode(checkout: Path, file: str, mode: str, plain: dict[str, Outcome], seconds: float) -> int:
    """Print what differs in one way; how many that is."""
    other, end = run(checkout, [file], mode, seconds)
    suspected = differing(plain, other)
    kept = confirmed(checkout, suspected, mode, plain, seconds)
    unreached = len(plain.keys() - other.keys())
    parts = [f"{len(kept)} of {len(plain)} differ"]
    parts += [f"{len(suspected) - len(kept)} flaky"] if len(suspected) > len(kept) else []
    parts += [f"{unreached} not reached, which are without jaxobs"] if unreached else []
    print(f"  {mode}: {', '.join(parts)}{'; ' + end if end else ''}", flush=True)
    for test, (without, with_it) in kept.items():
        print(f"    {test}: {without.outcome} → {with_it.outcome}: {with_it.why or without.why}", flush=True)
    return len(kept) + unreached


def main() -> int:
    """Every file, and the sum."""
    parser = argparse.ArgumentParser(prog="make jax-own-tests", description=__doc__)
    parser.add_argument("checkout", type=Path, help="a checkout of JAX, with its folder tests/")
    parser.add_argument(
        "files", nargs="*", help="test files, relative to the checkout; default: those hooked"
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for one file in one way")
    options = parser.parse_args()
    if importlib.util.find_spec("absl") is None:
        sys.exit("absl is missing, which JAX's tests need: .venv/bin/pip install absl-py")
    files = options.files or [f"tests/{name}.py" for name in FILES]
    missing = [file for file in files if not (options.checkout / file).is_file()]
    if missing:
        sys.exit(
            f"not in {options.checkout}: {', '.join(missing)}: give a checkout of JAX of the version installed"
        )
    import jax

    print(f"JAX {jax.__version__}; tests of {options.checkout}")
    found = sum(compare(options.checkout.absolute(), file, options.seconds) for file in files)
    print(f"{found} differ in {len(files)} files")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
