"""The cost of an executable on one device, as plain data.

FLOPs are floating arithmetic: *matrix* FLOPs are those of dot products, convolutions and the dense
factorisations with a closed form (a multiply-add counts 2, a complex one 8); *vector* FLOPs are the other
floating adds, multiplications and divisions. Transcendental functions are counted apart, one for each
evaluation. Integer, compare, select and convert work is no FLOP.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from html import escape
from operator import attrgetter
from typing import Any, Final, NamedTuple

from jaxobs.model.contents import Contents
from jaxobs.model.figure import plain
from jaxobs.model.peak_memory import NOT_GIVEN, PeakMemory
from jaxobs.vocabulary.units import amount, byte_size

NOT_ANALYSED: Final = "its module is being analysed"
"""Why nothing of a module is known while the agent reads it."""

COLLECTIVES: Final = frozenset((
    "all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute", "ragged-all-to-all", "recv",
    "reduce-scatter", "send",
))  # fmt: skip
"""Opcodes of XLA's collectives: the kinds of ``Cost.collective_bytes``."""


AT_MOST: Final = "counted as the most that it can be"
ESTIMATED: Final = "counted by its author's estimate"
IN_FLOPS: Final = "in FLOPs, but not in the rest"
MEASURED: Final = "the repetitions of its loops are the mean of those seen in profiler windows"
NO_BOUNDS: Final = (AT_MOST, ESTIMATED, IN_FLOPS, MEASURED)
"""Words in reasons for figures that are no lower bound; by all other reasons they are one."""


def is_lower_bound(reasons: Iterable[str]) -> bool:
    """Whether figures that are inexact for these reasons are a lower bound."""
    return not any(told in reason for reason in reasons for told in NO_BOUNDS)


def inexact_for(reasons: Sequence[str]) -> str:
    """The first three of these reasons as text, after what all of them make of the figures."""
    return f"{'a lower bound' if is_lower_bound(reasons) else 'not exact'}: {'; '.join(reasons[:3])}"


_NOTHING: Final[Mapping[str, float]] = {}


