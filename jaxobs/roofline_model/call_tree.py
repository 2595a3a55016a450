"""Device time by call path: a tree whose leaves hold operations, and whose sums stay true however small it is made.

A path leads from the program's outermost frame, or named scope, to the line that an operation is of, and ends in its
part of automatic differentiation. What is no name of the program's stands in brackets. Each operation is in one leaf,
so that the leaves' seconds add up to those of all; the largest are listed there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from jaxobs.model.cost import ITSELF, OTHER_CALLS, Frame
from jaxobs.roofline_model.operation_work import Work
from jaxobs.roofline_model.traced import Operation

MAX_NODES: Final = 200
"""Most frames of a tree that is shown: those with the most time. A row has some 300 bytes in a document, and what takes
less than a two-hundredth of the time is no wider than a letter in a drawing."""

MAX_REASON: Final = 200
"""Most letters of a reason: that of the outermost frame has the reasons of all operations."""

NO_LINE: Final = Frame("(no source line)", "", 0)
NO_SCOPE: Final = Frame("(no named scope)", "", 0)

Path = tuple[Frame, ...]


class Part(NamedTuple):
    """Work on one path, with the bottleneck that its time is charged to."""

    path: Path
    label: str
    work: Work
    operation: str = ""
    """Empty where it is that of several, of which nothing else is known."""


@dataclass(frozen=True, slots=True)
class Node:
    """One frame with everything below it, `depth` calls below the outermost."""

    depth: int
    frame: Frame
    work: Work = field(default_factory=Work)
    labels: Counter[str] = field(default_factory=Counter)
    """Its seconds by the bottleneck that they are charged to."""
    operations: list[Part] = field(default_factory=list)
    """The largest of a leaf, in order."""

    def add(self, work: Work, seconds_by_label: Mapping[str, float]) -> None:
        self.work.merge(work)
        self.labels.update(seconds_by_label)  # Counter adds floats as well

    def hold(self, parts: Iterable[Part], listed: set[int]) -> None:
        """Add these parts, the largest first, as those of a leaf."""
        for part in sorted(parts, key=_by_time):
            self.add(part.work, {part.label: part.work.seconds})
            if id(part) in listed:
                self.operations.append(part)

    def row(self, figures: Callable[[Work], dict[str, Any]]) -> dict[str, Any]:
        """It as plain data, with the figures of its work and the bottleneck that most of its time is charged to."""
        function, file, line = self.frame
        ((label, _),) = self.labels.most_common(1)

        def short(work: Work) -> dict[str, Any]:
            known = figures(work)
            return known | {key: text[:MAX_REASON] for key, text in known.items() if isinstance(text, str)}

        operations = [
            {"name": part.operation, "bottleneck": part.label, **short(part.work)} for part in self.operations
        ]
        place = {"depth": self.depth, "name": function, "file": file, "line": line}
        return {**place, "bottleneck": label, **short(self.work), "operations": operations}


def line_path(operation: Operation) -> Path:
    """The path of an operation by the lines that call each other."""
    return (*(operation.stack or (NO_LINE, Frame(operation.name, "", 0))), *_autodiff(operation))


def scope_path(operation: Operation) -> Path:
    """The path of an operation by named scopes."""
    scopes = [Frame(name, "", 0) for name in operation.scope.split("/") if name]
    return (*(scopes or (NO_SCOPE,)), *_autodiff(operation))


def _autodiff(operation: Operation) -> Path:
    return (Frame(f"({operation.autodiff})", "", 0),) if operation.autodiff else ()


PATHS: Final = {"by_line": line_path, "by_scope": scope_path}
"""The trees that are shown."""


def call_tree(parts: Iterable[Part], limit: int = MAX_NODES) -> list[Node]:
    """The tree of all parts, each node before what it calls, the largest first.

    It has the `limit` nodes with the most time. Others are summed as OTHER_CALLS beside those that their caller has.
    Half as many operations are listed.
    """
    root, parts = _Branch(), list(parts)
    for part in parts:
        branch = root
        for frame in part.path:
            branch = branch.children[frame]
        branch.parts.append(part)
    root.add_up()
    kept = set(sorted(root.walk(), key=lambda branch: -branch.seconds)[: limit + 1])  # the root is one
    named = sorted((part for part in parts if part.operation), key=_by_time)
    listed = {id(part) for part in named[: limit // 2]}
    return [node for below in root.below(kept, listed, 0) for node in below]


def _by_time(part: Part) -> float:
    return -part.work.seconds


@dataclass(slots=True, eq=False)
class _Branch:
    seconds: float = 0.0
    parts: list[Part] = field(default_factory=list)
    """Its own."""
    children: defaultdict[Frame, _Branch] = field(default_factory=lambda: defaultdict(_Branch))

    def add_up(self) -> None:
        """Set the seconds of this and all that is below; what it does itself beside calls becomes a leaf."""
        if self.children and self.parts:
            self.children[ITSELF].parts, self.parts = self.parts, []
        for child in self.children.values():
            child.add_up()
        self.seconds = sum(child.seconds for child in self.children.values())
        self.seconds += sum(part.work.seconds for part in self.parts)

    def walk(self) -> Iterator[_Branch]:
        """This and all branches below, each before its own."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    def below(self, kept: set[_Branch], listed: set[int], depth: int) -> list[list[Node]]:
        """For each child, its node and those below it; `listed` are the parts, by identity, that leaves name."""
        found, others = [], list[Part]()
        for frame, child in self.children.items():
            if child not in kept or frame == OTHER_CALLS:
                others += child.everything()
                continue
            node, below = Node(depth, frame), child.below(kept, listed, depth + 1)
            for first, *_ in below:
                node.add(first.work, first.labels)
            if not below:
                node.hold(child.everything(), listed)
            found.append([node, *(each for nodes in below for each in nodes)])
        if others and (found or not depth):  # else its caller is a leaf
            rest = Node(depth, OTHER_CALLS)
            rest.hold(others, listed)
            found.append([rest])
        return sorted(found, key=lambda nodes: -nodes[0].work.seconds)

    def everything(self) -> Iterator[Part]:
        return (part for branch in self.walk() for part in branch.parts)
