"""Message classes for profiler traces (XSpace).

Names of messages are ours; field numbers and types are those of openxla/xla,
``third_party/tsl/tsl/profiler/protobuf/xplane.proto``. The classes live in a
descriptor pool of their own: registering TensorFlow's names in the default pool makes importing it fail.

The space and its planes have no class: `protobuf_fields` splits them, so that one line at a time is
decoded. Texts are declared as ``bytes``, and so are the statistics of an event (a message field has the same
wire form): most repeat from event to event, so that their bytes serve as the key of a table.
"""

from __future__ import annotations

from typing import Final

from jaxobs.proto.messages import message_classes

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
}

_classes: Final = message_classes("jaxobs.trace", _MESSAGES)

LineMessage: Final = _classes["Line"]
StatMessage: Final = _classes["Stat"]
EventMetadataEntryMessage: Final = _classes["EventMetadataEntry"]
StatMetadataEntryMessage: Final = _classes["StatMetadataEntry"]
