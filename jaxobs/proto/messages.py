"""Message classes of Protocol Buffers, from a table of the fields that are wanted.

A field that the table does not name is kept unread by the decoder, so a table lists only what its readers need.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bytes": _Field.TYPE_BYTES,
    "int": _Field.TYPE_INT64,
    "int32": _Field.TYPE_INT32,
    "uint": _Field.TYPE_UINT64,
    "double": _Field.TYPE_DOUBLE,
    "bool": _Field.TYPE_BOOL,
}


def message_classes(package: str, messages: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """The class of each message, by its name in `messages`.

    `messages` gives for each message its fields, each as ``"name number type"``: the type is a key of the table of
    scalars above (``int`` and ``uint`` are 64 bits wide) or another message of the same table, with a star in front
    where the field is repeated. An enum is declared as ``int32``.

    The classes live in a descriptor pool of their own: a name that another library registers in the default pool
    too would make that library's import fail. Raises ValueError for a field that is not three words; a type that is
    neither a scalar nor in the table is refused by protobuf, with a TypeError.
    """
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file(package, messages))
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in messages
    }


def _file(package: str, messages: Mapping[str, tuple[str, ...]]) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}.proto", package=package, syntax="proto3"
    )
    for message_name, fields in messages.items():
        message = file.message_type.add(name=message_name)
        for text in fields:
            name, number, kind = text.split()
            repeated = kind.startswith("*")
            kind = kind.removeprefix("*")
            field = message.field.add(
                name=name,
                number=int(number),
                label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL,
            )
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type = _Field.TYPE_MESSAGE
                field.type_name = f".{package}.{kind}"
    return file
