"""Message classes for the parts of XLA's HLO and of profiler traces (XSpace) that are read: a table of their fields."""

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


# Message classes for the parts of XLA's HLO protos that a cost or a trace needs.
#
# Names of messages are ours; field numbers and types are those of openxla/xla, ``xla/service/hlo.proto`` and
# ``xla/xla_data.proto``. The classes live in a descriptor pool of their own: registering ``xla.*`` names in
# the default pool makes importing TensorFlow fail.
#
# Texts are declared as ``bytes``: an operation name that is no valid UTF-8 is then no error, and most are
# never decoded. Shapes, metadata, literals and what only the fingerprint needs are declared as ``bytes`` too
# (a message field has the same wire form): shapes repeat, so that their bytes serve as the key of a table;
# metadata is read for few.


# message -> "field number type", a star for repeated fields. Enums are read as int32.
_HLO: Final[dict[str, tuple[str, ...]]] = {
    "Hlo": ("module 1 bytes", "buffer_assignment 3 bytes"),
    "BufferAssignment": (
        "values 1 *LogicalBuffer",
        "aliases 2 *BufferAlias",
        "allocations 3 *BufferAllocation",
    ),
    "LogicalBuffer": ("id 1 int", "size 2 int", "defined_at 3 BufferLocation"),
    "BufferLocation": ("shape_index 3 *int", "instruction_id 4 int"),
    "BufferAlias": ("source_buffer_id 1 int", "location 2 BufferLocation"),
    "BufferAllocation": (
        "index 1 int",
        "size 2 int",
        "is_thread_local 3 bool",
        "is_parameter 5 bool",
        "maybe_live_out 7 bool",
        "color 8 int",
        "assigned 9 *AssignedBuffer",
        "is_constant 12 bool",
    ),
    "AssignedBuffer": ("buffer_id 1 int", "offset 2 int", "size 3 int"),
    "Module": (
        "name 1 bytes",
        "entry_computation_id 6 int",
        "computations 3 *Computation",
        "schedule 7 Schedule",
        "input_output_alias 8 InputOutputAlias",
        "parameter_shardings 14 *Sharding",
        "device_assignment 15 DeviceAssignment",
        "stack_frame_index 17 StackFrameIndex",
        "payloads 22 *bytes",
    ),
    "Computation": (
        "name 1 bytes",
        "instructions 2 *Instruction",
        "id 5 int",
        "root_id 6 int",
        "execution_thread 8 bytes",
    ),
    "Instruction": (
        "name 1 bytes",
        "opcode 2 bytes",
        "shape 3 bytes",
        "metadata 7 bytes",
        "literal 8 bytes",
        "parameter_number 9 int",
        "tuple_index 13 int",
        "dimensions 14 *int",
        "window 15 Window",
        "slice_dimensions 17 *bytes",
        "dynamic_slice_sizes 20 *int",
        "padding_config 21 bytes",
        "convolution_dimension_numbers 16 ConvolutionDimensionNumbers",
        "custom_call_target 28 bytes",
        "dot_dimension_numbers 30 DotDimensionNumbers",
        "fft_type 31 int32",
        "fft_length 32 *int",
        "gather_dimension_numbers 33 bytes",
        "gather_slice_sizes 34 *int",
        "id 35 int",
        "operand_ids 36 *int",
        "called_computation_ids 38 *int",
        "backend_config 43 bytes",
        "is_host_transfer 47 bool",
        "scatter_dimension_numbers 48 bytes",
        "replica_groups 49 *ReplicaGroup",
        "feature_group_count 50 int",
        "precision_config 51 PrecisionConfig",
        "source_target_pairs 52 *SourceTarget",
        "batch_group_count 58 int",
        "triangular_solve_options 59 TriangularSolveOptions",
        "comparison_direction 63 bytes",
        "rng_algorithm 70 int32",
        "k 81 int",
        "collective_device_list 87 CollectiveDeviceList",
        "ragged_dot_dimension_numbers 90 RaggedDotDimensionNumbers",
        "iota_collective_device_list 92 IotaReplicaGroupList",
        "mesh_axes_replica_group_list 93 MeshAxesReplicaGroupList",
        "backend_config_payload 99 Payload",
    ),
    "Sharding": ("type 1 int32", "named 14 NamedSharding"),
    "NamedSharding": ("dimensions 3 *DimensionSharding",),
    "DimensionSharding": ("axes 1 *bytes",),
    "Schedule": ("sequences 1 *ScheduleEntry",),
    "ScheduleEntry": ("key 1 int", "value 2 InstructionSequence"),
    "InstructionSequence": ("instruction_ids 1 *int",),
    "InputOutputAlias": ("entries 1 *AliasEntry",),
    "AliasEntry": ("output_shape_index 1 *int", "parameter_number 2 int"),
    "Literal": ("s32s 4 *int32", "s64s 5 *int", "u32s 6 *uint", "u64s 7 *uint"),
    "Payload": ("value 1 bytes", "id 2 int"),
    "Shape": (
        "element_type 2 int32",
        "dimensions 3 *int",
        "tuple_shapes 4 *Shape",
        "layout 5 Layout",
        "is_dynamic_dimension 6 *bool",
    ),
    "Layout": ("tiles 6 *bytes", "element_size_in_bits 7 int", "memory_space 8 int"),
    "Metadata": ("op_name 2 bytes", "source_file 3 bytes", "source_line 4 int32", "stack_frame_id 15 int32"),
    "StackFrameIndex": (
        "file_names 1 *bytes",
        "function_names 2 *bytes",
        "file_locations 3 *FileLocation",
        "stack_frames 4 *StackFrame",
    ),
    "FileLocation": ("file_name_id 1 int32", "function_name_id 2 int32", "line 3 int32"),
    "StackFrame": ("file_location_id 1 int32", "parent_frame_id 2 int32"),
    "DeviceAssignment": ("replica_count 1 int32", "computation_count 2 int32"),
    "Window": ("dimensions 1 *WindowDimension",),
    "WindowDimension": (
        "size 1 int",
        "stride 2 int",
        "padding_low 3 int",
        "padding_high 4 int",
        "window_dilation 5 int",
        "base_dilation 6 int",
    ),
    "ConvolutionDimensionNumbers": (
        "kernel_input_feature_dimension 3 int",
        "kernel_output_feature_dimension 4 int",
        "kernel_spatial_dimensions 6 *int",
        "input_batch_dimension 7 int",
        "input_feature_dimension 8 int",
        "output_batch_dimension 9 int",
        "output_feature_dimension 10 int",
        "input_spatial_dimensions 11 *int",
        "output_spatial_dimensions 12 *int",
    ),
    "DotDimensionNumbers": (
        "lhs_contracting_dimensions 1 *int",
        "rhs_contracting_dimensions 2 *int",
        "lhs_batch_dimensions 3 *int",
        "rhs_batch_dimensions 4 *int",
    ),
    "RaggedDotDimensionNumbers": (
        "dot_dimension_numbers 1 DotDimensionNumbers",
        "lhs_ragged_dimensions 2 *int",
        "rhs_group_dimensions 3 *int",
    ),
    "PrecisionConfig": ("operand_precision 1 *int32", "algorithm 2 int32"),
    "TriangularSolveOptions": ("left_side 1 bool",),
    "ReplicaGroup": ("replica_ids 1 *int",),
    "SourceTarget": ("source 1 int", "target 2 int"),
    # Field 2 held the iota list until it became an instruction's own field 92.
    "CollectiveDeviceList": (
        "replica_groups 1 *ReplicaGroup",
        "iota_replica_group_list 2 IotaReplicaGroupList",
    ),
    "IotaReplicaGroupList": ("num_replica_groups 1 int", "num_devices_per_group 2 int"),
    "MeshAxesReplicaGroupList": ("mesh 1 Mesh", "axes 2 *AxisReference"),
    "Mesh": ("axes 1 *MeshAxis",),
    "MeshAxis": ("size 2 int",),
    "AxisReference": ("mesh_axis_index 1 int", "sub_axis_info 2 SubAxis"),
    "SubAxis": ("size 2 int",),
}

