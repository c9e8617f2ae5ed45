// The player: time, camera, and the table of forces.
const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
window.addEventListener("error", (event) => { at("note").textContent = `This page cannot be shown: ${event.message}`; });
const viewer = new MeshCat.Viewer(at("pane"), false);  // renderer, scene, orbiting camera
const KINDS = ["world", "predicted"];
const GHOST = 0.35;   // opacity of the second robot
const plots = new Plots(at("plots"), (moment) => { play(false); show(moment); });
let run = null;       // the run that is shown
let time = 0;
let playing = true;
let seen = true;      // whether the page is visible

function prepare() {
  viewer.gui.domElement.remove();
  for (const path of ["Grid", "Axes", "Lights", "Background"]) viewer.set_property([path], "visible", false);
  viewer.camera.fov = 35;
  viewer.controls.maxPolarAngle = 0.6 * Math.PI;
  viewer.scene.add(new THREE.HemisphereLight(0xffffff, 0xaab4be, 0.64));
  at("with").add(new Option("–", ""));
  for (const [i, one] of data.runs.entries()) for (const id of ["run", "with"]) at(id).add(new Option(one.label, i));
  at("with").value = data.beside ?? "";
  at("choice").hidden = at("second").hidden = data.runs.length < 2;
  for (const id of ["play", "time", "pace"]) at(id).hidden = data.live;
  at("with-plots").hidden = !data.runs.some((one) => one.curves);
  at("show-plots").checked = window.innerWidth > 900;
}

function load(number) {
  if (run) {
    viewer.scene.remove(run.stage);
    run.stage.traverse((object) => object.geometry?.dispose());
  }
  const source = data.runs[number];
  const film = { ...source.film };
  for (const name of ["t", "poses", "points", "normals", "friction", "centre", "world", "predicted"]) film[name] = floats(film[name]);
  const { joints } = film;
  const { size } = source;
  const stage = new THREE.Group();
  const bodies = makeRobot(data.robots[source.robot], joints);
  const ghost = makeGhost(at("with").value);
  const arrows = {};
  for (const kind of KINDS) arrows[kind] = source.places.map(() => new Arrow(COLOURS[kind], 0.012 * size));
  const marks = new Marks(source, film);
  stage.add(marks.group, ...ghost?.bodies ?? []);
  stage.add(makeGround(source.ground), ...bodies, ...arrows.world, ...arrows.predicted);
  const sun = makeSun(size);
  stage.add(sun, sun.target);
  viewer.scene.add(stage);
  const first = run === null;
  run = { ...source, film, joints, stage, bodies, ghost, arrows, marks, sun, where: new THREE.Vector3() };
  describe();
  plots.load(run, ghost?.source);
  arrange();
  show(Math.min(time, film.t[film.t.length - 1]), first);
  if (first) lookAtRobot();
}

// Return a second run that is shown with the first: its robot is transparent. number: '' for none
function makeGhost(number) {
  if (number === "") return null;
  const source = data.runs[number];
  const film = { ...source.film, t: floats(source.film.t), poses: floats(source.film.poses) };
  const bodies = makeRobot(data.robots[source.robot], film.joints);
  for (const body of bodies) body.traverse((object) => {
    if (!object.material) return;
    Object.assign(object.material, { transparent: true, opacity: GHOST * object.material.opacity, depthWrite: false });
    object.castShadow = object.receiveShadow = false;
  });
  return { source, film, bodies };
}

function makeSun(size) {
  const sun = new THREE.DirectionalLight(0xffffff, 0.45);
  sun.castShadow = true;
  sun.shadow.mapSize.set(2048, 2048);
  const { camera } = sun.shadow;
  camera.left = camera.bottom = -3 * size;
  camera.right = camera.top = 3 * size;
  camera.near = 0.1 * size;
  camera.far = 12 * size;
  sun.shadow.bias = -0.0005;
  sun.shadow.normalBias = 0.01 * size;
  return sun;
}

