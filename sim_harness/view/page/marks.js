// Marks that can be switched on: friction cones, footholds, the path of the base, and the centre of mass.
const MARKS = ["cones", "footholds", "path", "centre"];
const MARK_COLOURS = { cones: 0x2b8a3e, footholds: 0x9c36b5, path: 0x343a40, centre: 0xf08c00 };
const LAST = 3;        // footholds that are shown of each contact
const LIFTED = 2;      // frames without force before a touchdown
const STEEPEST = 100;  // larger friction coefficients have no cone

// Return all touchdowns of a film in order: { frame, place }. A contact that carries from the first frame on has touched down there.
function touchdowns(film, places) {
  const forces = film.known ? film.world : film.predicted;
  const found = [];
  const lifted = new Array(places).fill(LIFTED);
  for (let frame = 0; frame < film.t.length; frame++) {
    for (let place = 0; place < places; place++) {
      const i = 3 * (frame * places + place);
      const carries = forces[i] || forces[i + 1] || forces[i + 2];
      if (carries && lifted[place] >= LIFTED) found.push({ frame, place });
      lifted[place] = carries ? 0 : lifted[place] + 1;
    }
  }
  return found;
}

function unlit(colour, opacity) {
  return new THREE.MeshBasicMaterial({
    color: colour, transparent: opacity < 1, opacity, side: THREE.DoubleSide, depthWrite: opacity === 1,
  });
}

class Marks {
  constructor({ base, size, places, grounded }, film) {
    Object.assign(this, { film, base, size, count: places.length, grounded });
    this.group = new THREE.Group();
    this.touchdowns = touchdowns(film, places.length);
    // A cone with its tip at the origin that opens along z; its radius is scaled by the friction coefficient.
    const height = 0.35 * size;
    const cone = new THREE.ConeGeometry(height, height, 32, 1, true).rotateX(-Math.PI / 2).translate(0, 0, 0.5 * height);
    const disc = new THREE.CylinderGeometry(0.05 * size, 0.05 * size, 0.006 * size, 24).rotateX(Math.PI / 2);
    this.cones = places.map(() => new THREE.Mesh(cone, unlit(MARK_COLOURS.cones, 0.25)));
    this.footholds = Array.from({ length: LAST * places.length }, () => new THREE.Mesh(disc, unlit(MARK_COLOURS.footholds, 0.8)));
    const onTop = { depthTest: false, transparent: true };
    this.centre = new THREE.Mesh(new THREE.SphereGeometry(0.05 * size, 24, 16), Object.assign(unlit(MARK_COLOURS.centre, 1), onTop));
    this.centre.renderOrder = 1;
    this.path = new THREE.Line(this.points(), new THREE.LineBasicMaterial({ color: MARK_COLOURS.path, ...onTop }));
    this.path.frustumCulled = false;
    this.group.add(...this.cones, ...this.footholds, this.centre, this.path);
  }

  points() {
    const { poses, joints, t } = this.film;
    const points = new Float32Array(3 * t.length);
    for (let k = 0; k < t.length; k++) for (let i = 0; i < 3; i++) points[3 * k + i] = poses[7 * (k * joints + this.base) + i];
    return new THREE.BufferGeometry().setAttribute("position", new THREE.BufferAttribute(points, 3));
  }

  // Show the marks of a frame. wanted: which of `MARKS` are switched on
  show(frame, wanted) {
    const { film, count } = this;
    this.path.visible = wanted.path && film.t.length > 1;
    this.path.geometry.setDrawRange(0, frame + 1);
    this.centre.visible = wanted.centre;
    this.centre.position.fromArray(film.centre, 3 * frame);
    for (const [place, cone] of this.cones.entries()) {
      const i = frame * count + place;
      const carries = ["world", "predicted"].some((kind) => [0, 1, 2].some((k) => film[kind][3 * i + k]));
      const mu = film.friction[i];
      cone.visible = wanted.cones && carries && mu > 0 && mu < STEEPEST;
      if (cone.visible) this.stand(cone, frame, place).scale.set(mu, mu, 1);
    }
    this.footholds.forEach((disc) => { disc.visible = false; });
    if (wanted.footholds) for (const [k, { frame: since, place }] of this.recent(frame).entries()) {
      this.stand(this.footholds[k], since, place).visible = true;
    }
  }

  // Return the last touchdowns of each contact with the ground until a frame.
  recent(frame) {
    const past = this.touchdowns.filter((one) => one.frame <= frame && one.place < this.grounded);
    return past.filter((one, k) => past.slice(k + 1).filter((later) => later.place === one.place).length < LAST);
  }

  // Put an object on the contact point, with its z axis along the normal.
  stand(object, frame, place) {
    const i = 3 * (frame * this.count + place);
    object.position.fromArray(this.film.points, i);
    object.quaternion.setFromUnitVectors(Z, new THREE.Vector3().fromArray(this.film.normals, i));
    return object;
  }
}
