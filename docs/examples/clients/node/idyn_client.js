// A client of an idyn server that needs the packages zeromq and @msgpack/msgpack only.
//
// `Client.tick` is called once per period with the measured state and returns the torques to apply. It starts the session,
// sends the state, waits a bounded time for the answer and keeps the robot safe without one. The last joints of q and vel are
// those with motors, as in a robot on a free base. Vectors travel as float64 of a little-endian machine; nanoseconds and
// session numbers are BigInt, as the decoder returns integers of 64 bits.
import { Decoder, Encoder } from "@msgpack/msgpack";
import { Dealer } from "zeromq";

const encoder = new Encoder({ useBigInt64: true });
const decoder = new Decoder({ useBigInt64: true });

const RETRY_NS = 100_000_000n; // hello and reset are repeated at this interval until they succeed
const FADE_NS = 50_000_000; // without answers: the last torque fades in this time,
const STOP_NS = 100_000_000n; // and after this one the robot is stopped until `reset`
const GIVE_WAY = 0.6; // farther from its resting posture a joint damps [rad]

export const now = () => process.hrtime.bigint();

/** Vector of numbers → bytes on the wire. */
const pack = (vector) => new Uint8Array(Float64Array.from(vector).buffer);

/** Vector of a message → numbers. Throws for a wrong length and, unless `infinite`, for numbers that are not finite. */
function numbers(value, n, infinite = false) {
  const read = value instanceof Uint8Array ? [...new Float64Array(new Uint8Array(value).buffer)] : value.map(Number);
  if (read.length !== n || !(infinite || read.every(Number.isFinite))) throw new RangeError(`expected ${n} finite numbers`);
  return read;
}

/** Chooses the torque of every tick: docs/concepts/safety.md#between-answers. */
export class Failsafe {
  constructor(na, damping) {
    this.na = na;
    this.damping = damping;
    this.tauMax = this.dtauMax = Array(na).fill(Infinity); // of the welcome
    this.sent = null; // torques of the last tick
    this.sentNs = 0n;
    this.reset();
  }

  reset() {
    this.last = null;
    this.latched = ""; // "stopped" or "damping", until `reset`
  }

  /** now: robot's clock [ns]; q, v: of the motors; fault: the server stopped the robot */
  torque(now, q, v, answer, fault) {
    if (!this.latched && this.last && now - this.last.tNs >= STOP_NS) this.latched = "stopped";
    else if (!this.latched && fault) this.latched = "damping";
    let tau;
    if (answer && !this.latched) {
      this.last = answer;
      tau = answer.tau;
    } else tau = this.withoutAnswer(now, q, v);
    return this.limit(now, tau);
  }

  withoutAnswer(now, q, v) {
    const last = this.last;
    const damping = v.map((each) => -this.damping * each);
    if (!last || last.damps || !last.posture || this.latched === "damping") return damping;
    const { tau, posture: { q: qRef, v: vRef, kp, kd }, tNs, untilNs } = last;
    const t = Number((now < untilNs ? now : untilNs) - tNs) * 1e-9;
    const error = qRef.map((each, i) => each + vRef[i] * t - q[i]);
    if (now < untilNs && !this.latched) return tau.map((each, i) => each + kp[i] * error[i] + kd[i] * (vRef[i] - v[i]));
    if (error.some((each) => Math.abs(each) > GIVE_WAY)) {
      this.latched = "damping";
      return damping;
    }
    const share = Math.max(0, 1 - Number(now - untilNs) / FADE_NS);
    return tau.map((each, i) => share * each + kp[i] * error[i] - Math.max(kd[i], this.damping) * v[i]);
  }

  /** Limit the torque's rate, then the torque. */
  limit(now, tau) {
    const dt = Number(now - this.sentNs) * 1e-9;
    const clip = (value, low, high) => Math.min(Math.max(value, low), high);
    this.sent = tau.map((each, i) => {
      let passed = Number.isFinite(each) ? each : 0;
      const before = this.sent?.[i];
      if (before !== undefined) passed = clip(passed, before - this.dtauMax[i] * dt, before + this.dtauMax[i] * dt);
      return clip(passed, -this.tauMax[i], this.tauMax[i]);
    });
    this.sentNs = now;
    return this.sent;
  }
}

/** A connection to a server. phase: absent (no session), running, or latched (stopped until `reset`). */
export class Client {
  /** hello: what the client says of itself and its robot; damping [N·m·s/rad]; deadlineMs: to wait for an answer */
  constructor(endpoint, hello, damping, deadlineMs = 2) {
    this.hello = hello;
    this.na = hello.actuated.length;
    this.deadlineMs = deadlineMs;
    this.failsafe = new Failsafe(this.na, damping);
    this.phase = "absent";
    this.status = this.message = this.refusal = ""; // of the last torque; the last `error`
    this.session = 0n;
    this.seq = this.applied = 0;
    this.askedNs = -RETRY_NS;
    this.socket = new Dealer({ immediate: true, linger: 100, sendTimeout: 0 }); // without a server nothing is queued
    this.socket.connect(endpoint);
    this.waiting = null; // a receive under way
  }