def _nothing() -> Mapping[str, float]:
    """The amounts of all costs that have none of a kind: one object, since a module has very many such costs."""
    return _NOTHING


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of one run on one device: FLOPs, bytes, transcendental evaluations.

    ``exact`` is False where the figures are a lower bound, or for some reasons no bound (``is_lower_bound``):
    ``inexact_reasons`` says why, and ``unmodelled`` names the operations (custom-call targets, opcodes) whose FLOPs are
    in no figure here.
    """

    matrix_flops_by_type: Mapping[str, float] = field(default_factory=_nothing)
    """Matrix FLOPs by the element type the program asked for, as JAX spells it ("bfloat16")."""
    executed_matrix_flops_by_type: Mapping[str, float] = field(default_factory=_nothing)
    """The same FLOPs by the real element type that the compiled product runs in."""
    vector_flops_by_type: Mapping[str, float] = field(default_factory=_nothing)
    """Vector FLOPs by element type; those on complex numbers by the type of their parts."""
    transcendentals: float = 0.0
    rematerialized_flops_by_type: Mapping[str, float] = field(default_factory=_nothing)
    """The part of ``matrix_flops_by_type`` that repeats earlier work, under ``jax.checkpoint`` say."""
    bytes: float = 0.0
    """Bytes that cross the boundary of the device's main memory, read and written."""
    collective_bytes: Mapping[str, float] = field(default_factory=_nothing)
    """Bytes one device sends over its links, by kind of collective, the algorithm's factor applied."""
    exact: bool = True
    inexact_reasons: tuple[str, ...] = ()
    unmodelled: tuple[str, ...] = ()
    float32_flops_by_precision: Mapping[str, float] = field(default_factory=_nothing)
    """The part of the FLOPs in float32 (and in complex64) that may run in a faster type, by what the program asked for:
    `default` or `high`, where the device chooses (``Peaks.float32_products``), or an algorithm's type and passes, as
    `bfloat16_x3`."""
    rematerialized_float32_flops_by_precision: Mapping[str, float] = field(default_factory=_nothing)
    """The part of these that repeats earlier work."""
    widened_flops_by_precision: Mapping[str, float] = field(default_factory=_nothing)
    """Matrix FLOPs asked for in a narrower type (bfloat16) whose compiled product runs in float32, by the precision that
    it leaves to the device."""

    @property
    def executed_float32_flops_by_precision(self) -> Mapping[str, float]:
        """The part of ``executed_matrix_flops_by_type`` in float32 whose precision is left to the device."""
        total = Counter(self.float32_flops_by_precision)  # Counter adds floats as well
        total.update(self.widened_flops_by_precision)
        return total

    @property
    def matrix_flops(self) -> float:
        """Matrix FLOPs of all types."""
        return sum(self.matrix_flops_by_type.values())

    @property
    def vector_flops(self) -> float:
        """Vector FLOPs of all types."""
        return sum(self.vector_flops_by_type.values())

    @property
    def rematerialized_flops(self) -> float:
        """Matrix FLOPs of rematerialised operations; they are included in ``matrix_flops``."""
        return sum(self.rematerialized_flops_by_type.values())

    @property
    def flops(self) -> float:
        """Matrix and vector FLOPs."""
        return self.matrix_flops + self.vector_flops

    @property
    def intensity(self) -> float | None:
        """FLOPs for each byte of device memory; None where no byte is moved."""
        return self.flops / self.bytes if self.bytes else None

    def __str__(self) -> str:
        """In a line: FLOPs by unit and type, bytes, intensity, and what is not among them."""
        inexact = "at least " if is_lower_bound(self.inexact_reasons) else "about "
        least = "" if self.exact and not self.unmodelled else inexact
        by_type = [f"{amount(flops)} {kind} {dtype}" for kind, dtype, flops in self._by_type()]
        parts = [f"{amount(self.flops, 'FLOP')}" + (f" ({', '.join(by_type)})" if by_type else "")]
        parts += [byte_size(self.bytes)]
        parts += [amount(self.intensity, "FLOP/byte")] if self.intensity is not None else []
        parts += [f"{amount(self.transcendentals)} transcendentals"] if self.transcendentals else []
        sent = {kind: size for kind, size in self.collective_bytes.items() if size}
        parts += [f"{byte_size(size)} sent by {kind}" for kind, size in sent.items()]
        reasons = self.why_inexact()
        return least + ", ".join(parts) + (f"; {'; '.join(reasons)}" if reasons else "")

    def why_inexact(self) -> list[str]:
        """Why the figures are inexact; empty if they are exact."""
        return [*self.inexact_reasons, *(f"the work of {name} is not known" for name in self.unmodelled)]

    def rows(self) -> Iterator[tuple[str, str]]:
        """The amounts in words: the kind of work, and how much of it."""
        for kind, dtype, flops in self._by_type():
            work = "rematerialised matrix" if kind == "rematerialised" else kind
            yield f"{work}, {dtype}", amount(flops, "FLOP")
        if self.transcendentals:
            yield "transcendentals", amount(self.transcendentals)
        yield "device memory", byte_size(self.bytes)
        sent = self.collective_bytes.items()
        yield from ((f"sent by {kind}", byte_size(size)) for kind, size in sent if size)
        if self.intensity is not None:
            yield "intensity", amount(self.intensity, "FLOP/byte")

    def _by_type(self) -> Iterator[tuple[str, str, float]]:
        """The kind, element type and amount of all FLOPs."""
        kinds = {
            "matrix": self.matrix_flops_by_type,
            "vector": self.vector_flops_by_type,
            "rematerialised": self.rematerialized_flops_by_type,
        }
        for kind, values in kinds.items():
            yield from ((kind, dtype, flops) for dtype, flops in values.items() if flops)

    def _repr_html_(self) -> str:
        """A table, where a notebook shows the object."""
        cells = (f"<tr><th>{escape(work)}</th><td>{escape(much)}</td></tr>" for work, much in self.rows())
        head = "<thead><tr><th>work</th><th>a run</th></tr></thead>"
        return f"<p>{escape(str(self))}</p><table>{head}<tbody>{''.join(cells)}</tbody></table>"

    def __add__(self, other: Cost) -> Cost:
        """The cost of doing one after the other."""
        return sum_of(((self, 1.0), (other, 1.0)))

    def scaled(self, times: float) -> Cost:
        """The cost of doing it ``times`` times."""
        return sum_of(((self, times),))

    def to_dict(self) -> dict[str, object]:
        """Fields and derived figures, ready for JSON; ``intensity`` is None where it is undefined."""
        return {
            **{name: plain(getattr(self, name)) for name in IN_DOCUMENTS},
            "intensity_reason": None if self.bytes else "it moves no byte of device memory",
        }