_hlo: Final = message_classes("jaxobs.hlo", _HLO)
HloMessage: Final = _hlo["Hlo"]
"""An ``HloProto``, in which traces carry a module."""
ModuleMessage: Final = _hlo["Module"]
BufferAssignmentMessage: Final = _hlo["BufferAssignment"]
InstructionMessage: Final = _hlo["Instruction"]
ShapeMessage: Final = _hlo["Shape"]
MetadataMessage: Final = _hlo["Metadata"]
LiteralMessage: Final = _hlo["Literal"]


# Message classes for profiler traces (XSpace).
#
# Names of messages are ours; field numbers and types are those of openxla/xla,
# ``third_party/tsl/tsl/profiler/protobuf/xplane.proto``. The classes live in a descriptor pool of their own:
# registering TensorFlow's names in the default pool makes importing it fail.
#
# The space and its planes have no class: `wire_format.fields` splits them, so that one line at a time is
# decoded. Texts are declared as ``bytes``, and so are the statistics of an event (a message field has the
# same wire form): most repeat from event to event, so that their bytes serve as the key of a table.


# message -> "field number type", a star for repeated fields.
_XSPACE: Final[dict[str, tuple[str, ...]]] = {
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

_xspace: Final = message_classes("jaxobs.trace", _XSPACE)

LineMessage: Final = _xspace["Line"]
StatMessage: Final = _xspace["Stat"]
EventMetadataEntryMessage: Final = _xspace["EventMetadataEntry"]
StatMetadataEntryMessage: Final = _xspace["StatMetadataEntry"]
