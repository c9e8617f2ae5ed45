"""Frames that a client may announce as contacts."""

import pytest

from idyn.model.description import ContactPoint, Description
from idyn.model.robot import Robot
from transport.protocol.agreement import check_contact_frame
from transport.protocol.errors import ProtocolError
from transport.protocol.messages.error import Code

LINK = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
CART = f"""<robot name="cart"><link name="body">{LINK}<link name="wheel">{LINK}
<joint name="axle" type="continuous"><parent link="body"/><child link="wheel"/><axis xyz="0 1 0"/></joint></robot>"""


def test_a_wheel_is_announced_as_a_place_with_a_radius_only():
    """Told as a frame it would be a point that does not roll, and its load would be wrong by its weight."""
    with pytest.raises(ProtocolError) as refused:
        check_contact_frame(Robot(Description(urdf=CART)), "wheel", "contact_frames[0]")
    assert refused.value.code is Code.CONTACT_UNKNOWN
    assert "expected a contact place of the robot, which has a radius: 'wheel'" in str(refused.value)
    placed = Robot(Description(urdf=CART, contact=(ContactPoint(frame="wheel", radius=0.1),)))
    check_contact_frame(placed, "wheel", "contact_frames[0]")
    check_contact_frame(placed, "body", "contact_frames[1]")
