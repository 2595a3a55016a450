"""The modules in a trace's metadata plane, the kinds of their instructions, and which module an operation is of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from jaxobs.model.cost import COLLECTIVES
from jaxobs.model.trace import Kind
from jaxobs.proto.messages import HloMessage, ModuleMessage
from jaxobs.trace.planes import Plane, Value, decoded

_CONTROL: Final = frozenset(["call", "conditional", "while"])
_NUMBER: Final = re.compile(
    r"(?:\.\d+)+(?:\.(?:clone|remat\d*|cloned(?:\.\d+)?))*(?:\.call(?=-start|-done))?(?=\Z|-start|-done)"
)
_HALF: Final = re.compile(r"-(?:start|done|update)\Z")
# NCCL and RCCL name their kernels ncclDevKernel_AllReduce_…, ncclKernel_…; NVSHMEM's begin with nvshmem.
_COLLECTIVE_KERNEL: Final = re.compile(r"\A(?:nccl|rccl|nvshmem|void nvshmem|msccl)", re.IGNORECASE)
# CUPTI's collector writes MemcpyH2D, ROCm's CopyHostToDevice or the kernel that copies; cuMemcpyHtoDAsync is a call.
_COPY_KERNEL: Final = re.compile(
    r"\A(?:mem(?:cpy|set)|Copy(?:Host|Device)To|FillBuffer|__amd_rocclr_(?:copy|fill))", re.IGNORECASE
)
_HOST_COPY: Final = re.compile(
    r"\A(?:(?:cu|hip)?memcpy(?:H2D|D2H|HtoD|DtoH)|Copy(?:HostToDevice|DeviceToHost))", re.IGNORECASE
)
_LIBRARY_KERNELS: Final = {
    "attention": re.compile("fmha|flash|sdpa|attention", re.IGNORECASE),
    "convolution": re.compile("cudnn|conv|fprop|dgrad|wgrad", re.IGNORECASE),
    "product": re.compile("gemm|gemv|nvjet|cutlass|xmma|cublas", re.IGNORECASE),
}
"""What cuDNN and cuBLAS call their kernels, the most telling name first: `nvjet_…` and `sm90_xmma_gemm_…` are products,
`sm80_xmma_fprop_implicit_gemm_…` a convolution."""
_LIBRARY_CALLS: Final = {
    "__cudnn$fmha": "attention",
    "__cudnn$conv": "convolution",
    "__cublas$gemm": "product",
    "__cublas$lt$matmul": "product",
}
"""Beginnings of the targets of custom calls: openxla/xla, ``xla/service/gpu/cublas_cudnn.h``."""
_NOT_IN_KERNELS: Final = re.compile(r"[^A-Za-z0-9_$]")
"""What XLA writes as `_` in a kernel's name: ``SanitizeFunctionName``, ``xla/service/llvm_ir/llvm_util.cc``."""
_DETAILS: Final = re.compile(r"kind_src:(\S+) kind_dst:(\S+)")
_ON_HOST: Final = frozenset(["pageable", "pinned", "host"])


def kind_of_opcode(opcode: str, *, host_transfer: bool = False) -> Kind:
    """The kind of an instruction by its opcode; both halves of an asynchronous pair have the same kind."""
    whole = _HALF.sub("", opcode)
    if host_transfer and whole in {"send", "recv"}:
        return "transfer"
    if whole in COLLECTIVES:
        return "collective"
    if whole in _CONTROL:
        return "control"
    return "copy" if whole == "copy" and whole != opcode else "compute"


def opcode_in_name(instruction: str) -> str:
    """The opcode with which an instruction's name begins, for instructions whose module is not at hand."""
    return _NUMBER.sub("", instruction)


def kind_of_event(name: str, details: str | None, launched_by: str | None = None) -> Kind:
    """The kind of an event without an instruction, by its kernel's name, a copy's details, or the host's call."""
    if _COLLECTIVE_KERNEL.match(name):
        return "collective"
    ends = _DETAILS.search(details or "")  # where CUPTI does not know the memory it says `unknown`
    crosses = ends is not None and (ends[1] in _ON_HOST) != (ends[2] in _ON_HOST)
    if crosses or any(_HOST_COPY.match(text) for text in (name, launched_by or "")):
        return "transfer"
    return "copy" if _COPY_KERNEL.match(name) else "compute"


def library_kernel(name: str) -> str | None:
    """What a library's kernel computes, by its name; None if it is of no library that is known."""
    return next((kind for kind, pattern in _LIBRARY_KERNELS.items() if pattern.search(name)), None)


