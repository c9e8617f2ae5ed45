"""Unitree's low-level messages: the families `unitree_go` (Go2, B2, H1) and `unitree_hg` (G1).

Units: rad, rad/s, N·m, m/s², N·m/rad, N·m·s/rad; quaternions w, x, y, z; temperatures °C; V and A.
"""

from typing import NamedTuple

from transport.unitree.layout import Layout, Structure


class Family(NamedTuple):
    """A family of messages. state, command: layouts; motors: their number in a message"""

    name: str
    state: Layout
    command: Layout
    motors: int


def _named(family: str, name: str, *fields: tuple[str, str | Structure, int]) -> Structure:
    return Structure(f"unitree_{family}.msg.dds_.{name}_", fields)


def _imu(family: str, temperature: str) -> Structure:
    vectors = [(name, "f4", 3) for name in ("gyroscope", "accelerometer", "rpy")]
    return _named(family, "IMUState", ("quaternion", "f4", 4), *vectors, ("temperature", temperature, 1))


def _motor_command(family: str, reserve: int) -> Structure:
    numbers = [(name, "f4", 1) for name in ("q", "dq", "tau", "kp", "kd")]
    return _named(family, "MotorCmd", ("mode", "u1", 1), *numbers, ("reserve", "u4", reserve))


def _go() -> Family:
    head = (
        ("head", "u1", 2),
        ("level_flag", "u1", 1),
        ("frame_reserve", "u1", 1),
        ("sn", "u4", 2),
        ("version", "u4", 2),
        ("bandwidth", "u2", 1),
    )
    numbers = [(name, "f4", 1) for name in ("q", "dq", "ddq", "tau_est", "q_raw", "dq_raw", "ddq_raw")]
    motor = _named(
        "go", "MotorState", ("mode", "u1", 1), *numbers, ("temperature", "u1", 1), ("lost", "u4", 1), ("reserve", "u4", 2)
    )
    battery = _named(
        "go",
        "BmsState",
        *[(name, "u1", 1) for name in ("version_high", "version_low", "status", "soc")],
        ("current", "i4", 1),
        ("cycle", "u2", 1),
        ("bq_ntc", "u1", 2),
        ("mcu_ntc", "u1", 2),
        ("cell_vol", "u2", 15),
    )
    state = _named(
        "go",
        "LowState",
        *head,
        ("imu_state", _imu("go", "u1"), 1),
        ("motor_state", motor, 20),
        ("bms_state", battery, 1),
        ("foot_force", "i2", 4),
        ("foot_force_est", "i2", 4),
        ("tick", "u4", 1),
        ("wireless_remote", "u1", 40),
        ("bit_flag", "u1", 1),
        ("adc_reel", "f4", 1),
        ("temperature_ntc1", "u1", 1),
        ("temperature_ntc2", "u1", 1),
        ("power_v", "f4", 1),
        ("power_a", "f4", 1),
        ("fan_frequency", "u2", 4),
        ("reserve", "u4", 1),
        ("crc", "u4", 1),
    )
    command = _named(
        "go",
        "LowCmd",
        *head,
        ("motor_cmd", _motor_command("go", 3), 20),
        ("bms_cmd", _named("go", "BmsCmd", ("off", "u1", 1), ("reserve", "u1", 3)), 1),
        ("wireless_remote", "u1", 40),
        ("led", "u1", 12),
        ("fan", "u1", 2),
        ("gpio", "u1", 1),
        ("reserve", "u4", 1),
        ("crc", "u4", 1),
    )
    return Family("go", Layout(state), Layout(command), 20)


def _hg() -> Family:
    motor = _named(
        "hg",
        "MotorState",
        ("mode", "u1", 1),
        *[(name, "f4", 1) for name in ("q", "dq", "ddq", "tau_est")],
        ("temperature", "i2", 2),
        ("vol", "f4", 1),
        ("sensor", "u4", 2),
        ("motorstate", "u4", 1),
        ("reserve", "u4", 4),
    )
    modes = ("mode_pr", "u1", 1), ("mode_machine", "u1", 1)
    end = ("reserve", "u4", 4), ("crc", "u4", 1)
    state = _named(
        "hg",
        "LowState",
        ("version", "u4", 2),
        *modes,
        ("tick", "u4", 1),
        ("imu_state", _imu("hg", "i2"), 1),
        ("motor_state", motor, 35),
        ("wireless_remote", "u1", 40),
        *end,
    )
    command = _named("hg", "LowCmd", *modes, ("motor_cmd", _motor_command("hg", 1), 35), *end)
    return Family("hg", Layout(state), Layout(command), 35)


REMOTE = Layout(
    _named("go", "WirelessController", *((stick, "f4", 1) for stick in ("lx", "ly", "rx", "ry")), ("keys", "u2", 1))
)
"""Sticks and buttons of a remote control, the same for both families."""

FAMILIES = {"go": _go(), "hg": _hg()}
