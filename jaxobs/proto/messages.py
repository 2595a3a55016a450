"""Message classes for the parts of XLA's HLO and of profiler traces (XSpace) that are read, from the `.proto` files here.

The classes live in descriptor pools of their own: a name that another library registers in the default pool too, as
TensorFlow does with XLA's, would make that library's import fail.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_MESSAGE: Final = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(r"^ +(repeated )?(\w+) (\w+) = (\d+);", re.MULTILINE)
_Descriptor = descriptor_pb2.FieldDescriptorProto


def message_classes(name: str) -> dict[str, Any]:
    """The class of each message in a `.proto` file of this folder, by the message's name.

    The files use messages of scalars and of other messages of the same file alone, with a field on each line.
    """
    package = f"jaxobs.{name}"
    file = descriptor_pb2.FileDescriptorProto(name=f"{name}.proto", package=package, syntax="proto3")
    text = files("jaxobs.proto").joinpath(file.name).read_text(encoding="utf-8")
    for message_name, body in _MESSAGE.findall(text):
        message = file.message_type.add(name=message_name)
        for repeated, kind, field_name, number in _FIELD.findall(body):
            label = _Descriptor.LABEL_REPEATED if repeated else _Descriptor.LABEL_OPTIONAL
            field = message.field.add(name=field_name, number=int(number), label=label)
            if (scalar := f"TYPE_{kind.upper()}") in _Descriptor.Type.DESCRIPTOR.values_by_name:
                field.type = _Descriptor.Type.Value(scalar)
            else:
                field.type, field.type_name = _Descriptor.TYPE_MESSAGE, f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        message.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{message.name}"))
        for message in file.message_type
    }


_hlo: Final = message_classes("hlo")
HloMessage: Final = _hlo["Hlo"]
"""An ``HloProto``, in which traces carry a module."""
ModuleMessage: Final = _hlo["Module"]
BufferAssignmentMessage: Final = _hlo["BufferAssignment"]
InstructionMessage: Final = _hlo["Instruction"]
ShapeMessage: Final = _hlo["Shape"]
MetadataMessage: Final = _hlo["Metadata"]
LiteralMessage: Final = _hlo["Literal"]

_xplane: Final = message_classes("xplane")
LineMessage: Final = _xplane["Line"]
StatMessage: Final = _xplane["Stat"]
EventMetadataEntryMessage: Final = _xplane["EventMetadataEntry"]
StatMetadataEntryMessage: Final = _xplane["StatMetadataEntry"]