  /**
   * Send the state and return the torques to apply now [N·m] (na).
   * now: time of the measurement, a monotonic clock [ns]; q (nq), vel (nv), contacts: as in the protocol
   */
  async tick(now, q, vel, contacts) {
    if (this.phase !== "absent") await this.sendState(now, q, vel, contacts);
    else if (now - this.askedNs >= RETRY_NS) {
      this.askedNs = now;
      await this.send({ t: "hello", ...this.hello });
    }
    const { answer = null, fault = false } = await this.listen();
    const tau = this.failsafe.torque(now, q.slice(-this.na), vel.slice(-this.na), answer, fault);
    if (answer && !this.failsafe.latched) this.applied = this.seq;
    if (this.failsafe.latched && this.phase === "running") this.phase = "latched";
    return tau;
  }

  /** Ask the server to release the robot. Call it in phase latched, when the robot is at rest and may move again. */
  async reset(now, q, vel) {
    if (this.phase !== "latched" || now - this.askedNs < RETRY_NS) return;
    this.askedNs = now;
    await this.send({ t: "reset", session: this.session, q: pack(q), vel: pack(vel) });
  }

  /** Give control back and disconnect. */
  async close() {
    if (this.session) {
      await this.send({ t: "stop", session: this.session });
      await this.next(100);
    }
    this.socket.close();
  }

  async sendState(now, q, vel, contacts) {
    this.seq += 1;
    const state = { t: "state", session: this.session, seq: this.seq, t_robot: now, q: pack(q), vel: pack(vel), contacts };
    if (this.failsafe.sent) state.tau_applied = pack(this.failsafe.sent);
    await this.send({ ...state, last_applied_seq: this.applied, t_send: process.hrtime.bigint() });
  }

  async send(message) {
    try {
      await this.socket.send(encoder.encode({ v: "1.2", ...message }));
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      this.refusal = "no server";
    }
  }

  /** The next message that arrives within this time; null without one. */
  async next(ms) {
    this.waiting ??= this.socket.receive().then(([data]) => decoder.decode(data), () => null);
    let timer;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, Math.max(0, ms), null)));
    const message = await Promise.race([this.waiting, late]);
    clearTimeout(timer);
    if (message) this.waiting = null;
    return message;
  }

  /** Read messages until the answer to this tick's message, or until the deadline. */
  async listen() {
    const limit = performance.now() + this.deadlineMs;
    let heard;
    while ((heard = await this.next(limit - performance.now()))) {
      const about = heard.seq === null || heard.seq === undefined ? null : Number(heard.seq);
      if (heard.t === "welcome") {
        if (this.phase !== "absent" && BigInt(heard.session) === this.session) continue; // a repeated hello is answered again
        this.begin(heard);
        break;
      } else if (heard.t === "reset_ack") {
        this.failsafe.reset();
        this.phase = "running";
      } else if (heard.t === "stop_ack" && heard.reason) {
        this.phase = "absent"; // the server ends
        this.refusal = heard.reason;
        break;
      } else if (heard.t === "error" && (about === null || about === this.seq)) {
        this.refusal = `${heard.code}: ${heard.message}`;
        if (heard.code === "not_controlling") this.phase = "absent"; // also after a restart of the server
        if (about !== null || this.phase === "absent") return { fault: heard.code === "latched_fault" };
      } else if (heard.t === "torque" && BigInt(heard.session) === this.session && about === this.seq) return this.read(heard);
    }
    return {};
  }

  /** Start a session. A robot that is stopped, on either side, stays stopped until `reset`. */
  begin(welcome) {
    this.session = BigInt(welcome.session);
    this.seq = this.applied = 0;
    this.refusal = "";
    this.failsafe.tauMax = numbers(welcome.limits.tau_max, this.na, true); // Infinity: no limit
    this.failsafe.dtauMax = numbers(welcome.limits.dtau_max, this.na, true);
    this.phase = welcome.mode === "latched" || this.failsafe.latched ? "latched" : "running";
  }

  /** The answer, null when its torque must not be applied, and whether it reports a fault. */
  read(torque) {
    this.status = torque.status;
    this.message = torque.message;
    if (torque.dry_run) return {};
    const damps = this.status === "damping" || this.status === "fault";
    const vector = (value) => numbers(value, this.na);
    try {
      const { ref, kp, kd } = torque;
      const posture = ref && kp && kd ? { q: vector(ref.q), v: vector(ref.v), kp: vector(kp), kd: vector(kd) } : null;
      const times = { tNs: BigInt(torque.t_robot), untilNs: BigInt(torque.valid_until) };
      return { answer: { tau: vector(torque.tau), posture, damps, ...times }, fault: this.status === "fault" };
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.refusal = `torque: ${error.message}`;
      return {};
    }
  }
}
