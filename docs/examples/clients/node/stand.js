// The bundled quadruped, standing on a bench: sends its state 250 times per second and prints what the server says.
//
// idyn serve quadruped --endpoint ipc:///tmp/torques
// npm install && node stand.js ipc:///tmp/torques [SECONDS]
import { setTimeout as sleep } from "node:timers/promises";
import { Client, now } from "./idyn_client.js";

const PERIOD_MS = 4; // timers of Node are rounded to milliseconds
const LEGS = ["LF", "LH", "RF", "RH"];
const JOINTS = LEGS.flatMap((leg) => ["X_1", "Y_2", "Y_3"].map((joint) => `${leg}_${joint}`));
const ANGLES = [1, -1, -1, 1].flatMap((sign) => [0.112948, 0.567157, 1.53122].map((angle) => sign * angle));
const FEET = LEGS.map((leg) => ({ frame: `${leg}_FOOT` }));
const HELLO = {
  client: { name: "node example", kind: "robot" },
  model: { nq: 19, nv: 18, na: 12, total_mass: 4.8 },
  joint_names: JOINTS,
  actuated: JOINTS,
  base: { type: "free_flyer", quat_order: "xyzw", vel_frame: "local" },
  dt_nominal: PERIOD_MS * 1e-3,
};

/** In place of sensors and drives. Replace it by your robot's. */
const bench = {
  q: () => [0, 0, 0.161853, 0, 0, 0, 1, ...ANGLES.map((angle) => angle + 1e-5 * (Math.random() - 0.5))],
  vel: () => Array(18).fill(0),
  write(tau) {}, // apply torques for one period
};

const largest = (vector) => Math.max(0, ...vector.map(Math.abs));

const [endpoint, seconds = "1e9"] = process.argv.slice(2);
const client = new Client(endpoint, HELLO, 0.2);
let ends = false;
for (const name of ["SIGTERM", "SIGINT"]) process.on(name, () => (ends = true));

const begin = performance.now();
let due = begin;
let said = "";
let torque = 0; // largest of the run
while (!ends && performance.now() - begin < 1e3 * Number(seconds)) {
  const t = now();
  const [q, vel] = [bench.q(), bench.vel()];
  const tau = await client.tick(t, q, vel, FEET);
  bench.write(tau);
  torque = Math.max(torque, largest(tau));
  if (client.phase === "latched" && largest(vel) < 0.1) await client.reset(t, q, vel); // on a robot: only when somebody has agreed
  const line = [client.phase, client.status, client.refusal].map((word) => word || "-").join(" ");
  if (line !== said) console.log((said = line));
  due = Math.max(due + PERIOD_MS, performance.now()); // late ticks are not made up for
  await sleep(Math.max(0, due - performance.now()));
}
console.log(`states ${client.seq}, last answered ${client.applied}, largest torque ${torque.toFixed(3)} N·m`);
await client.close();
