"""Temperatures of motors and the supply's voltage against their limits."""

from controllers.command import Inputs
from controllers.monitor.alarm_settings import AlarmSettings
from controllers.monitor.verdict import Verdict
from idyn.model.robot import Robot

ROWS = (
    ("hot motor", "largest temperature of a motor (`temp`)", ("motor_warm", "motor_hot"), "°C"),
    ("low voltage", "voltage of the supply (`volt`)", ("volt_low", "volt_empty"), "V"),
)
"""Rows of the table of alarms: name, measure, settings of warning and stop, unit."""


class Power:
    """Watches temperatures and voltage of one robot. All limits are off by default: they depend on the hardware."""

    def __init__(self, settings: AlarmSettings, robot: Robot) -> None:
        self._settings, self._names = settings, robot.joint_names
        self.reset()

    def reset(self) -> None:
        """Forget all states."""
        self._hot = self._empty = 0.0  # times beyond the limits that stop [s]

    def judge(self, inputs: Inputs) -> Verdict | None:
        """Compare the measurements of a state with the limits. Return the most urgent alarm, None without one.

        Without a measurement of a quantity its time beyond the limit is kept.
        """
        s, found = self._settings, []
        if inputs.temperature is not None and len(inputs.temperature):
            k = int(inputs.temperature.argmax())
            hottest = float(inputs.temperature[k])
            self._hot = self._hot + inputs.dt if hottest > s.motor_hot else 0.0
            if hottest > min(s.motor_warm, s.motor_hot):
                text = f"hot motor: {self._names[k]} at {hottest:.1f} °C"
                found.append(Verdict(text, hottest > s.motor_hot and self._hot >= s.power_stop))
        if inputs.voltage is not None:
            volt = inputs.voltage
            self._empty = self._empty + inputs.dt if volt < s.volt_empty else 0.0
            if volt < max(s.volt_low, s.volt_empty):
                found.append(Verdict(f"low voltage: {volt:.2f} V", volt < s.volt_empty and self._empty >= s.power_stop))
        return max(found, key=lambda verdict: verdict.stops, default=None)
