"""Message classes for profiler traces (XSpace) and for the little of HLO that a trace needs.

Names of messages are ours; field numbers and types are those of openxla/xla,
``third_party/tsl/tsl/profiler/protobuf/xplane.proto``, ``xla/service/hlo.proto``. The classes live in a
descriptor pool of their own: registering TensorFlow's names in the default pool makes importing it fail.

The space and its planes have no class: `wire` splits them, so that one line at a time is decoded. Texts are
declared as ``bytes``, and so are the statistics of an event (a message field has the same wire form): most
repeat from event to event, so that their bytes serve as the key of a table.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE: Final = "jaxobs.trace"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bytes": _Field.TYPE_BYTES,
    "int": _Field.TYPE_INT64,
    "uint": _Field.TYPE_UINT64,
    "double": _Field.TYPE_DOUBLE,
    "bool": _Field.TYPE_BOOL,
}

# message -> "field number type", a star for repeated fields.
_MESSAGES: Final[dict[str, tuple[str, ...]]] = {
    "Line": (
        "id 1 int",
        "name 2 bytes",
        "timestamp_ns 3 int",
        "events 4 *Event",
        "display_name 11 bytes",
    ),
    "Event": ("metadata_id 1 int", "offset_ps 2 int", "duration_ps 3 int", "stats 4 *bytes"),
    "Stat": (
        "metadata_id 1 int",
        "double_value 2 double",
        "uint64_value 3 uint",
        "int64_value 4 int",
        "str_value 5 bytes",
        "bytes_value 6 bytes",
        "ref_value 7 uint",
    ),
    "EventMetadataEntry": ("key 1 int", "value 2 EventMetadata"),
    "EventMetadata": ("id 1 int", "name 2 bytes", "display_name 4 bytes", "stats 5 *Stat"),
    "StatMetadataEntry": ("key 1 int", "value 2 StatMetadata"),
    "StatMetadata": ("id 1 int", "name 2 bytes"),
    "Hlo": ("module 1 bytes",),
    "Module": ("name 1 bytes", "computations 3 *Computation", "entry_computation_id 6 int"),
    "Computation": ("instructions 2 *Instruction", "id 5 int", "root_id 6 int"),
    "Instruction": (
        "name 1 bytes",
        "opcode 2 bytes",
        "id 35 int",
        "operand_ids 36 *int",
        "called_computation_ids 38 *int",
        "is_host_transfer 47 bool",
    ),
}


def _file_descriptor() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="jaxobs/trace.proto", package=_PACKAGE, syntax="proto3")
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for text in fields:
            name, number, kind = text.split()
            repeated = kind.startswith("*")
            kind = kind.lstrip("*")
            field = message.field.add(
                name=name,
                number=int(number),
                label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL,
            )
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type = _Field.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
    return file


_POOL: Final = descriptor_pool.DescriptorPool()
_POOL.Add(_file_descriptor())


def _message_class(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


LineMessage: Final = _message_class("Line")
StatMessage: Final = _message_class("Stat")
EventMetadataEntryMessage: Final = _message_class("EventMetadataEntry")
StatMetadataEntryMessage: Final = _message_class("StatMetadataEntry")
HloMessage: Final = _message_class("Hlo")
ModuleMessage: Final = _message_class("Module")
