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
    out = session.agreement.joints.torques_to_client
    request = accepted.message
    prediction = command.prediction
    return TorqueMessage(
        session=session.id,
        seq=request.seq,
        t_robot=request.t_robot,
        t_recv=timing.t_recv,
        t_send=timing.t_send,
        deadline_met=timing.t_send - timing.t_recv <= timing.deadline_ns,
        valid_until=request.t_robot + timing.hold_ns,
        dry_run=session.agreement.dry_run or (request.flags is not None and request.flags.dry_run),
        tau=out(command.tau).tobytes(),
        tau_ff=out(command.tau_ff).tobytes(),
        tau_fb=out(command.tau_fb).tobytes(),
        limited_by=out(command.limited_by).tolist(),
        status=command.mode.value,
        message=command.message,
        ref=None if command.reference is None else _reference(command.reference, out),
        kp=None if command.drive is None else out(command.drive.kp).tobytes(),
        kd=None if command.drive is None else out(command.drive.kd).tobytes(),
        missing=list(command.missing),
        reality=None if command.reality is None else _reality(command.reality),
        contact_force=[] if prediction is None else _contact_forces(prediction),
        solver=None if prediction is None else _solver(prediction, timing.step_ns, warm),
        comm=session.comm.report(),
        watchdog=accepted.watchdog,
    )


def _reference(reference: Reference, out: Callable[[Array], Array]) -> state.Reference:
    q, v, a = (out(part).tobytes() for part in (reference.q, reference.v, reference.a))
    return state.Reference(q=q, v=v, a=a)


def _reality(reality: Disagreement) -> torque.Reality:
    return torque.Reality(motion=reality.motion, force=reality.force)


def _contact_forces(prediction: Prediction) -> list[ContactForce]:
    rows = (prediction.p / prediction.dt).reshape(-1, 3).tolist()
    return [ContactForce(frame=key, fn=fn, ft1=ft1, ft2=ft2) for key, (ft1, ft2, fn) in zip(prediction.keys, rows, strict=True)]


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
