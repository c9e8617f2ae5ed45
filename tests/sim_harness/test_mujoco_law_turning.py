"""The law `mujoco` with friction against turning, the integrator `implicit` and given torques, against MuJoCo itself."""

import msgspec
import mujoco
import numpy as np
import pytest
from fast import every, first_is_fast
from mujoco_steps import DT, FORCE, check, random_step, resisting, turning, world_of

from idyn import Batch, predict, predict_batch
from idyn.laws import make_law
from idyn.laws.mujoco.law import SoftContact
from idyn.options import Options
from idyn.prediction.request import Request
from idyn.prediction.torques import under_torques


def moments_of(world):
    """Contact moments of the last step in the world, by key, about MuJoCo's contact points."""
    found, wrench = {}, np.zeros(6)
    for k in range(world.data.ncon):
        mujoco.mj_contactForce(world.model, world.data, k, wrench)
        place = world.model.geom(int(world.data.contact.geom[k, 1])).name
        assert place.startswith("place")
        found[world.robot.contact_names[int(place.split()[1])]] = wrench[3:] @ world.data.contact.frame[k].reshape(3, 3)
    return found


@every("cone", ["elliptic", "pyramidal"])
@pytest.mark.parametrize("name", first_is_fast(["quadruped", "go2"]))
@every("dim", [6, 4])
def test_friction_against_turning(dim, name, cone):
    """Forces and moments are the world's; those without this friction are not."""
    for impratio in (1.0, 100.0):
        world, contact = turning(name, dim, cone=cone, impratio=impratio)
        law, turned = make_law("mujoco", cone=cone, impratio=impratio, contact=contact), 0.0
        check(world, law, 8)
        for seed in range(8):
            answer, _, _ = random_step(world, law, [4, seed])
            felt = moments_of(world)
            for key, moment in zip(answer.keys, answer.moment, strict=True):
                np.testing.assert_allclose(moment, felt.get(key, 0.0), atol=FORCE * world.robot.weight)
            turned = max(turned, np.abs(answer.moment).max())
        assert turned > 0.1
    point = make_law("mujoco", cone=cone, impratio=100.0)
    assert max(random_step(world, point, [4, seed])[2] for seed in range(8)) > 1.0
    assert random_step(world_of(name, cone=cone), point, [4, 0])[0].moment.shape == (0, 3)


@pytest.mark.parametrize("cone", first_is_fast(["elliptic", "pyramidal"]))
def test_bodies_may_differ_in_friction_against_turning(cone):
    """One foot has condim 6, one 4, one 3, and one no friction."""
    world, dims = world_of("quadruped", cone=cone), (6, 4, 3, 1)
    world.model.pair_friction[:, 2:] = 0.02, 0.01, 0.01
    for row, dim in enumerate(dims):
        world.model.pair(f"pair {row}").dim[:] = dim
    feet = zip(world.robot.contact_names, dims, strict=True)
    own = {foot: SoftContact(condim=dim, spin=0.02, roll=0.01) for foot, dim in feet}
    check(world, make_law("mujoco", cone=cone, contacts=own), 20)


@pytest.mark.parametrize("name", first_is_fast(["quadruped", "go2", "g1"]))
@every("cone", ["elliptic", "pyramidal"])
def test_motion_of_the_integrator_implicit(name, cone):
    """Its step is implicit in Coriolis forces: the law of an explicit step misses the demand, and so does this one there."""
    for dim, ground in ((3, (0.02, 1.0)), (6, (0.005, 1.0))):
        world, contact = turning(name, dim, cone=cone, integrator="implicit", solref=ground)
        contact = msgspec.structs.replace(contact, solref=ground)
        law = make_law("mujoco", cone=cone, integrator="implicit", contact=contact)
        check(world, law, 6)
        explicit = make_law("mujoco", cone=cone, contact=contact)
        assert max(random_step(world, explicit, [0, k])[2] for k in range(3)) > 0.1
    batch = Batch(state=world.state, contacts=world.contacts, q_ddot=np.zeros((2, world.robot.na)))
    single = predict(world.robot, world.state, world.contacts, np.zeros(world.robot.na), law=law, dt=DT)
    assert np.array_equal(predict_batch(world.robot, batch, law=law, dt=DT).tau[1], single.tau)


@every("integrator", ["Euler", "implicit"])
@every("cone", ["elliptic", "pyramidal"])
def test_torque_limits_are_kept_and_forces_stay_those_of_the_world(cone, integrator):
    """A joint at its limit has the acceleration that the limit permits; all others meet the demand. With `implicit` joints have
    damping, dry friction and a range, too."""
    world, limited = world_of("quadruped", cone=cone, integrator=integrator), 0
    world.robot = world.robot.variant(tau_max=dict.fromkeys(world.robot.joint_names, 2.0))
    law = make_law("mujoco", cone=cone, integrator=integrator, joints=resisting(world) if integrator == "implicit" else {})
    for seed in range(20):
        answer, force, acceleration = random_step(world, law, [1, seed])
        held = np.abs(answer.tau) > 2.0 - 1e-8
        limited += held.any()
        assert np.abs(answer.tau).max() <= 2.0 * (1.0 + 1e-9)
        assert answer.torque_excess == 0.0
        assert (answer.demand_change > 0.0) == held.any()
        assert force < FORCE
        assert acceleration < 1e-6
    assert limited >= 5


@pytest.mark.parametrize("cone", first_is_fast(["elliptic", "pyramidal"]))
@pytest.mark.parametrize(("dim", "integrator"), first_is_fast([(6, "implicit"), (3, "Euler")]))
def test_forces_under_given_torques_are_those_of_the_world(dim, integrator, cone):
    """With damping, dry friction and limits of joints."""
    world, contact = turning("quadruped", dim, cone=cone, integrator=integrator)
    law = make_law("mujoco", cone=cone, integrator=integrator, joints=resisting(world), contact=contact)
    robot, rng = world.robot, np.random.default_rng(0)
    for seed in range(8):
        random_step(world, law, [2, seed])
        contacts, tau = world.contacts, rng.normal(size=robot.na)
        request = Request(robot, world.state, contacts, np.zeros(robot.na), law, DT, Options(), None, None, None)
        answer = under_torques(request, tau)
        result = world.step(tau, DT)
        np.testing.assert_allclose(answer.tau, tau, atol=1e-9)
        felt = dict(zip(result.contacts.keys, result.impulse / DT, strict=True))
        for key, force in zip(answer.keys, answer.force, strict=True):
            np.testing.assert_allclose(force, felt.get(key, 0.0), atol=FORCE * robot.weight)
        assert np.abs(world.v - answer.v_plus)[robot.tree.a].max() / DT < 1e-6
