"""Message classes for the parts of XLA's HLO protos that a cost or a trace needs.

Names of messages are ours; field numbers and types are those of openxla/xla, ``xla/service/hlo.proto`` and
``xla/xla_data.proto``. The classes live in a descriptor pool of their own: registering ``xla.*`` names in
the default pool makes importing TensorFlow fail.

Texts are declared as ``bytes``: an operation name that is no valid UTF-8 is then no error, and most are
never decoded. Shapes, metadata, literals and what only the fingerprint needs are declared as ``bytes``
too (a message field has the same wire form): shapes repeat, so that their bytes serve as the key of a
table; metadata is read for few.
"""

from __future__ import annotations

from typing import Final

from jaxobs.proto.messages import message_classes

# message -> "field number type", a star for repeated fields. Enums are read as int32.
_MESSAGES: Final[dict[str, tuple[str, ...]]] = {
    "Hlo": ("module 1 bytes",),
    "Module": (
        "name 1 bytes",
        "entry_computation_id 6 int",
        "computations 3 *Computation",
        "input_output_alias 8 InputOutputAlias",
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
    "InputOutputAlias": ("entries 1 *AliasEntry",),
    "AliasEntry": ("output_shape_index 1 *int", "parameter_number 2 int"),
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
        "file_locations 3 *FileLocation",
        "stack_frames 4 *StackFrame",
    ),
    "FileLocation": ("file_name_id 1 int32", "line 3 int32"),
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

# What a trace needs of a module: which instructions there are, and what each waits for.
_OUTLINE: Final[dict[str, tuple[str, ...]]] = {
    "Module": ("name", "computations", "entry_computation_id"),
    "Computation": ("instructions", "id", "root_id"),
    "Instruction": ("name", "opcode", "id", "operand_ids", "called_computation_ids", "is_host_transfer"),
}

_classes: Final = message_classes("jaxobs.hlo", _MESSAGES)
_outline: Final = message_classes(
    "jaxobs.hlo_outline",
    {
        message: tuple(field for field in _MESSAGES[message] if field.partition(" ")[0] in wanted)
        for message, wanted in _OUTLINE.items()
    },
)

HloMessage: Final = _classes["Hlo"]
"""An ``HloProto``, in which traces carry a module."""
OutlineMessage: Final = _outline["Module"]
"""A module of which only the outline is decoded."""

ModuleMessage: Final = _classes["Module"]
InstructionMessage: Final = _classes["Instruction"]
ShapeMessage: Final = _classes["Shape"]
MetadataMessage: Final = _classes["Metadata"]
