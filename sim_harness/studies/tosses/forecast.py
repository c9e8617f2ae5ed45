"""Forecasts of a toss by an engine of the project, from one measured state.

A step is that of `EngineWorld`: the engine computes ν⁺ from the contacts at the beginning, then x⁺ = x + dt v⁺ and
R⁺ = R exp(dt ω⁺). Without a corner near the floor no engine is called: the motion is free.
"""

from typing import NamedTuple

import numpy as np

from idyn.types import Array
from sim_harness.engines.engine import Engine, ForwardProblem
from sim_harness.judge.tosses import RATE, Toss
from sim_harness.studies.tosses.block import Block, Motion, contact_terms, turned

FASTEST = 4.0
"""Corners lower than they fall within a step at this speed are given to the engine [m/s]."""


class Forecast(NamedTuple):
    """Forecast of N samples, the first of which is given.

    position: of the geometric centre [m] (N, 3); rotation: (N, 3, 3)
    failed: steps whose engine reported a failure
    """

    position: Array
    rotation: Array
    failed: int


class Contact(NamedTuple):
    """Parameters of the contacts of a block.

    mu: friction coefficient
    stiffness, dissipation: of each contact point [N/m], [s]; None: the engine's own
    """

    mu: float
    stiffness: float | None = None
    dissipation: float = 0.0


def first_motion(block: Block, toss: Toss, sample: int, step: float) -> Motion:
    """Return the state from which a forecast starts at a sample.

    step: length of a semi-implicit step [s]

    A measured velocity belongs to half a sample earlier. Gravity has acted since then, and a semi-implicit step counts half a
    step of gravity too much: both are corrected, in contact as in flight.
    """
    rotation, spin = toss.rotation[sample], toss.spin[sample]
    before = turned(rotation, -0.5 / RATE * spin)
    velocity = np.concatenate((toss.velocity[sample] + before @ np.cross(spin, block.centre), spin))
    velocity[2] -= 0.5 * block.gravity * (1.0 / RATE - step)
    return Motion(position=toss.position[sample] + rotation @ block.centre, rotation=rotation, velocity=velocity)


class EngineForecaster:
    """Forecasts by an engine. substeps: steps per sample"""

    def __init__(self, block: Block, engine: Engine, contact: Contact, substeps: int) -> None:
        self.block, self._engine, self._contact, self._substeps = block, engine, contact, substeps
        self._step, self._corners = 1.0 / (RATE * substeps), block.corners
        self._M = np.diag([block.mass] * 3 + [block.inertia] * 3)
        self._h = np.array([0.0, 0.0, block.mass * block.gravity, 0.0, 0.0, 0.0])
        self._fall = np.array([0.0, 0.0, -self._step * block.gravity, 0.0, 0.0, 0.0])

    def __call__(self, toss: Toss, sample: int, samples: int) -> Forecast:
        """Return the forecast of `samples` samples of a toss, the first of which is `sample`, given."""
        motion, failed = first_motion(self.block, toss, sample, self._step), 0
        positions, rotations = np.empty((samples, 3)), np.empty((samples, 3, 3))
        positions[0], rotations[0] = toss.position[sample], toss.rotation[sample]
        for k in range(1, samples):
            for _ in range(self._substeps):
                motion, good = self.advance(motion)
                failed += not good
            positions[k] = motion.position - motion.rotation @ self.block.centre
            rotations[k] = motion.rotation
        return Forecast(positions, rotations, failed)

    def advance(self, motion: Motion) -> tuple[Motion, bool]:
        """Return the state after a step, and whether the engine has solved it."""
        v, good = motion.velocity + self._fall, True
        J, gaps = contact_terms(motion.position, motion.rotation, self._corners, FASTEST * self._step)
        if len(gaps):
            solution = self._engine.solve(self._problem(motion.velocity, J, gaps))
            v, good = solution.v_plus, solution.status.ok
        return (
            Motion(
                position=motion.position + self._step * v[:3],
                rotation=turned(motion.rotation, self._step * v[3:]),
                velocity=v,
            ),
            good,
        )

    def _problem(self, v: Array, J: Array, gaps: Array) -> ForwardProblem:
        n, contact = len(gaps), self._contact
        soft = contact.stiffness is not None
        return ForwardProblem(
            M=self._M,
            h=self._h,
            v=v,
            J=J,
            force=np.zeros(6),
            mu=np.full(n, contact.mu),
            gaps=gaps,
            dt=self._step,
            stiffness=np.full(n, contact.stiffness) if soft else None,
            dissipation=np.full(n, contact.dissipation) if soft else None,
        )
