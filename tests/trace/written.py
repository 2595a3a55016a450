"""Traces written by hand: planes with lines, events and statistics, for what no device here records."""

from jaxobs.proto.messages import (
    EventMetadataEntryMessage,
    HloMessage,
    LineMessage,
    ModuleMessage,
    StatMessage,
    StatMetadataEntryMessage,
)

MICROSECOND = 10**6
"""In picoseconds."""


def varint(number):
    found = b""
    while number >= 0x80:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


class WrittenPlane:
    """One plane. Texts become references, as the profiler writes them; `told` ones stay texts."""

    def __init__(self, name, **stats):
        self.name = name
        self._names = {}
        self._events = {}
        self._metadata = {}
        self._lines = []
        self._stats = [self.stat(key, value) for key, value in stats.items()]

    def stat(self, name, value, *, reference=True):
        known = StatMessage(metadata_id=self._id(name))
        if isinstance(value, str) and reference:
            known.ref_value = self._id(value)
        elif isinstance(value, str):
            known.str_value = value.encode()
        elif isinstance(value, bytes):
            known.bytes_value = value
        elif isinstance(value, float):
            known.double_value = value
        elif value >= 2**63:
            known.uint64_value = value
        else:
            known.int64_value = value
        return known

    def kind(self, name, display_name="", **stats):
        """The id of events of one name, with statistics that all of them share."""
        key = (name, display_name)
        if key not in self._events:
            self._events[key] = len(self._events) + 1
            self._metadata[self._events[key]] = (
                name,
                display_name,
                [self.stat(*pair) for pair in stats.items()],
            )
        return self._events[key]

    def line(self, name, events, timestamp_ns=0):
        """`events` are (name or id, start µs, duration µs, {statistic: value})."""
        line = LineMessage(name=name.encode(), timestamp_ns=timestamp_ns)
        for event, start, duration, stats in events:
            metadata_id = self.kind(event) if isinstance(event, str) else event
            line.events.add(
                metadata_id=metadata_id,
                offset_ps=round(start * MICROSECOND),
                duration_ps=round(duration * MICROSECOND),
                stats=[self.stat(key, value).SerializeToString() for key, value in stats.items()],
            )
        self._lines.append(line)
        return self

    def serialized(self):
        parts = [field(2, self.name.encode()), *(field(3, line.SerializeToString()) for line in self._lines)]
        for key, (name, display, stats) in self._metadata.items():
            value = {"id": key, "name": name.encode(), "display_name": display.encode(), "stats": stats}
            parts.append(field(4, EventMetadataEntryMessage(key=key, value=value).SerializeToString()))
        for name, key in self._names.items():
            entry = StatMetadataEntryMessage(key=key, value={"id": key, "name": name.encode()})
            parts.append(field(5, entry.SerializeToString()))
        parts += [field(6, stat.SerializeToString()) for stat in self._stats]
        return b"".join(parts)

    def _id(self, name):
        return self._names.setdefault(name, len(self._names) + 1)


def space(*planes, hostname="host", errors=()):
    """A serialized XSpace."""
    parts = [field(1, plane.serialized()) for plane in planes]
    parts += [field(2, error.encode()) for error in errors]
    return b"".join([*parts, field(4, hostname.encode())])


def modules(**programs):
    """A metadata plane: module name to (program id, {instruction: opcode}, instructions outside the entry)."""
    plane = WrittenPlane("/host:metadata")
    for name, (program_id, entry, inside) in programs.items():
        module = ModuleMessage(name=name.encode(), entry_computation_id=1)
        for number, instructions in ((1, entry), (2, inside)):
            computation = module.computations.add(id=number)
            for instruction, opcode in instructions.items():
                computation.instructions.add(name=instruction.encode(), opcode=opcode.encode())
        proto = HloMessage(module=module.SerializeToString()).SerializeToString()
        plane.kind(f"{name}({program_id})", **{"Hlo Proto": proto})
    return plane