def may_repeat(category: str, kernels: Sequence[str]) -> bool:
    """Whether an execution may launch its first kernel again, so that kernels do not tell how often it ran.

    A call of a library that works in blocks does, such as a factorisation of cuSOLVER; cuBLAS and cuDNN do not.
    """
    return category == "custom-call" and len(kernels) > 1 and not all(map(library_kernel, kernels))


_PROGRAM_IN_NAME: Final = re.compile(r"\((\d+)\)\Z")
_PRODUCTS: Final = frozenset(["dot", "convolution", "custom-call", "ragged-dot", "scaled-dot"])
_WITHOUT_KERNEL: Final = frozenset([b"bitcast", b"constant", b"get-tuple-element", b"parameter", b"tuple"])
_ALWAYS_RECORDED: Final = frozenset(
    ["call", "conditional", "convolution", "custom-call", "dot", "fusion", "reduce", "sort", "while"]
)
"""Opcodes whose instructions XLA's CPU runtime always records. Others may be part of one of these, or run nothing."""
_PROTO_STATS: Final = frozenset(["Hlo Proto", "hlo_proto"])


@dataclass(frozen=True, slots=True)
class Instruction:
    """The instruction of a module that a trace's operation executes."""

    opcode: str
    kind: Kind
    in_entry: bool
    """Whether it belongs to the entry computation, so that one run of the module executes it once."""


def read_modules(plane: Plane, notes: list[str], found: dict[int, bytes], buffers: dict[int, bytes]) -> None:
    """Add the serialized HloModuleProto of each program id, and its BufferAssignmentProto where the trace has one.

    A module that cannot be read is left out with a note.
    """
    for key, event in plane.events.items():
        stats = plane.stats_of(event.stats)
        proto = next((value for name, value in stats.items() if name in _PROTO_STATS), None)
        if not isinstance(proto, bytes):
            continue
        written = _PROGRAM_IN_NAME.search(event.name)
        program = stats.get("program_id")
        if not isinstance(program, int):
            program = int(written[1]) if written else key
        try:
            hlo = HloMessage.FromString(proto)
        except DecodeError:
            hlo = HloMessage()
        if hlo.module:
            found[unsigned(program)] = hlo.module
            buffers[unsigned(program)] = hlo.buffer_assignment
        else:
            notes.append(f"the HLO of {event.name} in the trace cannot be read: its costs are unknown")


def unsigned(program_id: int) -> int:
    """A program id as an unsigned number: those of TPUs are 64-bit hashes, written signed in some places."""
    return program_id & (2**64 - 1)


def program_of(stats: Mapping[str, Value]) -> int | None:
    """The program id in the statistics of an event; None if it is not among them."""
    program = stats.get("program_id")
    return unsigned(program) if isinstance(program, int) else None


def text_of(stats: Mapping[str, Value], name: str) -> str | None:
    """A text among the statistics of an event; None if it is not there, or no text."""
    value = stats.get(name)
    return value if isinstance(value, str) else None


class Module(NamedTuple):
    """What a trace needs of one module; all of it is empty where the module is not in the trace."""

    name: str
    instructions: Mapping[str, Instruction]
    kernels: Mapping[str, str | None]
    """The instruction that XLA compiled to a kernel of this name; None where it may be one of several."""
    libraries: Mapping[str, Sequence[str]]
    """The calls of cuBLAS and cuDNN by what they compute, in the order in which they run; those whose order is unknown
    are left out."""


_UNKNOWN: Final = Module("", {}, {}, {})


class ModuleIndex:
    """Instructions by program id and name; each module is decoded when first asked for."""

    def __init__(self, modules: dict[int, bytes], notes: list[str]) -> None:
        self.serialized = modules
        """The HloModuleProto of each program id of the trace."""
        self._notes = notes
        self._decoded: dict[int | None, Module] = {None: _UNKNOWN}

    def of_kernel(self, program_id: int | None, kernel: str) -> str | None:
        """The instruction that was compiled to a kernel, whose name on ROCm has the suffix of its descriptor."""
        return self.module(program_id).kernels.get(kernel.removesuffix(".kd"))

    def program(self, recorded: int | None, module: str | None) -> int | None:
        """The id of a CPU's program by that which its operations carry and its module's name; else one of no module.

        XLA's CPU compiler writes the id into the compiled code. An executable from JAX's persistent cache therefore
        carries the id that it had in the process that compiled it (seen from 0.8.2 to 0.12.0.1), which may be that of
        another module here. Its own module is listed under its id in this process; where several have the name, which
        one ran must not be guessed.
        """
        if recorded is None or module is None or self.module(recorded).name == module:
            return recorded
        named = [program for program in self.serialized if self.module(program).name == module]
        return named[0] if len(named) == 1 else -1 - recorded

    def entry(self, program_id: int | None) -> frozenset[str] | None:
        """Instructions of the entry computation that each run is seen to execute; None if the module is unknown."""
        known = self.module(program_id).instructions
        if not known:
            return None
        return frozenset(
            name for name, one in known.items() if one.in_entry and one.opcode in _ALWAYS_RECORDED
        )

    def module(self, program_id: int | None) -> Module:
        known = self._decoded.get(program_id)
        if known is None:
            serialized = self.serialized.get(program_id or 0)
            try:
                known = _module(serialized) if serialized else _UNKNOWN
            except DecodeError:
                self._notes.append(f"the HLO of program {program_id} is corrupted: its costs are unknown")
                known = _UNKNOWN
            self._decoded[program_id] = known
        return known


