"""A participant that speaks only ROS 2: names from `rosbags`, bytes by Cyclone DDS's own serialiser."""

import os
from dataclasses import dataclass
from functools import cache
from types import new_class

from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState, WaitSet
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct, types
from cyclonedds.pub import DataWriter
from cyclonedds.qos import Policy, Qos
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from rosbags.typesys import Stores, get_typestore
from wire import until

JAZZY = get_typestore(Stores.ROS2_JAZZY)
BASE, NAME, ARRAY, SEQUENCE = 1, 2, 3, 4  # kinds of fields of rosbags

DOMAIN = 140 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
"""One for each worker: participants of the same domain would share their topics."""

OWN_DOMAIN = DOMAIN + 40  # of tests whose bridge is a process of its own: a process configures a domain once

NUMBERS = {"int32": types.int32, "uint32": types.uint32, "float64": types.float64, "byte": types.byte, "string": str}

SENSOR = Qos(Policy.Reliability.BestEffort, Policy.Durability.Volatile, Policy.History.KeepLast(5))
RELIABLE = Qos(Policy.Reliability.Reliable(10**9), Policy.Durability.Volatile, Policy.History.KeepLast(100))
LATCHED = Qos(Policy.Reliability.Reliable(10**9), Policy.Durability.TransientLocal, Policy.History.KeepLast(1))
"""Qualities of service that subscribers in ROS ask for."""


@cache
def message_type(name):
    def form(definition):
        kind, detail = definition
        if kind == BASE:
            return NUMBERS[detail[0]]
        if kind == NAME:
            return message_type(detail)
        inner, size = detail
        return types.array[form(inner), size] if kind == ARRAY else types.sequence[form(inner)]

    fields = {field: form(definition) for field, definition in JAZZY.fielddefs[name][1]}
    package, _, own = name.split("/")
    typename = {"typename": f"{package}.msg.dds_.{own}_"}
    return dataclass(new_class(own, (IdlStruct,), typename, lambda body: body.update(__annotations__=fields)))


@cache
def loopback():
    """`OWN_DOMAIN` on the interface `lo`."""
    general = '<Interfaces><NetworkInterface name="lo" multicast="default"/></Interfaces>'
    return Domain(OWN_DOMAIN, f"<CycloneDDS><Domain><General>{general}</General></Domain></CycloneDDS>")


class Ros:
    """A participant. own: in a process without a bridge"""

    def __init__(self, *, own):
        if own:
            loopback()
        self.participant = DomainParticipant(OWN_DOMAIN if own else DOMAIN)

    def reader(self, topic, name, qos=RELIABLE):
        return Reader(self.participant, Topic(self.participant, f"rt/{topic}", message_type(name)), qos)

    def writer(self, topic, name, qos=RELIABLE):
        return DataWriter(self.participant, Topic(self.participant, f"rt/{topic}", message_type(name)), qos=qos)


class Reader:
    def __init__(self, participant, topic, qos):
        self.reader, self.wait = DataReader(participant, topic, qos=qos), WaitSet(participant)
        self.any = ReadCondition(self.reader, ViewState.Any | SampleState.Any | InstanceState.Any)
        self.wait.attach(self.any)

    def take(self):
        return [sample for sample in self.reader.take(100) if sample.sample_info.valid_data]

    def next(self, seconds=30.0):
        """The next message; it is an error if none arrives."""
        for _ in range(10):
            self.wait.wait(round(seconds * 1e8))
            if found := self.take():
                return found[-1]
        raise AssertionError("no message")


def matched(writer):
    until(writer.get_matched_subscriptions)
    return writer


def twist(x, y, turn):
    vector = message_type("geometry_msgs/msg/Vector3")
    return message_type("geometry_msgs/msg/Twist")(vector(x, y, 0.0), vector(0.0, 0.0, turn))


def joint_command(names, position, velocity=(), effort=()):
    header = message_type("std_msgs/msg/Header")(message_type("builtin_interfaces/msg/Time")(0, 0), "")
    return message_type("sensor_msgs/msg/JointState")(header, names, position, list(velocity), list(effort))
