// Ground, robot and arrows as three.js objects. Lengths in m, world frame with z up.
"use strict";
const THREE = MeshCat.THREE;
const COLOURS = { world: 0xe8590c, predicted: 0x1971c2 };
const Z = new THREE.Vector3(0, 0, 1);

const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
const floats = (text) => new Float32Array(bytes(text));
const integers = (text) => new Uint32Array(bytes(text));

// Return one group for each joint of a robot, with its shapes.
function makeRobot(robot, joints) {
  const meshes = robot.meshes.map((mesh) => {
    const geometry = new THREE.BufferGeometry();
    geometry.setAttribute("position", new THREE.BufferAttribute(floats(mesh.vertices), 3));
    geometry.setIndex(new THREE.BufferAttribute(integers(mesh.triangles), 1));
    return geometry;
  });
  const geometries = {
    box: (size) => new THREE.BoxGeometry(...size),
    sphere: ([radius]) => new THREE.SphereGeometry(radius, 24, 16),
    cylinder: ([radius, length]) => new THREE.CylinderGeometry(radius, radius, length, 24).rotateX(Math.PI / 2),
  };
  const groups = Array.from({ length: joints }, () => new THREE.Group());
  for (const shape of robot.shapes) {
    const geometry = shape.kind === "mesh" ? meshes[shape.mesh] : geometries[shape.kind](shape.size);
    const material = new THREE.MeshStandardMaterial({
      color: new THREE.Color(...shape.colour), roughness: 0.65, metalness: 0.05, flatShading: shape.kind === "mesh",
      side: THREE.DoubleSide, transparent: shape.opacity < 1, opacity: shape.opacity, depthWrite: shape.opacity === 1,
    });
    const object = new THREE.Mesh(geometry, material);
    place(object, shape.placement, 0);
    object.castShadow = object.receiveShadow = shape.opacity === 1;
    groups[shape.joint].add(object);
  }
  return groups;
}

function place(object, numbers, at) {
  object.position.fromArray(numbers, at);
  object.quaternion.fromArray(numbers, at + 3);
}

// Return the ground as a surface with grid lines every 10 cm.
function makeGround(ground) {
  const [x, y, z] = [floats(ground.x), floats(ground.y), floats(ground.z)];
  const points = new Float32Array(3 * x.length * y.length);
  const triangles = [];
  const lines = [];
  const even = (value) => Math.abs(value * 10 - Math.round(value * 10)) < 1e-3;
  for (let i = 0; i < x.length; i++) {
    for (let j = 0; j < y.length; j++) {
      const k = i * y.length + j;
      points.set([x[i], y[j], z[k]], 3 * k);
      if (i > 0 && j > 0) triangles.push(k - y.length - 1, k - 1, k, k - y.length - 1, k, k - y.length);
      if (i > 0 && even(y[j])) lines.push(k - y.length, k);
      if (j > 0 && (even(x[i]) || x[i] === x[i - 1] || x[i] === x[i + 1])) lines.push(k - 1, k);
    }
  }
  const position = new THREE.BufferAttribute(points, 3);
  const surface = new THREE.BufferGeometry().setAttribute("position", position).setIndex(triangles);
  surface.computeVertexNormals();
  const grid = new THREE.BufferGeometry().setAttribute("position", position).setIndex(lines);
  const group = new THREE.Group();
  const material = new THREE.MeshStandardMaterial({
    color: 0xe6ebef, roughness: 1, flatShading: true, side: THREE.DoubleSide,
    polygonOffset: true, polygonOffsetFactor: 1, polygonOffsetUnits: 1,
  });
  const floor = new THREE.Mesh(surface, material);
  floor.receiveShadow = true;
  group.add(floor, new THREE.LineSegments(grid, new THREE.LineBasicMaterial({ color: 0xaab5bf })));
  return group;
}

// An arrow along z. Its length follows the force, its thickness is constant. The robot does not hide it.
class Arrow extends THREE.Group {
  constructor(colour, thickness) {
    super();
    const material = new THREE.MeshBasicMaterial({ color: colour, depthTest: false, transparent: true, opacity: 0.9 });
    const shaft = new THREE.CylinderGeometry(thickness, thickness, 1, 12).rotateX(Math.PI / 2).translate(0, 0, 0.5);
    const head = new THREE.ConeGeometry(2.4 * thickness, 1, 16).rotateX(Math.PI / 2).translate(0, 0, 0.5);
    this.shaft = new THREE.Mesh(shaft, material);
    this.head = new THREE.Mesh(head, material);
    this.headLength = 6 * thickness;
    this.renderOrder = this.shaft.renderOrder = this.head.renderOrder = 1;
    this.add(this.shaft, this.head);
  }

  // Draw the arrow from a point, with a length [m] along a unit vector.
  point(from, direction, length) {
    this.visible = length > 1e-4;
    if (!this.visible) return;
    this.length = length;
    this.position.copy(from);
    this.quaternion.setFromUnitVectors(Z, direction);
    const head = Math.min(this.headLength, length);
    this.shaft.scale.z = Math.max(length - head, 1e-6);
    this.head.scale.z = head;
    this.head.position.z = length - head;
  }
}
