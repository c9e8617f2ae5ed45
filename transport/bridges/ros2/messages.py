"""The messages of ROS 2 that the bridge uses: their fields, and their names and type hashes in DDS.

Each message is described once, in the notation of ROS: type and name of each field, `[]` marks a sequence, `[9]` an array.
"""

import hashlib
import json
from functools import cache
from typing import Any, NamedTuple


class Number(NamedTuple):
    """A type of numbers: format of NumPy, and its number in type descriptions."""

    format: str
    id: int


NUMBERS = {"int32": Number("<i4", 6), "uint32": Number("<u4", 7), "float64": Number("<f8", 11), "byte": Number("u1", 16)}
STRING, STRING_ID, MESSAGE_ID = "string", 17, 1
ARRAY, SEQUENCE = 48, 144
"""Added to the number of a type for an array or a sequence of it."""

_TABLE = {
    "builtin_interfaces/Time": "int32 sec, uint32 nanosec",
    "std_msgs/Header": "builtin_interfaces/Time stamp, string frame_id",
    "std_msgs/String": "string data",
    "geometry_msgs/Vector3": "float64 x, float64 y, float64 z",
    "geometry_msgs/Point": "float64 x, float64 y, float64 z",
    "geometry_msgs/Quaternion": "float64 x, float64 y, float64 z, float64 w",
    "geometry_msgs/Pose": "geometry_msgs/Point position, geometry_msgs/Quaternion orientation",
    "geometry_msgs/PoseWithCovariance": "geometry_msgs/Pose pose, float64[36] covariance",
    "geometry_msgs/Twist": "geometry_msgs/Vector3 linear, geometry_msgs/Vector3 angular",
    "geometry_msgs/TwistWithCovariance": "geometry_msgs/Twist twist, float64[36] covariance",
    "geometry_msgs/Wrench": "geometry_msgs/Vector3 force, geometry_msgs/Vector3 torque",
    "geometry_msgs/WrenchStamped": "std_msgs/Header header, geometry_msgs/Wrench wrench",
    "geometry_msgs/Transform": "geometry_msgs/Vector3 translation, geometry_msgs/Quaternion rotation",
    "geometry_msgs/TransformStamped": "std_msgs/Header header, string child_frame_id, geometry_msgs/Transform transform",
    "tf2_msgs/TFMessage": "geometry_msgs/TransformStamped[] transforms",
    "nav_msgs/Odometry": "std_msgs/Header header, string child_frame_id, geometry_msgs/PoseWithCovariance pose, "
    "geometry_msgs/TwistWithCovariance twist",
    "sensor_msgs/JointState": "std_msgs/Header header, string[] name, float64[] position, float64[] velocity, float64[] effort",
    "sensor_msgs/Imu": "std_msgs/Header header, geometry_msgs/Quaternion orientation, float64[9] orientation_covariance, "
    "geometry_msgs/Vector3 angular_velocity, float64[9] angular_velocity_covariance, "
    "geometry_msgs/Vector3 linear_acceleration, float64[9] linear_acceleration_covariance",
    "diagnostic_msgs/KeyValue": "string key, string value",
    "diagnostic_msgs/DiagnosticStatus": "byte level, string name, string message, string hardware_id, "
    "diagnostic_msgs/KeyValue[] values",
    "diagnostic_msgs/DiagnosticArray": "std_msgs/Header header, diagnostic_msgs/DiagnosticStatus[] status",
}


class Field(NamedTuple):
    """A field of a message. kind: a number, `string` or a message; size: of an array, −1: a sequence, 0: neither"""

    name: str
    kind: str
    size: int


def _field(text: str) -> Field:
    form, name = text.split()
    kind, bracket, size = form.rstrip("]").partition("[")
    return Field(name, kind, int(size) if size else -len(bracket))


FIELDS = {kind: tuple(_field(each) for each in text.split(", ")) for kind, text in _TABLE.items()}
"""Message, as `sensor_msgs/JointState` → its fields, in order."""


def dds_name(kind: str) -> str:
    """Return the name of a message's type in DDS."""
    package, name = kind.split("/")
    return f"{package}::msg::dds_::{name}_"


@cache
def type_hash(kind: str) -> str:
    """Return the type hash of a message (REP 2016), as ROS 2 from Iron on announces it: `RIHS01_` and 64 hexadecimal digits."""
    nested = sorted(_nested(kind) - {kind})
    whole = {"type_description": _description(kind), "referenced_type_descriptions": [_description(each) for each in nested]}
    return f"RIHS01_{hashlib.sha256(json.dumps(whole).encode()).hexdigest()}"


def _nested(kind: str) -> set[str]:
    """Return a message and all messages in it."""
    return {kind}.union(*(_nested(field.kind) for field in FIELDS[kind] if field.kind in FIELDS))


def _description(kind: str) -> dict[str, Any]:
    fields = [{"name": field.name, "type": _type(field)} for field in FIELDS[kind]]
    return {"type_name": kind.replace("/", "/msg/"), "fields": fields}


def _type(field: Field) -> dict[str, Any]:
    number = NUMBERS[field.kind].id if field.kind in NUMBERS else STRING_ID if field.kind == STRING else MESSAGE_ID
    return {
        "type_id": number + (SEQUENCE if field.size < 0 else ARRAY if field.size else 0),
        "capacity": max(field.size, 0),
        "string_capacity": 0,
        "nested_type_name": field.kind.replace("/", "/msg/") if number == MESSAGE_ID else "",
    }
