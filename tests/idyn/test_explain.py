"""Forces from motion: they obey friction, supply what Newton's laws require, and are near what force plates measured."""

import numpy as np
import pytest
from measured import measured
from osim_models import person
from scipy.optimize import minimize

from idyn.errors import FrameNotFound, InputError, ModelError
from idyn.explain.cadence import STEPS, cadence_of, pace_of, scaled
from idyn.explain.distribution import Distribution, distribute
from idyn.explain.explanation import WALKING, Settings, centre_of_pressure, explain, force_table, load_walker, moment_table
from idyn.explain.frames import frames_of, joint_forces, motion_of
from idyn.explain.predicted import Softness, predict_forces
from idyn.explain.soles import Soles, feet_of
from idyn.motion.plates import even_rate, plates_of
from idyn.motion.smoothing import Filter
from idyn.motion.storage import Table, read_table

INNER = slice(4, 69)
"""Frames of the walk without the ends of the filter."""

G = 9.80665
RNG = np.random.default_rng(31)


@pytest.fixture(scope="module")
def man(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "person.osim"
    path.write_text(person())
    return load_walker(path)


def table(man, count=40, **moves):
    """A motion of the person. moves: coordinate → function of time; the others are 0, the soles on the ground"""
    time = np.arange(count) / 60.0
    columns = {name: np.zeros(count) for name in man.coordinates.names} | {"trunk_ty": np.full(count, 0.954)}
    return Table(time, columns | {name: function(time) for name, function in moves.items()}, False)


@pytest.fixture(scope="module")
def walk():
    folder = measured("human-walk")
    plates = read_table(folder / "walk_grf.mot")
    motion = read_table(folder / "walk_ik.mot")
    wrenches = [plate.wrench(motion.time, np.eye(3)) for plate in plates_of(plates, even_rate(plates.time))]
    return folder, load_walker(folder / "subject01.osim"), motion, np.stack(wrenches)


# -- distribution -------------------------------------------------------------------------------------------------


def corners(rise=0.0):
    points = np.array([[x, y, 0.0] for x in (-0.03, 0.25) for y in (-0.15, -0.05, 0.05, 0.15)])
    return points + np.array([0.0, 0.0, rise])


CENTRE = np.array([0.1, 0.0, 1.0])


def wrench_about(points, forces, centre):
    return np.append(forces.sum(axis=0), np.cross(points - centre, forces).sum(axis=0))


def test_a_wrench_that_the_feet_can_supply_is_supplied_inside_friction():
    settings = Distribution(mu=0.5)
    for _ in range(20):
        vertical = RNG.uniform(20, 200, 8)
        forces = np.column_stack([*RNG.uniform(-0.2, 0.2, (2, 8)) * vertical, vertical])
        required = wrench_about(corners(), forces, CENTRE)
        found = distribute(corners(), np.zeros(8), required, CENTRE, settings)
        np.testing.assert_allclose(wrench_about(corners(), found, CENTRE), required, atol=2e-4 * vertical.sum())
        assert (found[:, 2] >= 0.0).all()
        assert (np.hypot(found[:, 0], found[:, 1]) <= 0.5 * found[:, 2] + 1e-9).all()


def test_a_wrench_out_of_reach_is_approached_as_nearly_as_by_a_general_minimiser():
    """A moment that would need pulling: SLSQP over cone forces of four edges cannot come nearer."""
    points, required = corners()[::2], np.array([50.0, 0.0, 700.0, 0.0, 200.0, 5.0])
    settings = Distribution(mu=0.6, edges=4)
    found = distribute(points, np.zeros(4), required, CENTRE, settings)
    error = np.linalg.norm(wrench_about(points, found, CENTRE) - required)
    edges = np.array([[0.6, 0, 1], [0, 0.6, 1], [-0.6, 0, 1], [0, -0.6, 1.0]])

    def misfit(weights):
        forces = weights.reshape(4, 4) @ edges
        return np.sum((wrench_about(points, forces, CENTRE) - required) ** 2) / 1e4

    other = minimize(misfit, np.full(16, 40.0), bounds=[(0, None)] * 16, options={"maxiter": 2000})
    assert error > 10.0
    assert error <= 100.0 * np.sqrt(other.fun) * (1 + 1e-3)


def test_feet_apart_push_against_each_other_where_forces_point_to_the_centre_of_mass():
    """Front foot brakes, rear foot pushes; least forces would leave both vertical."""
    points = np.array([[-0.4, 0.0, 0.0], [0.4, 0.0, 0.0]])
    required = np.array([0.0, 0.0, 700.0, 0.0, 0.0, 0.0])
    centre = np.array([0.0, 0.0, 1.0])
    along = distribute(points, np.zeros(2), required, centre, Distribution(along=0.0, edges=16))
    np.testing.assert_allclose(along[:, 0], [0.4 * 350, -0.4 * 350], rtol=1e-3)
    least = distribute(points, np.zeros(2), required, centre, Distribution(along=1.0))
    np.testing.assert_allclose(least[:, 0], 0.0, atol=1.0)


def test_raised_points_carry_less_and_no_points_nothing():
    heights = np.repeat([0.0, 0.03], 4)
    found = distribute(corners(), heights, np.array([0, 0, 700.0, 0, 0, 0]), CENTRE, Distribution(fade=0.005))
    even = distribute(corners(), np.zeros(8), np.array([0, 0, 700.0, 0, 0, 0]), CENTRE, Distribution())
    assert found[4:, 2].sum() < even[4:, 2].sum()
    assert distribute(np.zeros((0, 3)), np.zeros(0), np.ones(6), CENTRE, Distribution()).shape == (0, 3)


@pytest.mark.parametrize(
    ("kind", "settings", "field"),
    [(Distribution, {"mu": 0.0}, "distribution.mu"), (Distribution, {"edges": 3}, "distribution.edges"),
     (Distribution, {"along": 1.5}, "distribution.along"), (Softness, {"share": float("nan")}, "softness.share"),
     (Soles, {"heel": (np.nan, 0.0)}, "soles.heel")],
)  # fmt: skip
def test_settings_are_checked(kind, settings, field):
    with pytest.raises(InputError, match=rf"{field}: expected"):
        kind(**settings)


# -- a person without measurements --------------------------------------------------------------------------------


def test_a_person_who_stands_still_is_carried(man):
    """Both ways: the weight, half on each foot, the centre of pressure below the centre of mass, no residual."""
    weight = man.robot.weight
    for found in (explain(man, table(man)), predict_forces(man, table(man))):
        total = found.wrenches.sum(axis=0)
        np.testing.assert_allclose(total[:, 1], weight, rtol=2e-2)
        np.testing.assert_allclose(found.force("calcn_r")[:, 1], 0.5 * total[:, 1], rtol=1e-3)
    found = explain(man, table(man))
    assert np.abs(found.residual).max() < 1e-3 * weight
    x = man.robot.center_of_mass(np.array([0.0] * man.robot.nv))[0]
    np.testing.assert_allclose(found.pressure("calcn_l")[0][:, 0], x, atol=2e-3)


def test_a_person_on_a_belt_or_a_moving_floor_feels_the_same(man):
    """Galilei: a constant velocity changes nothing, and is found as the belt's."""
    as_is = Settings(filter=Filter(cutoff=np.inf))
    rest = explain(man, table(man), as_is)
    moved = explain(man, table(man, trunk_tx=lambda t: -1.2 * t, trunk_tz=lambda t: 0.3 * t), as_is)
    np.testing.assert_allclose(moved.belt, [-1.2, 0.0, 0.3], atol=1e-6)
    np.testing.assert_allclose(moved.wrenches[:, :, :3], rest.wrenches[:, :, :3], atol=1e-3)


def test_a_trunk_that_rocks_on_feet_that_stick_is_predicted_as_explained(man):
    """Hips turn against the trunk, so that the feet rest: then the base's acceleration follows from the joints'."""
    settings = Settings(filter=Filter(cutoff=np.inf))
    rock = {
        name: (lambda t, s=s: s * 0.05 * np.sin(2 * np.pi * t)) for name, s in (("trunk_tilt", 1), ("hip_r", -1), ("hip_l", -1))
    }
    stiff = Softness(share=1e-6, smooth=np.inf)
    predicted = predict_forces(man, table(man, **rock), stiff, settings).wrenches.sum(axis=0)
    explained = explain(man, table(man, **rock), settings).wrenches.sum(axis=0)
    assert np.ptp(explained[:, 0]) > 15.0
    np.testing.assert_allclose(predicted[:, :3], explained[:, :3], atol=2e-3 * man.robot.weight)
    np.testing.assert_allclose(predicted[:, 5], explained[:, 5], atol=2e-3 * man.robot.weight)


def test_columns_of_states_name_their_coordinates(man):
    plain = table(man)
    states = Table(plain.time, {f"/jointset/any/{name}/value": column for name, column in plain.columns.items()}, False)
    np.testing.assert_array_equal(explain(man, states).wrenches, explain(man, plain).wrenches)


def test_in_flight_nothing_carries_and_the_residual_is_what_is_missing(man):
    found = explain(man, table(man, trunk_ty=lambda t: 0.954 + 0.3 + 0.0 * t), Settings(floor=0.0))
    assert (found.wrenches == 0.0).all()
    np.testing.assert_allclose(found.residual[:, 1], man.robot.weight, rtol=1e-6)


def test_a_foot_that_lands_fast_carries_what_is_required(man):
    """No point is slow, in a hop at 1 m/s: the residual is small while the feet are near the floor."""
    hop = table(man, 60, trunk_ty=lambda t: 1.0 + 0.03 * np.sin(2 * np.pi * 4.0 * t))
    found = explain(man, hop, Settings(filter=Filter(cutoff=np.inf), floor=0.0))
    required = found.wrenches[..., 1].sum(axis=0) + found.residual[:, 1]
    np.testing.assert_allclose(found.wrenches[..., 1].sum(axis=0), np.maximum(required, 0.0), atol=0.03 * man.robot.weight)
    assert required.max() > 2.0 * man.robot.weight


def test_motions_and_models_that_do_not_fit_are_refused(man):
    short = table(man)
    del short.columns["hip_r"]
    with pytest.raises(InputError, match="motion: no column 'hip_r'"):
        explain(man, short)
    with pytest.raises(FrameNotFound, match="no frame named 'foot'"):
        explain(man, table(man), Settings(soles=Soles(feet=(("foot", "toes_r"),))))


def test_a_ground_frame_without_y_up_is_refused(tmp_path):
    path = tmp_path / "tilted.osim"
    for gravity in ("0 0 -9.81", "0 9.81 0", "0 0 0"):
        path.write_text(person().replace("0 -9.80665 0", gravity))
        with pytest.raises(ModelError, match=r"tilted\.osim: gravity: expected a vector along −y"):
            load_walker(path)


def test_forces_are_written_as_plates_that_are_read_again(man):
    """Force, point and free moment give back the wrench of each foot."""
    found = explain(man, table(man))
    for plate, foot, wrench in zip(plates_of(force_table(found)), found.feet, found.wrenches, strict=True):
        assert plate.name == f"ground_force_{foot}_"
        np.testing.assert_allclose(plate.wrench(found.time, np.eye(3)), wrench, atol=1e-6 * man.robot.weight)
    assert tuple(moment_table(found).columns) == man.coordinates.names


def test_pressure_and_free_moment_come_back():
    point, free, force = np.array([0.3, -0.01, 0.12]), 4.0, np.array([30.0, 600.0, -20.0])
    wrench = np.append(force, np.cross(point, force) + np.array([0.0, free, 0.0]))
    rows = np.stack([wrench, 0.01 * wrench])
    centre, moment = centre_of_pressure(rows, -0.01)
    np.testing.assert_allclose(centre[0], point)
    assert moment[0] == pytest.approx(free)
    assert np.isnan(centre[1]).all()


def test_cadence_is_found_in_a_noisy_rise_and_scales_the_filter(man):
    """One and a half strides of a runner, with a slope, a stride's asymmetry and noise; no steps: the usual cadence."""
    t = np.arange(80) / 60.0
    rise = 0.9 + 0.04 * np.cos(2 * np.pi * 2.8 * t) + 0.01 * np.cos(2 * np.pi * 1.4 * t) + 0.02 * t
    assert cadence_of(t, rise + RNG.normal(scale=0.002, size=80)) == pytest.approx(2.8, abs=0.06)
    assert cadence_of(t, np.full(80, 0.9)) == STEPS
    hop = table(man, 80, trunk_ty=lambda t: 0.954 + 0.02 * np.cos(2 * np.pi * 2.0 * STEPS * t))
    assert pace_of(*man, hop) == pytest.approx(2.0, abs=0.05)
    as_found, by_hand = explain(man, hop), explain(man, hop, Settings(filter=scaled(WALKING, pace_of(*man, hop))))
    np.testing.assert_array_equal(as_found.wrenches, by_hand.wrenches)


# -- the walk -----------------------------------------------------------------------------------------------------


def test_residuals_and_moments_with_measured_forces_are_those_of_opensim(walk):
    """Residual forces to 0.2 N in every frame, joint moments to 0.2 % of their ranges; with OpenSim's filter."""
    folder, walker, motion_table, wrenches = walk
    robot, coordinates = walker
    motion = motion_of(motion_table, coordinates, Filter())
    feet = feet_of(robot, Soles())
    frames = frames_of(robot, coordinates.root, feet, motion)
    world = np.concatenate([wrenches[..., :3] @ coordinates.ground.T, wrenches[..., 3:] @ coordinates.ground.T], axis=-1)
    tau = joint_forces(robot, frames, tuple(foot.joint for foot in feet), world.transpose(1, 0, 2))
    found = dict(zip(coordinates.names, coordinates.moments(motion.values, tau).T, strict=True))
    wanted = read_table(folder / "walk_inverse_dynamics.sto").columns
    for name in ("pelvis_tx", "pelvis_ty", "pelvis_tz"):
        np.testing.assert_allclose(found[name], wanted[f"{name}_force"], rtol=0, atol=0.2)
    moments = [name for name in coordinates.names if not name.startswith(("pelvis_t", "mtp")) or name == "pelvis_tilt"]
    for name in moments:
        error = np.abs(found[name] - wanted[f"{name}_moment"]).max()
        assert error < 0.002 * np.ptp(wanted[f"{name}_moment"]), name


def test_required_forces_are_the_change_of_momentum(walk):
    """Of the centre of mass, differentiated numerically."""
    _, walker, motion_table, _ = walk
    found = explain(walker, motion_table)
    motion = motion_of(motion_table, walker.coordinates, WALKING)
    centre = np.array([walker.robot.center_of_mass(q) for q in motion.q]) @ walker.coordinates.ground
    dt = float(np.diff(motion.time).mean())
    acceleration = np.gradient(np.gradient(centre, dt, axis=0), dt, axis=0)
    total = found.wrenches.sum(axis=0)[:, :3] + found.residual[:, :3]
    error = total - walker.robot.total_mass * (acceleration + np.array([0.0, G, 0.0]))
    assert np.sqrt(np.mean(error[INNER] ** 2)) < 0.02 * walker.robot.weight


def nrmse(found, wanted):
    return float(np.sqrt(np.mean((found - wanted) ** 2)) / np.ptp(wanted))


def test_forces_that_explain_the_walk_are_near_the_plates(walk):
    """Frames 4 to 68; per foot while its plate has more than 20 N; errors by the range of the measured force."""
    _, walker, motion, plates = walk
    found = explain(walker, motion)
    total, measured_total = found.wrenches.sum(axis=0)[INNER], plates.sum(axis=0)[INNER]
    assert nrmse(total[:, 1], measured_total[:, 1]) <= 0.09
    assert np.corrcoef(total[:, 0], measured_total[:, 0])[0, 1] >= 0.95
    assert np.sqrt(np.mean((total - measured_total)[:, 2] ** 2)) <= 0.03 * walker.robot.weight
    for foot in range(2):
        stands = plates[foot, INNER, 1] > 20.0
        one, other = found.wrenches[foot, INNER][stands], plates[foot, INNER][stands]
        assert nrmse(one[:, 1], other[:, 1]) <= 0.045
        assert nrmse(one[:, 0], other[:, 0]) <= 0.08
    np.testing.assert_allclose(found.belt, [-1.137, 0.0, 0.0], atol=0.02)


def test_forces_from_joint_accelerations_alone_are_near_the_plates(walk):
    """On the second half, of which no parameter was chosen for this prediction's softness."""
    _, walker, motion, plates = walk
    found = predict_forces(walker, motion).wrenches.sum(axis=0)
    half = slice(37, 69)
    range_of_all = np.ptp(plates.sum(axis=0)[INNER, 1])
    error = np.sqrt(np.mean((found - plates.sum(axis=0))[half, 1] ** 2))
    assert error <= 0.15 * range_of_all