def _module(serialized: bytes) -> Module:
    message = ModuleMessage.FromString(serialized)
    computations = {computation.id: computation for computation in message.computations}
    found: dict[str, Instruction] = {}
    communicating = {computation.id for computation in message.computations if _communicates(computation)}
    fused: set[int] = set()
    for computation in message.computations:
        in_entry = computation.id == message.entry_computation_id
        wrapped: dict[int, str] = {}
        for instruction in computation.instructions:
            opcode = decoded(instruction.opcode)
            if opcode.startswith("async-"):  # such a pair wraps one instruction and takes its opcode
                of_start = wrapped.get(instruction.operand_ids[0]) if instruction.operand_ids else None
                wrapped[instruction.id] = of_start or _wrapped(instruction, computations)
                opcode = wrapped[instruction.id] + opcode.removeprefix("async")
            elif opcode not in _CONTROL:
                fused.update(instruction.called_computation_ids)
            kind = kind_of_opcode(opcode, host_transfer=instruction.is_host_transfer)
            if opcode == "fusion" and not communicating.isdisjoint(instruction.called_computation_ids):
                kind = "collective"
            name = decoded(instruction.name)
            found[name] = Instruction(opcode, kind, in_entry)
    return Module(decoded(message.name), found, *_kernels(message, fused))


def _kernels(message: Any, fused: Set[int]) -> tuple[dict[str, str | None], dict[str, list[str]]]:
    """`Module.kernels` and `Module.libraries`; `fused` are the computations that are part of one instruction."""
    sequences = (entry.value.instruction_ids for entry in message.schedule.sequences)
    order = {identifier: at for sequence in sequences for at, identifier in enumerate(sequence)}
    kernels: dict[str, str | None] = {}
    calls: dict[str, list[tuple[int, int, str]]] = {}
    for computation in message.computations:
        for instruction in computation.instructions if computation.id not in fused else ():
            name = decoded(instruction.name)
            if instruction.opcode not in _WITHOUT_KERNEL:
                kernel = _NOT_IN_KERNELS.sub("_", name)
                kernels[kernel] = None if kernel in kernels else name
            target = decoded(instruction.custom_call_target)
            for start, computes in _LIBRARY_CALLS.items():
                if target.startswith(start):
                    place = (computation.id, order.get(instruction.id, -1), name)
                    calls.setdefault(computes, []).append(place)
    ordered = {computes: sorted(places) for computes, places in calls.items() if _are_in_order(places)}
    return kernels, {computes: [name for *_, name in places] for computes, places in ordered.items()}


def _are_in_order(places: Sequence[tuple[int, int, str]]) -> bool:
    """Whether the order of instructions is known: one is, and several that are scheduled in one computation."""
    return len(places) == 1 or (len({where for where, _, _ in places}) == 1 and min(places)[1] >= 0)


def _communicates(computation: Any) -> bool:
    """Whether a fused computation is a collective and what is done to its data, and does no product beside it."""
    opcodes = {decoded(instruction.opcode) for instruction in computation.instructions}
    return any(kind_of_opcode(opcode) == "collective" for opcode in opcodes) and opcodes.isdisjoint(_PRODUCTS)


def _wrapped(instruction: Any, computations: dict[int, Any]) -> str:
    """The opcode of what an asynchronous pair wraps, within a call too: what a TPU's SparseCore takes over is in one."""
    for identifier in instruction.called_computation_ids:
        body: Any = computations.get(identifier)
        for inner in body.instructions if body is not None else ():
            if inner.id == body.root_id:
                opcode = decoded(inner.opcode)
                return _wrapped(inner, computations) if opcode == "call" else opcode
    return "async"
