"""Device time by call path: a tree whose leaves hold operations, and whose sums stay true however small it is made.

A path leads from the program's outermost frame, or named scope, to the line that an operation is of, and ends in its
part of automatic differentiation. What is no name of the program's stands in brackets. Each operation is in one leaf,
so that the leaves' seconds add up to those of all; the largest are listed there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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


@dataclass(slots=True, eq=False)
class Node:
    """One frame with everything below it, `depth` calls below the outermost."""

    depth: int
    frame: Frame
    parts: list[Part] = field(default_factory=list)
    """Its own."""
    children: dict[Frame, Node] = field(default_factory=dict)
    seconds: float = 0.0
    # Those of nodes that are kept alone: most of a large tree are not.
    work: Work = field(init=False)
    labels: Counter[str] = field(init=False)
    """Its seconds by the bottleneck that they are charged to."""
    operations: list[Part] = field(init=False)
    """The largest of a leaf, in order."""

    def child(self, frame: Frame) -> Node:
        return self.children.setdefault(frame, Node(self.depth + 1, frame))

    def walk(self) -> Iterator[Node]:
        """This and all nodes below, each before its own."""
        yield self
        for child in self.children.values():
            yield from child.walk()

    def add_up(self) -> float:
        """Set the seconds of this and all that is below; what it does itself beside calls becomes a leaf."""
        if self.children and self.parts:
            self.child(ITSELF).parts, self.parts = self.parts, []
        below = sum(child.add_up() for child in self.children.values())
        self.seconds = below + sum(part.work.seconds for part in self.parts)
        return self.seconds

    def keep(self, kept: set[Node], listed: set[int]) -> None:
        """Keep these nodes below, and sum up the work; `listed` are the parts, by identity, that leaves name."""
        below = {frame: each for frame, each in self.children.items() if each in kept}
        below.pop(OTHER_CALLS, None)
        dropped = (each for frame, each in self.children.items() if frame not in below)
        others = [part for child in dropped for node in child.walk() for part in node.parts]
        self.children = below
        if others:  # they are a leaf beside those that are kept, or it is a leaf itself
            leaf = self.child(OTHER_CALLS) if self.children or self.depth < 0 else self
            leaf.parts = others
        for child in self.children.values():
            child.keep(kept, listed)
        self.work, self.labels, self.operations = Work(), Counter(), []
        self.children = dict(sorted(self.children.items(), key=lambda one: -one[1].work.seconds))
        for child in self.children.values():
            self.work.merge(child.work)
            self.labels.update(child.labels)  # Counter adds floats as well
        for part in sorted(self.parts, key=_by_time):
            self.work.merge(part.work)
            self.labels.update({part.label: part.work.seconds})
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
    root, parts = Node(-1, ITSELF), list(parts)
    for part in parts:
        node = root
        for frame in part.path:
            node = node.child(frame)
        node.parts.append(part)
    root.add_up()
    kept = set(sorted(root.walk(), key=lambda node: -node.seconds)[: limit + 1])  # the root is one
    named = sorted((part for part in parts if part.operation), key=_by_time)
    root.keep(kept, {id(part) for part in named[: limit // 2]})
    _, *nodes = root.walk()
    return nodes


def _by_time(part: Part) -> float:
    return -part.work.seconds
