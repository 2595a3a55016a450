"""Reads from a frame's bytecode what it is calling at this moment, where the callee has no Python frame.

A frame that waits in a C function such as `queue.get()` or `x.block_until_ready()`, or in a jitted function, is the
innermost one. The instructions before the call name the callee. Names are looked up in the module's globals alone,
which are a plain dictionary: nothing of the user's is called, and no frame's locals are read.
"""

from __future__ import annotations

import opcode
import sys
from types import CodeType, FrameType, ModuleType
from typing import NamedTuple

SITES_KEPT = 2_000
"""Most places in code whose reading is remembered; each takes some hundred bytes."""

LONGEST_CODE = 20_000
"""Bytes of the longest code that is read: its 10 000 instructions take 2 ms, during which the job waits."""

CALLS = ("CALL", "PRECALL")
"""What the names of instructions that call begin with. Python 3.11 calls a function of C from PRECALL in a hot loop."""

_LOADS = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FAST", "LOAD_DEREF", "LOAD_METHOD", "LOAD_ATTR", "LOAD_CLOSURE"}
_ATTRIBUTES = {"LOAD_METHOD", "LOAD_ATTR"}
_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME"}
_NEW_ATTRIBUTES = sys.version_info >= (3, 12)
"""Since Python 3.12 LOAD_ATTR stands for methods too, and its argument has a flag in the lowest bit."""


class Site(NamedTuple):
    """The instruction under way: `iteration` for a `for` that advances its iterator, or a call and its callee."""

    iteration: bool = False
    names: tuple[str, ...] = ()
    """`("numpy", "dot")` for `numpy.dot(…)`; empty where the callee has no name."""
    is_global: bool = False
    """Whether the first of the names is a global of the module."""
    is_call: bool = False


NOWHERE = Site()


class CallSites:
    """A cache of sites by file, first line, function name and instruction: no code object of the user's is kept."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str, int], Site] = {}

    def at(self, frame: FrameType) -> Site:
        """The instruction that this frame is executing."""
        code, position = frame.f_code, frame.f_lasti
        key = (code.co_filename, code.co_firstlineno, code.co_name, position)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= SITES_KEPT:
                self._known.clear()
            found = self._known[key] = read(code, position)
        return found


def read(code: CodeType, position: int) -> Site:
    """The instruction at a byte offset of a function's code."""
    instructions = code.co_code
    if not 0 <= position < len(instructions) <= LONGEST_CODE:
        return NOWHERE
    name = opcode.opname[instructions[position]]
    if name == "FOR_ITER":
        return Site(iteration=True)
    if not name.startswith(CALLS):
        return NOWHERE
    places = list(code.co_positions())
    at = position // 2
    line, _, column, _ = places[at]
    names: list[str] = []
    is_global = False
    for index in range(at):
        begin, _, left, _ = places[index]
        loaded = opcode.opname[instructions[2 * index]]
        if begin != line or left != column or column is None or loaded not in _LOADS:
            continue
        if loaded not in _ATTRIBUTES:
            names.clear()
            is_global = loaded in _GLOBALS
        names.append(_name(code, loaded, _argument(instructions, index)))
    return Site(names=tuple(names), is_global=is_global, is_call=True)


def _argument(instructions: bytes, index: int) -> int:
    argument, shift = instructions[2 * index + 1], 8
    while index > 0 and opcode.opname[instructions[2 * index - 2]] == "EXTENDED_ARG":
        index -= 1
        argument |= instructions[2 * index + 1] << shift
        shift += 8
    return argument


def _name(code: CodeType, loaded: str, argument: int) -> str:
    if loaded == "LOAD_GLOBAL" or (loaded == "LOAD_ATTR" and _NEW_ATTRIBUTES):
        argument >>= 1
    if loaded in _ATTRIBUTES | _GLOBALS:
        table: tuple[str, ...] = code.co_names
    else:
        table = (*code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames))
        table = (*table, *code.co_freevars)
    return table[argument] if argument < len(table) else ""


def kind_of_callee(site: Site, names: dict[str, object]) -> str | None:
    """The name of the callee's type, found through the module's globals `names`; None where they do not lead to it."""
    if not site.is_global or not site.names:
        return None
    found: object = names.get(site.names[0])
    for name in site.names[1:]:
        if type(found) is not ModuleType:
            return None
        found = vars(found).get(name)
    return None if found is None else type(found).__name__
