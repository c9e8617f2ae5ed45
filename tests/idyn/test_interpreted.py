"""The compiled kernels and the same functions as plain Python give the same answers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fast import full
from scenes import DT, LITERAL, random_scene, standing_scene

from idyn.laws import LAWS, make_law
from idyn.options import Options
from idyn.prediction.predict import predict
from idyn.types import Consistency

HERE = Path(__file__).parent


def answers():
    """A loaded stance and a random state under every law, cold, then warm: torques, impulses, velocities, rung and status."""
    found = []
    for scene in (standing_scene("solo12"), random_scene("quadruped", 3, touching=1.0, n=3)):
        for name in LAWS:
            guess = None
            for consistency in (Consistency.PROJECT, Consistency.HOLD):
                answer = predict(
                    scene.robot,
                    scene.state,
                    scene.contacts,
                    scene.q_ddot,
                    law=make_law(name),
                    dt=DT,
                    options=Options.paper(ground=LITERAL, consistency=consistency),
                    guess=guess,
                )
                guess = answer.guess
                found.append(
                    {
                        "what": f"{answer.law}, {answer.rung}, {answer.iterations} steps, {answer.status.name}",
                        "numbers": [*answer.tau, *answer.p, *answer.v_plus, answer.demand_change, answer.residuals.worst],
                    }
                )
    return found


STAND_INS = """
from idyn.jit import compiled, interpret, stand_ins, twins
stand_ins.use_stand_ins(lambda kernel, types: interpret.Interpreted(kernel, types) if twins.has_twin(kernel) else None)
"""
"""All kernels of idyn are interpreted on the memory of the compiled ones, as while another process compiles them."""


@pytest.mark.full
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("variables", "begin"),
    [({"NUMBA_DISABLE_JIT": "1"}, ""), pytest.param({}, STAND_INS, marks=full)],
    ids=["nothing is compiled", "stand-ins"],
)
def test_interpreted_kernels_answer_the_same(variables, begin):
    """In a process in which numba compiles nothing."""
    script = (
        f"import json, sys; sys.path[:0] = {[str(HERE), str(HERE.parent)]}\n{begin}\n"
        "import test_interpreted as t; print(json.dumps(t.answers()))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], env=os.environ | variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    compiled = answers()
    interpreted = json.loads(done.stdout)
    assert [a["what"] for a in interpreted] == [a["what"] for a in compiled]
    for a, b in zip(interpreted, compiled, strict=True):
        scale = max(1.0, np.abs(b["numbers"]).max())
        np.testing.assert_allclose(a["numbers"], b["numbers"], atol=1e-9 * scale)


def test_without_jit_kernels_are_plain_functions():
    script = "from idyn.solvers.lemke import lemke; print(type(lemke).__name__)"
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "function"
