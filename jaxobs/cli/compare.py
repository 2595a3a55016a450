"""`jaxobs compare`: what became slower or faster from one run to another, and why."""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import dataclass

from jaxobs.cli import UsageError, suggestion
from jaxobs.report.comparison import Comparison

SUMMARY = "compare the records of two runs: what became slower or faster, and why"

USAGE = """usage: jaxobs compare A B [--fail-if-slower PERCENT] [--loop NAME] [--json]
  A, B                    records that jobs left in JAXOBS_RUN_DIRECTORY: files, or directories, of which the
                          newest run is taken
  --fail-if-slower 5%     exit status 1 if a step of B takes more than 5 % longer than one of A
  --loop NAME             the loop that this holds for (default: every loop that both have)
  --json                  print everything as JSON
Exit status: 0, or 1 where --fail-if-slower finds B slower, or 2 for input that cannot be used, which with
--fail-if-slower includes records that do not tell whether B is slower."""

_OPTIONS = ("--fail-if-slower", "--loop", "--json", "--help")
SLOWER = 1


@dataclass(slots=True)
class _Options:
    paths: list[str]
    allowed: float | None = None
    loop: str | None = None
    json: bool = False


def run(arguments: list[str]) -> int:
    """Prints the comparison, and judges it where that is asked for."""
    from jaxobs.cli.console.record_files import read_record
    from jaxobs.report.comparison import compare

    if "--help" in arguments or "-h" in arguments:
        print(USAGE)
        return 0
    options = _parse(arguments)
    comparison = compare(*map(read_record, options.paths))
    if options.json:
        print(json.dumps(comparison.to_dict(), indent=2, allow_nan=False))
    else:
        from jaxobs.cli.console.terminal import is_styled, terminal_width
        from jaxobs.report.comparison.text import text

        print(text(comparison, width=terminal_width(sys.stdout), bold=is_styled(sys.stdout)))
    return 0 if options.allowed is None else _judged(comparison, options.allowed, options.loop)


def _judged(comparison: Comparison, allowed: float, loop: str | None) -> int:
    """The exit status. Raises UsageError where nothing can be told."""
    from jaxobs.report.comparison.noise import factor
    from jaxobs.report.comparison.step_time import verdict

    judged = [told for told in comparison.step_times if loop in {None, told.loop}]
    if not judged:
        raise UsageError(
            f"--fail-if-slower: the two have no loop {f'`{loop}` ' if loop else ''}in common, so nothing can be said"
        )
    told = [time for time in judged if time.change is not None]
    slower = [
        time
        for time in told
        if time.change and verdict(time) == "slower" and time.change.estimate > math.log1p(allowed)
    ]
    for time in slower:
        assert time.change is not None
        grew = 100 * (factor(time.change.estimate) - 1)
        print(
            f"jaxobs compare: `{time.loop}` is {grew:.3g} % slower: {100 * allowed:g} % are allowed",
            file=sys.stderr,
        )
    if slower:
        return SLOWER
    if len(told) < len(judged):
        silent = next(time for time in judged if time.change is None)
        raise UsageError(
            f"--fail-if-slower: whether `{silent.loop}` became slower cannot be told: {silent.reason}"
        )
    return 0


def _parse(arguments: list[str]) -> _Options:
    options, rest = _Options([]), list(arguments)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if word == "--json":
            options.json = True
        elif option in {"--fail-if-slower", "--loop"}:
            if not equals:
                if not rest:
                    raise UsageError(f"option {option} needs a value; `jaxobs compare --help` tells more")
                value = rest.pop(0)
            if option == "--loop":
                options.loop = value
            else:
                options.allowed = _share(value)
        elif word.startswith("-"):
            raise UsageError(
                f"unknown option {word}{suggestion(word, _OPTIONS)}; `jaxobs compare --help` tells more"
            )
        else:
            options.paths.append(word)
    if len(options.paths) != 2:
        raise UsageError("give two records, of the run before and of the run after: jaxobs compare A B")
    if options.loop is not None and options.allowed is None:
        raise UsageError("--loop says which loop --fail-if-slower holds for: give that, too")
    return options


def _share(value: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", value.strip())
    if not match:
        raise UsageError(f"--fail-if-slower {value!r}: give a percentage, such as 5%")
    return float(match[1]) / 100
