"""Shapes of a robot: primitives and meshes placed as in Pinocchio, and substitutes for missing files."""

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import trimesh
from fast import every, first_is_fast, full

from controllers.config.loading import find, load
from controllers.robot.load import RobotSettings, load_robot, urdf_path
from idyn.errors import ConfigError
from idyn.model.description import Description
from idyn.model.robot import Robot
from sim_harness.shapes import Mesh, load_meshes, look_of, thinned


def folders_of(name):
    urdf = load("robots", name, RobotSettings).urdf
    return list(urdf_path(urdf, find("robots", name).parent).parents)


def models_of(robot, folders):
    """Pinocchio's own model and geometry of the visuals."""
    root = [pin.JointModelFreeFlyer()] if robot.floating else []
    model = pin.buildModelFromXML(robot.description.urdf, *root)
    return model, pin.buildGeomFromUrdfString(
        model, robot.description.urdf, pin.GeometryType.VISUAL, package_dirs=list(map(str, folders))
    )


@every("name", ["quadruped", "arm"])
def test_primitives_are_where_pinocchio_places_them(name):
    robot, stance = load_robot(name)
    look = look_of(robot, folders_of(name))
    model, geometry = models_of(robot, folders_of(name))
    data, places = model.createData(), geometry.createData()
    q = robot.integrate(stance, np.random.default_rng(2).normal(0.0, 0.3, robot.nv))
    pin.updateGeometryPlacements(model, data, geometry, places, q)
    assert look.note == ""
    assert len(look.shapes) == geometry.ngeoms
    for shape, item, place in zip(look.shapes, geometry.geometryObjects, places.oMg, strict=True):
        ours = data.oMi[shape.joint] * pin.XYZQUATToSE3(shape.placement)
        np.testing.assert_allclose(ours.homogeneous, place.homogeneous, atol=1e-12)
        np.testing.assert_allclose(shape.colour, item.meshColor[:3], atol=1e-3)
        item.geometry.computeLocalAABB()
        box = item.geometry.aabb_local
        extent = {"box": lambda s: s, "sphere": lambda s: [2 * s[0]] * 3, "cylinder": lambda s: [2 * s[0], 2 * s[0], s[1]]}
        np.testing.assert_allclose(extent[shape.kind](shape.size), box.max_ - box.min_, atol=1e-12)


@full
@pytest.mark.parametrize("name", first_is_fast(["solo12", "a1", "go2"]))
def test_meshes_have_the_extents_of_pinocchios(name):
    """Shape by shape in the joint's frame: the same extents, and no triangle longer than they are."""
    robot, _ = load_robot(name)
    look = look_of(robot, folders_of(name))
    _, geometry = models_of(robot, folders_of(name))
    assert look.note == ""
    meshes = [item for item in geometry.geometryObjects if Path(item.meshPath).is_file()]
    theirs = {joint: [] for joint in {item.parentJoint for item in meshes}}
    for item in meshes:
        theirs[item.parentJoint].append([item.placement.act(v) for v in item.geometry.vertices()])
    for joint, parts in theirs.items():
        shapes = [shape for shape in look.shapes if shape.joint == joint and shape.kind == "mesh"]
        ours = np.vstack([[pin.XYZQUATToSE3(s.placement).act(v) for v in s.mesh.vertices] for s in shapes])
        expected = np.vstack(parts)
        np.testing.assert_allclose(ours.min(axis=0), expected.min(axis=0), atol=1e-3)
        np.testing.assert_allclose(ours.max(axis=0), expected.max(axis=0), atol=1e-3)


@full
def test_equal_mesh_files_are_stored_once():
    shapes = look_of(load_robot("a1")[0], folders_of("a1")).shapes
    assert len({id(shape.mesh) for shape in shapes if shape.mesh is not None}) < sum(shape.kind == "mesh" for shape in shapes)


@full
def test_a_file_of_several_materials_keeps_its_colours():
    """The black rubber and the white shell of a go2, whose URDF calls everything white."""
    shapes = look_of(load_robot("go2")[0], folders_of("go2")).shapes
    brightness = [max(shape.colour) for shape in shapes]
    assert min(brightness) < 0.1
    assert max(brightness) > 0.9


def test_without_mesh_files_collision_shapes_are_drawn_and_reported():
    look = look_of(load_robot("a1")[0], [])
    assert {shape.kind for shape in look.shapes} <= {"box", "sphere", "cylinder"}
    assert len(look.shapes) > 10
    assert "visual shapes" in look.note


def test_a_robot_without_shapes_is_drawn_as_sticks():
    robot, _ = load_robot("solo12")  # all its shapes are meshes
    look = look_of(robot, [])
    assert "collision shapes" in look.note
    assert len(look.shapes) == 3 * 4 + 4  # to the joints of each leg, and to its foot
    tips = [pin.XYZQUATToSE3(s.placement).act(np.array([0, 0, s.size[1] / 2])) for s in look.shapes]
    model = pin.buildModelFromXML(robot.description.urdf, pin.JointModelFreeFlyer())
    ends = [np.array(place.translation) for place in list(model.jointPlacements)[2:]] + list(robot.spheres.offsets)
    np.testing.assert_allclose(tips, ends, atol=1e-12)


CAPSULE = """
<robot name="capsule"><link name="a"><inertial><mass value="1"/>
<inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
<collision><origin xyz="0 0.1 0"/><geometry><cylinder radius="0.1" length="0.5"/></geometry></collision></link></robot>
"""


def test_a_urdf_without_visuals_shows_its_collision_shapes():
    look = look_of(Robot(Description(urdf=CAPSULE)), [])
    assert look.note == "the URDF has no visual shapes"
    (shape,) = look.shapes
    assert (shape.kind, shape.size, shape.joint) == ("cylinder", (0.1, 0.5), 1)
    np.testing.assert_allclose(shape.placement, [0, 0.1, 0, 0, 0, 0, 1])


@full
def test_thinning_keeps_the_shape():
    """A ball of 80 000 triangles: still a ball of the same size, turned the same way out."""
    ball = trimesh.creation.icosphere(subdivisions=6, radius=0.1)
    mesh = Mesh(vertices=np.array(ball.vertices), triangles=np.array(ball.faces))
    thin = thinned(mesh, 5000)
    assert 1000 < len(thin.triangles) <= 5000
    again = trimesh.Trimesh(thin.vertices, thin.triangles)
    assert again.volume == pytest.approx(ball.volume, rel=0.03)
    np.testing.assert_allclose(np.linalg.norm(thin.vertices, axis=1), 0.1, atol=2e-3)
    assert thinned(mesh, 10**6) is mesh


def test_a_mirrored_mesh_keeps_outward_faces(tmp_path):
    path = tmp_path / "box.stl"
    trimesh.creation.box((0.1, 0.2, 0.3)).apply_translation((1.0, 0.0, 0.0)).export(path)
    ((mesh, colour),) = load_meshes(path, np.array([-1.0, 1.0, 2.0]))
    assert colour is None
    again = trimesh.Trimesh(mesh.vertices, mesh.triangles)
    assert again.volume == pytest.approx(0.012)
    np.testing.assert_allclose(again.centroid, [-1.0, 0.0, 0.0], atol=1e-9)


def test_an_invalid_mesh_file_is_named(tmp_path):
    path = tmp_path / "torn.stl"
    path.write_bytes(b"solid nothing")
    with pytest.raises(ConfigError, match=r"torn\.stl"):
        load_meshes(path, np.ones(3))