IN_DOCUMENTS: Final = (
    "flops", "matrix_flops", "vector_flops", "transcendentals", "bytes", "collective_bytes", "matrix_flops_by_type",
    "executed_matrix_flops_by_type", "vector_flops_by_type", "rematerialized_flops", "rematerialized_flops_by_type",
    "float32_flops_by_precision", "exact", "inexact_reasons", "unmodelled", "intensity",
)  # fmt: skip
"""Fields and properties of ``Cost`` that its document has."""


AMOUNTS_BY_NAME: Final = tuple(each.name for each in fields(Cost) if each.default_factory is _nothing)
"""Fields of ``Cost`` that hold an amount for each of several names: element types, precisions or kinds."""

_amounts: Final = attrgetter(*AMOUNTS_BY_NAME)

NO_COST: Final = Cost()
"""That of most instructions, which are passed over where costs are added up."""


def sum_of(parts: Iterable[tuple[Cost, float]]) -> Cost:
    """The cost of doing each of these so many times; reasons and unmodelled names in order of appearance."""
    amounts: dict[str, Any] = {}
    transcendentals = size = 0.0
    exact = True
    reasons, unmodelled = dict[str, None](), dict[str, None]()
    for cost, times in parts:
        if cost is NO_COST:
            continue
        for name, theirs in zip(AMOUNTS_BY_NAME, _amounts(cost), strict=True):
            for key, value in theirs.items():
                mine = amounts.setdefault(name, {})
                mine[key] = mine.get(key, 0.0) + value * times
        transcendentals += cost.transcendentals * times
        size += cost.bytes * times
        exact = exact and cost.exact
        reasons.update(dict.fromkeys(cost.inexact_reasons))
        unmodelled.update(dict.fromkeys(cost.unmodelled))
    return Cost(
        **amounts,
        transcendentals=transcendentals,
        bytes=size,
        exact=exact and not (reasons or unmodelled),
        inexact_reasons=tuple(reasons),
        unmodelled=tuple(unmodelled),
    )


FORWARD: Final = "forward"
BACKWARD: Final = "backward"
REMATERIALIZED: Final = "rematerialised"
"""Parts of automatic differentiation: values, gradients, and values that are computed once more for these."""


class Frame(NamedTuple):
    """A line of the user's program, as it stands in a call stack."""

    function: str
    """Empty where the compiler recorded the line alone."""
    file: str
    line: int


ITSELF: Final = Frame("(itself)", "", 0)
"""In a tree of calls, the operations of a line or scope that calls others as well."""
OTHER_CALLS: Final = Frame("(other)", "", 0)
"""In a tree of calls, small paths that are left out, summed."""


@dataclass(frozen=True, slots=True)
class OperationCost:
    """One schedulable operation of a module; a fusion is one operation."""

    name: str
    """The instruction's name, as a profiler reports it."""
    opcode: str
    operation_name: str
    """The metadata's operation name: transformations, scopes and primitive, joined by slashes."""
    scope: str
    """The user's named scopes out of ``operation_name``, joined by slashes; empty where there are none."""
    source: str
    """``file:line`` of the user's code; empty where the compiler recorded none."""
    executions: float
    """The number of executions in one run of the module; 0 in a branch that need not be taken."""
    once: Cost
    """The cost of one execution."""
    stack: tuple[Frame, ...] = ()
    """The calls of the user's program that lead to it, outermost first; empty where the compiler recorded none."""
    autodiff: str = ""
    """The part of automatic differentiation that it belongs to: FORWARD, BACKWARD, REMATERIALIZED or, for none, empty."""

    @property
    def cost(self) -> Cost:
        """The cost of all executions in one run of the module."""
        return self.once if self.executions == 1 else self.once.scaled(self.executions)


@dataclass(frozen=True, slots=True)
class ModuleCost:
    """The cost of a compiled module on one device, in total and by operation."""

    fingerprint: str
    """Short hash of the module's content, the same in every process and independent of source paths."""
    cost: Cost
    """The sum of the operations' costs."""
    operations: tuple[OperationCost, ...]
    donatable_bytes: float | None = None
    """Bytes of arguments that are not donated although an output with their shape and type could take them over."""
    iterations: int | None = None
    """The trip count of the loop in which the module does most of its work, where there is one and it is known."""
    without_work: tuple[OperationCost, ...] = ()
    """Where loops, calls and the ends of asynchronous operations come from, whose work is that of others."""
    contents: Contents | None = None
    """What it holds that makes it slow to compile."""
    memory: PeakMemory | None = None
    memory_reason: str = NOT_GIVEN
    """Why the memory is not known; empty where it is."""