// three.js has y up: (x, y, z) in world axes is (x, z, −y).
const upright = (v) => new THREE.Vector3(v.x, v.z, -v.y);

function lookAtRobot() {
  const middle = run.where.clone().addScaledVector(Z, -0.2 * run.size);
  viewer.controls.target.copy(upright(middle));
  const from = middle.add(new THREE.Vector3(1.6, -3.2, 1.5).multiplyScalar(run.size));
  viewer.camera.position.copy(upright(from));
  viewer.controls.update();
}

// Return which marks are switched on, by name.
const shownMarks = () => Object.fromEntries(MARKS.map((name) => [name, at(`show-${name}`).checked]));

// Leave room for the plots if they are shown.
function arrange() {
  const shown = at("show-plots").checked && Boolean(run.curves);
  at("plots").hidden = !shown;
  document.body.classList.toggle("plotted", shown);
  viewer.set_3d_pane_size();
  plots.draw();
}

// Set the texts that do not change with time.
function describe() {
  at("show-predicted").closest("th").hidden = Boolean(run.unpredicted);
  at("run-name").textContent = data.runs.length > 1 ? run.label : "";
  at("note").textContent = [
    run.ghost ? `Transparent, with dashed curves: ${run.ghost.source.label}.` : "",
    run.verdict ? `Verdict: ${run.verdict}.` : "",
    run.film.known ? "" : "This log has no measured contact forces.",
    data.robots[run.robot].note,
  ].filter(Boolean).join(" ");
  at("marks").hidden = Boolean(run.unpredicted);
  at("scale").textContent = `10 cm (a square of the ground) of arrow: ${+(run.newtons / 10).toPrecision(3)} N`;
  at("time").max = run.film.t[run.film.t.length - 1];
  const touching = run.places.map((_, c) => c)
    .filter((c) => (data.live ? c < run.grounded : KINDS.some((kind) => carries(run.film[kind], c))));
  run.rows = touching.map((c) => ({ places: [c], name: run.places[c] }));
  const grounded = touching.filter((c) => c < run.grounded);
  if (grounded.length) run.rows.push({ places: grounded, name: `sum (weight ${run.weight.toFixed(1)} N)` });
  const body = at("forces").tBodies[0];
  body.replaceChildren();
  for (const row of run.rows) {
    const line = body.insertRow();
    line.className = row.name.startsWith("sum") ? "sum" : "";
    line.append(Object.assign(document.createElement("th"), { textContent: row.name }));
    row.cells = KINDS.map(() => line.insertCell());
    row.cells[1].hidden = Boolean(run.unpredicted);
  }
}

function carries(forces, place) {
  for (let k = 3 * place; k < forces.length; k += 3 * run.places.length) {
    if (forces[k] || forces[k + 1] || forces[k + 2]) return true;
  }
  return false;
}

// Move the bodies of a robot to where they are at a time, interpolated between two frames. Return the first of these.
function move(bodies, { t, poses }, now) {
  const frame = rowAt(t, now);
  const next = Math.min(frame + 1, t.length - 1);
  const share = next > frame ? Math.min(Math.max((now - t[frame]) / (t[next] - t[frame]), 0), 1) : 0;
  const [here, there] = [7 * frame * bodies.length, 7 * next * bodies.length];
  const after = new THREE.Object3D();
  for (const [k, body] of bodies.entries()) {
    place(body, poses, here + 7 * k);
    place(after, poses, there + 7 * k);
    body.position.lerp(after.position, share);
    body.quaternion.slerp(after.quaternion, share);
  }
  return frame;
}

// Show the state at a time.
function show(now, jump = false) {
  time = now;
  const frame = move(run.bodies, run.film, now);
  if (run.ghost) move(run.ghost.bodies, run.ghost.film, now);
  run.frame = frame;
  follow(run.bodies[run.base].position, jump);
  figures();
  plots.mark(time);
  run.marks.show(frame, shownMarks());
  viewer.set_dirty();
}

