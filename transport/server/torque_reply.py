"""The torque message: what the controller decided, in the client's order, with all one may want to know about it."""

from collections.abc import Callable

import msgspec

from controllers.command import Command, Disagreement, Reference
from idyn.types import Array, Prediction
from transport.protocol.messages import state, torque
from transport.protocol.messages.torque import ContactForce, Solver, TorqueMessage
from transport.server.sessions.session import Accepted, Session


class Timing(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Server clock and budget of one answer [ns]."""

    t_recv: int
    t_send: int
    step_ns: int
    deadline_ns: int
    hold_ns: int


def torque_message(
    session: Session,
    accepted: Accepted,
    command: Command,
    timing: Timing,
    *,
    warm: bool,
) -> TorqueMessage:
    """The reply to an accepted state.

    warm: whether the previous answer was at hand
    """
    joints = session.agreement.joints
    out, request, prediction = joints.torques_on_wire, accepted.message, command.prediction
    return TorqueMessage(
        session=session.id,
        seq=request.seq,
        t_robot=request.t_robot,
        t_recv=timing.t_recv,
        t_send=timing.t_send,
        deadline_met=timing.t_send - timing.t_recv <= timing.deadline_ns,
        valid_until=request.t_robot + timing.hold_ns,
        dry_run=session.agreement.dry_run or (request.flags is not None and request.flags.dry_run),
        tau=out(command.tau),
        tau_ff=out(command.tau_ff),
        tau_fb=out(command.tau_fb),
        limited_by=joints.torques_to_client(command.limited_by).tolist(),
        status=command.mode.value,
        message=command.message,
        ref=None if command.reference is None else _reference(command.reference, out),
        kp=None if command.drive is None else out(command.drive.kp),
        kd=None if command.drive is None else out(command.drive.kd),
        missing=list(command.missing),
        reality=None if command.reality is None else _reality(command.reality),
        contact_force=[] if prediction is None else _contact_forces(prediction),
        solver=None if prediction is None else _solver(prediction, timing.step_ns, warm),
        comm=session.comm.report(),
        watchdog=accepted.watchdog,
    )


def _reference(reference: Reference, out: Callable[[Array], bytes]) -> state.Reference:
    return state.Reference(q=out(reference.q), v=out(reference.v), a=out(reference.a))


def _reality(reality: Disagreement) -> torque.Reality:
    return torque.Reality(motion=reality.motion, force=reality.force)


def _contact_forces(prediction: Prediction) -> list[ContactForce]:
    parts = iter((prediction.p / prediction.dt).tolist())
    rows = zip(prediction.keys, parts, parts, parts, strict=True)
    return [ContactForce(frame=key, fn=fn, ft1=ft1, ft2=ft2) for key, ft1, ft2, fn in rows]


def _solver(prediction: Prediction, step_ns: int, warm: bool) -> Solver:
    residuals = prediction.residuals
    return Solver(
        path=prediction.law,
        rung=prediction.rung,
        iters=prediction.iterations,
        warm=warm,
        time_us=step_ns * 1e-3,
        res_primal=max(residuals.cone, residuals.penetration, residuals.slip),
        res_comp=residuals.complementarity,
        res_dyn=residuals.dynamics,
        res_demand=residuals.demand,
        n_contacts=len(prediction.keys),
        null_dim=prediction.null_dim,
        demand_change=prediction.demand_change,
    )
