"""The torque message: what the controller decided, in the client's order, with all one may want to know about it."""

import msgspec
import numpy as np

from controllers.command import Command
from idyn.compiled import compiled
from idyn.types import Array, ContactSet, Prediction
from transport.messages import ContactForce, Solver, TorqueMessage
from transport.session import Accepted, Session


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
    contacts: ContactSet,
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
        contact_force=[] if prediction is None else _contact_forces(prediction, contacts),
        solver=None if prediction is None else _solver(prediction, contacts, timing.step_ns, warm),
        comm=session.comm.report(),
        watchdog=accepted.watchdog,
    )


def _contact_forces(prediction: Prediction, contacts: ContactSet) -> list[ContactForce]:
    rows = components(prediction.force, contacts.normals, contacts.tangents).tolist()
    return [
        ContactForce(frame=key, fn=fn, ft1=ft1, ft2=ft2)
        for key, (fn, ft1, ft2) in zip(contacts.keys, rows, strict=True)
    ]


def _solver(prediction: Prediction, contacts: ContactSet, step_ns: int, warm: bool) -> Solver:
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
        n_contacts=len(contacts),
        null_dim=prediction.null_dim,
    )


@compiled
def components(forces: Array, normals: Array, tangents: Array) -> Array:
    """World forces along n, s and n × s (n, 3); all arguments (n, 3)."""
    out = np.zeros((len(forces), 3))
    for i in range(len(forces)):
        n, s, f = normals[i], tangents[i], forces[i]
        out[i, 0] = f[0] * n[0] + f[1] * n[1] + f[2] * n[2]
        out[i, 1] = f[0] * s[0] + f[1] * s[1] + f[2] * s[2]
        out[i, 2] = (
            f[0] * (n[1] * s[2] - n[2] * s[1]) + f[1] * (n[2] * s[0] - n[0] * s[2]) + f[2] * (n[0] * s[1] - n[1] * s[0])
        )
    return out