function follow(base, jump) {
  if (at("follow").checked && !jump) {
    const moved = upright(base.clone().sub(run.where).setZ(0));
    viewer.controls.target.add(moved);
    viewer.camera.position.add(moved);
  }
  run.where.copy(base);
  run.sun.target.position.copy(base);
  run.sun.position.copy(base).add(new THREE.Vector3(-1.5, -2, 5).multiplyScalar(run.size));
}

// Draw simulated and predicted forces side by side, as seen from the camera. Forces are those of the frame's tick.
function pointArrows() {
  const { film, frame, places, size } = run;
  const away = viewer.controls.target.clone().sub(viewer.camera.position);
  const aside = new THREE.Vector3(-away.z, 0, away.x).normalize();  // to the right, in three.js's axes
  const right = new THREE.Vector3(aside.x, -aside.z, 0);
  const [from, force] = [new THREE.Vector3(), new THREE.Vector3()];
  for (const [k, kind] of KINDS.entries()) {
    for (let c = 0; c < places.length; c++) {
      const i = 3 * (frame * places.length + c);
      force.fromArray(film[kind], i);
      from.fromArray(film.points, i).addScaledVector(right, (k - 0.5) * 0.06 * size);
      const strength = force.length();
      const shown = at(`show-${kind}`).checked ? strength / run.newtons : 0;
      run.arrows[kind][c].point(from, strength > 0 ? force.divideScalar(strength) : Z, shown);
    }
  }
}

function figures() {
  const { film, frame, places } = run;
  at("clock").textContent = `${time.toFixed(2)} s · ${run.modes[film.mode[frame]]}`;
  at("time").value = time;
  for (const row of run.rows) {
    KINDS.forEach((kind, k) => {
      const sum = new THREE.Vector3();
      for (const c of row.places) sum.add(new THREE.Vector3().fromArray(film[kind], 3 * (frame * places.length + c)));
      const known = kind === "predicted" || film.known;
      row.cells[k].textContent = known ? `${sum.length().toFixed(1)} N` : "–";
    });
  }
}

function play(on) {
  playing = on;
  at("play").textContent = on ? "❚❚" : "►";
  const end = run.film.t[run.film.t.length - 1];
  if (on && time >= end) show(run.film.t[0]);
}

let last = 0;
function tick(now) {
  requestAnimationFrame(tick);
  const passed = Math.min(now - last, 100) / 1000;
  last = now;
  if (playing && seen) {
    const end = run.film.t[run.film.t.length - 1];
    show(Math.min(time + passed * at("speed").value, end));
    if (time >= end) play(false);
  }
  if (viewer.needs_render) {
    pointArrows();  // their offsets depend on the camera
    viewer.render();
  }
}

function listen() {
  at("play").onclick = () => play(!playing);
  at("time").oninput = () => { play(false); show(+at("time").value); };
  at("show-plots").onchange = arrange;
  at("run").onchange = at("with").onchange = () => load(+at("run").value);
  for (const name of MARKS) at(`show-${name}`).onchange = () => show(time);
  for (const kind of KINDS) at(`show-${kind}`).onchange = () => viewer.set_dirty();
  document.onkeydown = (event) => {
    if (event.key === " " && event.target.tagName !== "BUTTON") { event.preventDefault(); play(!playing); }
  };
  new IntersectionObserver(([entry]) => { seen = entry.isIntersecting; }).observe(at("pane"));
}

// A live page shows each frame as it arrives.
function receive() {
  const frames = new EventSource("frames");
  frames.onmessage = (event) => {
    const { label, t, mode, ...film } = JSON.parse(event.data);
    Object.assign(run.film, film, { t: [t], mode: [0] });
    run.modes = [mode];
    at("run-name").textContent = label;
    show(t);
  };
  frames.onerror = () => {
    frames.close();
    at("note").textContent = "The run has ended.";
  };
}

prepare();
load(0);
listen();
play(!data.live);
if (data.live) receive();
requestAnimationFrame(tick);
