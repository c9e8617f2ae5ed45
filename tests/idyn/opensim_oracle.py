"""Run by an interpreter that has OpenSim: places, velocities and inverse dynamics of a model at given states.

python opensim_oracle.py MODEL < states.json > answers.json
"""

import json
import sys


def main():
    import opensim  # noqa: PLC0415  (not in this environment)

    opensim.Logger.setLevelString("off")
    model = opensim.Model(sys.argv[1])
    state = model.initSystem()
    coordinates, bodies = model.getCoordinateSet(), model.getBodySet()
    answers = []
    for given in json.load(sys.stdin):
        for name, (q, u, _) in given.items():
            coordinates.get(name).setValue(state, q, False)
            coordinates.get(name).setSpeedValue(state, u)
        model.realizeVelocity(state)
        places = {}
        for k in range(bodies.getSize()):
            body = bodies.get(k)
            both = body.getPositionInGround(state), body.getLinearVelocityInGround(state)
            places[body.getName()] = [[each.get(i) for i in range(3)] for each in both]
        accelerations = opensim.Vector(len(given), 0.0)
        for i, (_, _, a) in enumerate(given.values()):
            accelerations.set(i, a)
        tau = opensim.InverseDynamicsSolver(model).solve(state, accelerations)
        answers.append({"places": places, "tau": {name: tau.get(i) for i, name in enumerate(given)}})
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
