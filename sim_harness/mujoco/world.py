"""World with MuJoCo's dynamics, contact law, solver and integration. Noise-free and deterministic.

Modelling error: first order in the physics step. Friction coefficients are limited to [1e-5, `MU_CAP`];
1e-5 is MuJoCo's minimum.
"""

from collections.abc import Sequence
from math import ceil
from time import perf_counter
from typing import Generic, TypeVar

import numpy as np

from idyn.status import Status
from idyn.types import Array, ContactSet, Record, State
from sim_harness.mujoco.coordinates import Coordinates
from sim_harness.mujoco.door import mujoco
from sim_harness.mujoco.settings import MujocoSettings
from sim_harness.world.bodies import Bodies
from sim_harness.world.world import Push, StepResult

SLACK = 1e-9
"""Relative tolerance of the longest physics step, so that rounding does not divide 1 ms into two steps."""


class Ending(Record, frozen=True):
    """Outcome of a step of MuJoCo.

    before: state at the beginning of the step
    t: time at the beginning [s]
    dt: length of the step [s]
    status: outcome
    iterations: solver iterations, sum over physics steps
    missed: residual h ‖M v̇ + c − τ − Jᵀf‖∞, the largest of all physics steps of length h [N·s, N·m·s]
    seconds: computation time [s]
    """

    before: State
    t: float
    dt: float
    status: Status
    iterations: int
    missed: float
    seconds: float


B = TypeVar("B", bound=Bodies)
R = TypeVar("R", bound=StepResult)


class Content(Generic[B, R]):
    """Base class of the content of a MuJoCo world: a robot or a scene.

    contacts: contacts at the current state
    """

    bodies: B
    model: mujoco.MjModel
    contacts: ContactSet

    def move(self, state: State) -> None:
        """Update the content for a new finite state."""

    def begin(self, data: mujoco.MjData) -> None:
        """Prepare for a step; called once, before its first physics step."""

    def prepare(self, data: mujoco.MjData) -> None:
        """Prepare for a physics step; called before the kinematics."""

    def load(self, data: mujoco.MjData, span: tuple[float, float], tau: Array | None, pushes: Sequence[Push]) -> None:
        """Add the forces of a physics step to `qfrc_applied`, after the kinematics; span: time and length of the step [s]."""

    def record_forces(self, data: mujoco.MjData, h: float) -> None:
        """Record the contact forces of a physics step of h [s]."""

    def result(self, ending: Ending, after: State) -> R:
        """Return the result of a step; after: state at its end."""
        raise NotImplementedError


class MujocoWorld(Generic[B, R]):
    """A `World` simulated by MuJoCo.

    model, data: MuJoCo's objects; callers must not modify them
    coordinates: conversion between Pinocchio's and MuJoCo's coordinates
    """

    def __init__(self, content: Content[B, R], coordinates: Coordinates, settings: MujocoSettings) -> None:
        self._content, self.coordinates, self._longest = content, coordinates, settings.timestep
        self.bodies, self.model = content.bodies, content.model
        self.robot, self.terrain = self.bodies.robot, self.bodies.terrain
        self.data = mujoco.MjData(self.model)
        self.reset(self.bodies.start.q, self.bodies.start.v)

    @property
    def contacts(self) -> ContactSet:
        return self._content.contacts

    def reset(self, q: Array, v: Array | None = None) -> None:
        state = self.bodies.checked(q, v)
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:], self.data.qvel[:] = self.coordinates.to_mujoco(state.q, state.v)
        self.t = 0.0
        self._move(state)

    def _move(self, state: State) -> None:
        self.state, self.q, self.v = state, state.q, state.v
        if self._finite:  # for a non-finite state the contacts of the last finite one remain
            self._content.move(state)

    @property
    def _finite(self) -> bool:
        return bool(np.isfinite(self.q).all() and np.isfinite(self.v).all())

    def step(self, tau: Array | None = None, dt: float | None = None, pushes: Sequence[Push] = ()) -> R:
        dt, data, content = self.bodies.dt if dt is None else dt, self.data, self._content
        before, warnings, t = self.state, data.warning.number.sum(), self.t
        count = max(ceil(dt / self._longest - SLACK), 1)
        self.model.opt.timestep = h = dt / count
        iterations, missed, seconds = 0, 0.0, 0.0
        content.begin(data)
        for k in range(count):
            content.prepare(data)
            begin = perf_counter()
            mujoco.mj_step1(self.model, data)
            data.qfrc_applied[:] = 0.0
            content.load(data, (t + k * h, h), tau, pushes)
            mujoco.mj_step2(self.model, data)
            seconds += perf_counter() - begin
            content.record_forces(data, h)
            iterations += int(data.solver_niter.sum())
            missed = max(missed, h * self._missed())
            q, v = self.coordinates.from_mujoco(data.qpos, data.qvel)
            self._move(State(q=q, v=v))
        self.t += dt
        warned = data.warning.number.sum() > warnings
        status = Status.NON_FINITE if not self._finite else Status.NOT_CERTIFIED if warned else Status.SOLVED
        ending = Ending(
            before=before, t=t, dt=dt, status=status, iterations=iterations, missed=missed, seconds=seconds
        )  # fmt: skip
        return content.result(ending, self.state)

    def _missed(self) -> float:
        """Return the residual ‖M v̇ + c − τ − Jᵀf‖∞ of the physics step [N, N·m]."""
        data, inertial = self.data, np.zeros(self.model.nv)
        mujoco.mj_mulM(self.model, data, inertial, data.qacc)
        forces = data.qfrc_passive + data.qfrc_applied + data.qfrc_constraint
        return float(np.abs(inertial + data.qfrc_bias - forces).max())
