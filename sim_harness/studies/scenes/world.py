"""Worlds of scenes by engine; compliant rows for engines that have rigid rows only.

Compliant rows become implicit springs that are folded into M and force, exact up to rounding.
    λ = −(g + (dt + τ_d) G v⁺) / e
    M  →  M + dt (dt + τ_d) Gᵀ E⁻¹ G            f  →  f − Gᵀ E⁻¹ (g + (dt + τ_d) G v)
The step is solved again until the set of active compliant stops does not change. Typical: one solve.
"""

import msgspec
import numpy as np

from idyn.status import Status
from idyn.types import Array, Record
from sim_harness.engines.engine import CompliantEngine, Engine, ForwardProblem, ForwardSolution, Rows
from sim_harness.mujoco.mujoco_settings import MujocoSettings
from sim_harness.studies.scenes.scene import Scene, SceneWorld
from sim_harness.studies.scenes.scene_settings import SceneSettings
from sim_harness.world.worlds import EngineWorld

ROUNDS = 8  # largest number of solves per step


class FoldingEngine(Record, frozen=True):
    """Adapter that adds compliant rows to an engine with rigid rows."""

    engine: Engine

    def solve(self, problem: ForwardProblem) -> ForwardSolution:
        """Solve with compliant rows folded into M and force; the solution has the impulses of all rows."""
        rows = problem.rows
        if rows is None or not rows.yields.any():
            return self.engine.solve(problem)
        presses = ~rows.stops | (forces(rows, problem.v, problem.dt) > 0.0)
        for _ in range(ROUNDS):
            found = self.engine.solve(fold_rows(problem, rows.yields & presses))
            pressure = forces(rows, found.v_plus, problem.dt)
            before, presses = presses, ~rows.stops | (pressure > 0.0)
            if (presses == before).all():
                break
        else:
            found = found if not found.status.ok else msgspec.structs.replace(found, status=Status.NOT_CERTIFIED)
        impulses = np.where(rows.yields & before, problem.dt * pressure, 0.0)
        if found.rows is not None:
            impulses[~rows.yields] = found.rows
        return msgspec.structs.replace(found, rows=impulses)


def with_compliance(engine: Engine) -> Engine:
    """Return the engine itself if it supports compliant rows, else wrapped in a `FoldingEngine`."""
    return engine if isinstance(engine, CompliantEngine) else FoldingEngine(engine=engine)


def forces(rows: Rows, v: Array, dt: float) -> Array:
    """Return the row forces −(g + (dt + τ_d) G v) / e, 0 for rigid rows [N, N·m] (m)."""
    soft = rows.yields
    out, e = np.zeros(len(soft)), rows.compliance
    if e is not None:
        out[soft] = -(rows.g + (dt + rows.damping_times) * (rows.G @ v))[soft] / e[soft]
    return out


def fold_rows(problem: ForwardProblem, which: Array) -> ForwardProblem:
    """Return the forward problem with compliant rows folded into M and force.
    which: true for the compliant rows to fold; all other compliant rows are removed (m)
    """
    rows, dt = problem.rows, problem.dt
    assert rows is not None
    assert rows.compliance is not None
    G, rigid = rows.G[which], ~rows.yields
    weighed = dt * (dt + rows.damping_times[which]) / rows.compliance[which]
    rest = Rows(G=rows.G[rigid], g=rows.g[rigid], stops=rows.stops[rigid]) if rigid.any() else None
    return msgspec.structs.replace(
        problem,
        M=problem.M + G.T @ (weighed[:, None] * G),
        force=problem.force + G.T @ forces(rows, problem.v, dt)[which],
        rows=rest,
    )


def build_scene(settings: SceneSettings, engine: Engine | MujocoSettings) -> SceneWorld:
    """Return the world of an engine at the scene's start. Raises ConfigError when the engine does not support the scene."""
    scene = Scene(settings)
    if not isinstance(engine, MujocoSettings):
        return EngineWorld(scene, with_compliance(engine))
    from sim_harness.studies.scenes.mujoco_scene import scene_world  # noqa: PLC0415 - an optional package

    return scene_world(scene, engine)
