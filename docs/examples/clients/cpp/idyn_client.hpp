// A client of an idyn server in C++17. It needs libzmq and msgpack-cxx only.
//
// Client::tick is called once per period with the measured state and returns the torques to apply. It starts the session,
// sends the state, waits a bounded time for the answer and keeps the robot safe without one. The last joints of q and vel are
// those with motors, as in a robot on a free base. Vectors travel as float64 of a little-endian machine.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <zmq.h>
#include <msgpack.hpp>

namespace idyn {

using Vector = std::vector<double>;
using Packer = msgpack::packer<msgpack::sbuffer>;

constexpr std::int64_t retry_ns = 100'000'000;  // hello and reset are repeated at this interval until they succeed
constexpr std::int64_t fade_ns = 50'000'000;    // without answers: the last torque fades in this time,
constexpr std::int64_t stop_ns = 100'000'000;   // and after this one the robot is stopped until `reset`
constexpr double give_way = 0.6;                // farther from its resting posture a joint damps [rad]

inline std::int64_t monotonic_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

enum class Phase { absent, running, latched };  // no session; running; stopped until `reset`

inline const char* name(Phase phase) {
  return phase == Phase::absent ? "absent" : phase == Phase::running ? "running" : "latched";
}

struct Robot {
  std::string client = "cpp example";
  std::size_t nq = 0, nv = 0;
  double total_mass = 0;            // [kg]
  std::vector<std::string> joints;  // all joints but the free base, each with a motor
  double dt = 0.001;                // nominal period [s]
  double damping = 0;               // of each motor, while the robot damps [N·m·s/rad]
};

struct Posture {
  Vector q, v, kp, kd;
};

struct Answer {  // what the drives need of a `torque`
  Vector tau;
  std::optional<Posture> posture;  // none: the robot damps without answers
  std::int64_t t_ns = 0, until_ns = 0;
  bool damps = false;
};

// Chooses the torque of every tick: docs/concepts/safety.md#between-answers.
class Failsafe {
 public:
  enum class Latch { none, stopped, damping };

  Failsafe(std::size_t na, double damping)
      : tau_max(na, std::numeric_limits<double>::infinity()), dtau_max(tau_max), damping_(damping) {}

  void reset() { last_.reset(), latch = Latch::none; }

  // now: robot's clock [ns]; q, v: of the motors; fault: the server stopped the robot
  const Vector& torque(std::int64_t now, const Vector& q, const Vector& v, const std::optional<Answer>& answer, bool fault) {
    if (latch == Latch::none && last_ && now - last_->t_ns >= stop_ns)
      latch = Latch::stopped;
    else if (latch == Latch::none && fault)
      latch = Latch::damping;
    if (answer && latch == Latch::none) last_ = answer;
    limit(now, answer && latch == Latch::none ? answer->tau : without_answer(now, q, v));
    return sent;
  }

  Vector tau_max, dtau_max;  // of the welcome
  Vector sent;               // torques of the last tick; empty before the first one
  Latch latch = Latch::none;

 private:
  Vector without_answer(std::int64_t now, const Vector& q, const Vector& v) {
    Vector tau(v.size()), damped(v.size());
    for (std::size_t i = 0; i < v.size(); ++i) damped[i] = -damping_ * v[i];
    if (!last_ || last_->damps || !last_->posture || latch == Latch::damping) return damped;
    const Posture& p = *last_->posture;
    const bool follows = now < last_->until_ns && latch == Latch::none;
    const double t = double(std::min(now, last_->until_ns) - last_->t_ns) * 1e-9;
    const double share = std::max(0.0, 1.0 - double(now - last_->until_ns) / double(fade_ns));
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double error = p.q[i] + p.v[i] * t - q[i];
      if (!follows && std::abs(error) > give_way) {
        latch = Latch::damping;
        return damped;
      }
      tau[i] = follows ? last_->tau[i] + p.kp[i] * error + p.kd[i] * (p.v[i] - v[i])
                       : share * last_->tau[i] + p.kp[i] * error - std::max(p.kd[i], damping_) * v[i];
    }
    return tau;
  }

  void limit(std::int64_t now, Vector tau) {  // first the rate, then the torque
    const double dt = double(now - sent_ns_) * 1e-9;
    for (std::size_t i = 0; i < tau.size(); ++i) {
      if (!std::isfinite(tau[i])) tau[i] = 0.0;
      if (!sent.empty()) tau[i] = std::clamp(tau[i], sent[i] - dtau_max[i] * dt, sent[i] + dtau_max[i] * dt);
      tau[i] = std::clamp(tau[i], -tau_max[i], tau_max[i]);
    }
    sent = std::move(tau), sent_ns_ = now;
  }

  double damping_;
  std::optional<Answer> last_;
  std::int64_t sent_ns_ = 0;
};

// A message of the server: a map, read by its keys.
class Message {
 public:
  Message(const char* data, std::size_t size) : handle_(msgpack::unpack(data, size)), map_(fields(handle_.get())) {}
  explicit Message(const msgpack::object& part) : map_(fields(part)) {}

  template <typename T>
  T get(const char* key) const { return map_.at(key).as<T>(); }
  bool has(const char* key) const { return map_.count(key) && !map_.at(key).is_nil(); }
  Message part(const char* key) const { return Message(map_.at(key)); }
  Vector vector(const char* key, std::size_t n, bool finite = true) const {
    const msgpack::object& value = map_.at(key);
    Vector numbers;
    if (value.type == msgpack::type::BIN) {
      numbers.resize(value.via.bin.size / sizeof(double));
      std::memcpy(numbers.data(), value.via.bin.ptr, numbers.size() * sizeof(double));
    } else {
      numbers = value.as<Vector>();
    }
    const bool good = !finite || std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); });
    if (numbers.size() != n || !good) throw std::runtime_error(std::string(key) + ": expected finite numbers, one for each motor");
    return numbers;
  }

 private:
  static std::map<std::string, msgpack::object> fields(const msgpack::object& map) {
    return map.as<std::map<std::string, msgpack::object>>();
  }
  msgpack::object_handle handle_;
  std::map<std::string, msgpack::object> map_;
};

class Client {
 public:
  // deadline_ms: time to wait for an answer in each tick [ms]
  Client(const std::string& endpoint, Robot robot, int deadline_ms = 2)
      : robot_(std::move(robot)), deadline_ms_(deadline_ms), failsafe(robot_.joints.size(), robot_.damping) {
    const int one = 1, linger_ms = 100;
    zmq_setsockopt(socket_, ZMQ_IMMEDIATE, &one, sizeof one);  // without a server nothing is queued
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    if (zmq_connect(socket_, endpoint.c_str()) != 0) throw std::runtime_error(endpoint + ": " + zmq_strerror(zmq_errno()));
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() {  // gives control back
    if (session_) {
      send("stop", 1, [this](Packer& out) { out.pack("session"), out.pack(session_); });
      wait(100);
    }
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }

  // Send the state and return the torques to apply now [N·m] (na).
  // now: time of the measurement, a monotonic clock [ns]; q (nq), vel (nv): as in the protocol; feet: contacts that touch
  const Vector& tick(std::int64_t now, const Vector& q, const Vector& vel, const std::vector<std::string>& feet) {
    const auto na = std::ptrdiff_t(robot_.joints.size());
    if (phase != Phase::absent)
      send_state(now, q, vel, feet);
    else if (now - asked_ns_ >= retry_ns)
      asked_ns_ = now, send_hello();
    bool fault = false;
    const std::optional<Answer> answer = listen(fault);
    const Vector& tau = failsafe.torque(now, Vector(q.end() - na, q.end()), Vector(vel.end() - na, vel.end()), answer, fault);
    const bool stopped = failsafe.latch != Failsafe::Latch::none;
    if (answer && !stopped) applied = seq;
    if (stopped && phase == Phase::running) phase = Phase::latched;
    return tau;
  }

  // Ask the server to release the robot. Call it in phase latched, when the robot is at rest and may move again.
  void reset(std::int64_t now, const Vector& q, const Vector& vel) {
    if (phase != Phase::latched || now - asked_ns_ < retry_ns) return;
    asked_ns_ = now;
    send("reset", 3, [&](Packer& out) {
      out.pack("session"), out.pack(session_);
      put(out, "q", q), put(out, "vel", vel);
    });
  }

  Phase phase = Phase::absent;
  std::string status, message;  // of the last torque
  std::string refusal;          // the last `error`, "" without one
  std::uint64_t seq = 0, applied = 0;

 private:
  Robot robot_;
  int deadline_ms_;
  std::uint64_t session_ = 0;
  std::int64_t asked_ns_ = -retry_ns;
  void* context_ = zmq_ctx_new();
  void* socket_ = zmq_socket(context_, ZMQ_DEALER);

 public:
  Failsafe failsafe;

 private:
  static void put(Packer& out, const char* key, const Vector& vector) {
    const auto size = std::uint32_t(vector.size() * sizeof(double));
    out.pack(key), out.pack_bin(size);
    out.pack_bin_body(reinterpret_cast<const char*>(vector.data()), size);
  }

  // fields: number of fields besides `t` and `v`, which `body` writes
  template <typename Body>
  void send(const char* type, std::uint32_t fields, Body body) {
    msgpack::sbuffer buffer;
    Packer out(buffer);
    out.pack_map(fields + 2);
    out.pack("t"), out.pack(type), out.pack("v"), out.pack("1.2");
    body(out);
    if (zmq_send(socket_, buffer.data(), buffer.size(), ZMQ_DONTWAIT) < 0) refusal = "no server";
  }

  void send_hello() {
    send("hello", 6, [this](Packer& out) {
      out.pack("client"), out.pack_map(2);
      out.pack("name"), out.pack(robot_.client), out.pack("kind"), out.pack("robot");
      out.pack("model"), out.pack_map(4);
      out.pack("nq"), out.pack(robot_.nq), out.pack("nv"), out.pack(robot_.nv);
      out.pack("na"), out.pack(robot_.joints.size()), out.pack("total_mass"), out.pack(robot_.total_mass);
      out.pack("joint_names"), out.pack(robot_.joints), out.pack("actuated"), out.pack(robot_.joints);
      out.pack("base"), out.pack_map(3), out.pack("type"), out.pack("free_flyer");
      out.pack("quat_order"), out.pack("xyzw"), out.pack("vel_frame"), out.pack("local");
      out.pack("dt_nominal"), out.pack(robot_.dt);
    });
  }

  void send_state(std::int64_t now, const Vector& q, const Vector& vel, const std::vector<std::string>& feet) {
    ++seq;
    const Vector& sent = failsafe.sent;
    send("state", sent.empty() ? 8 : 9, [&](Packer& out) {
      out.pack("session"), out.pack(session_), out.pack("seq"), out.pack(seq), out.pack("t_robot"), out.pack(now);
      put(out, "q", q), put(out, "vel", vel);
      if (!sent.empty()) put(out, "tau_applied", sent);
      out.pack("contacts"), out.pack_array(std::uint32_t(feet.size()));
      for (const std::string& foot : feet) out.pack_map(1), out.pack("frame"), out.pack(foot);
      out.pack("last_applied_seq"), out.pack(applied), out.pack("t_send"), out.pack(monotonic_ns());
    });
  }

  bool wait(std::int64_t ms) {
    zmq_pollitem_t item{socket_, 0, ZMQ_POLLIN, 0};
    return zmq_poll(&item, 1, long(std::max<std::int64_t>(0, ms))) > 0;
  }

  // Read messages until the answer to this tick's message, or until the deadline.
  std::optional<Answer> listen(bool& fault) {
    const std::int64_t limit = monotonic_ns() + deadline_ms_ * 1'000'000;
    while (wait((limit - monotonic_ns() + 999'999) / 1'000'000)) {
      zmq_msg_t frame;
      zmq_msg_init(&frame);
      if (zmq_msg_recv(&frame, socket_, ZMQ_DONTWAIT) < 0) continue;
      const Message heard(static_cast<const char*>(zmq_msg_data(&frame)), zmq_msg_size(&frame));
      zmq_msg_close(&frame);
      const auto kind = heard.get<std::string>("t");
      if (kind == "welcome") {  // a repeated hello is answered again: that session goes on
        if (phase != Phase::absent && heard.get<std::uint64_t>("session") == session_) continue;
        return begin(heard), std::nullopt;
      }
      if (kind == "reset_ack") {
        failsafe.reset(), phase = Phase::running;
      } else if (kind == "stop_ack" && !heard.get<std::string>("reason").empty()) {  // the server ends
        phase = Phase::absent, refusal = heard.get<std::string>("reason");
        return std::nullopt;
      } else if (kind == "error" && (!heard.has("seq") || heard.get<std::uint64_t>("seq") == seq)) {
        const auto code = heard.get<std::string>("code");
        refusal = code + ": " + heard.get<std::string>("message");
        if (code == "not_controlling") phase = Phase::absent;  // also after a restart of the server
        fault = heard.has("seq") && code == "latched_fault";
        if (heard.has("seq") || phase == Phase::absent) return std::nullopt;
      } else if (kind == "torque" && heard.get<std::uint64_t>("session") == session_ && heard.get<std::uint64_t>("seq") == seq) {
        return read(heard, fault);
      }
    }
    return std::nullopt;
  }

  // Start a session. A robot that is stopped, on either side, stays stopped until `reset`.
  void begin(const Message& welcome) {
    session_ = welcome.get<std::uint64_t>("session"), seq = applied = 0, refusal.clear();
    const Message limits = welcome.part("limits");
    failsafe.tau_max = limits.vector("tau_max", robot_.joints.size(), false);  // inf: no limit
    failsafe.dtau_max = limits.vector("dtau_max", robot_.joints.size(), false);
    const bool stopped = welcome.get<std::string>("mode") == "latched" || failsafe.latch != Failsafe::Latch::none;
    phase = stopped ? Phase::latched : Phase::running;
  }

  // Return the answer, none when its torque must not be applied.
  std::optional<Answer> read(const Message& torque, bool& fault) {
    status = torque.get<std::string>("status"), message = torque.get<std::string>("message");
    if (torque.get<bool>("dry_run")) return std::nullopt;
    const std::size_t na = robot_.joints.size();
    Answer answer;
    try {
      answer.tau = torque.vector("tau", na);
      if (torque.has("ref") && torque.has("kp") && torque.has("kd")) {
        const Message ref = torque.part("ref");
        answer.posture = Posture{ref.vector("q", na), ref.vector("v", na), torque.vector("kp", na), torque.vector("kd", na)};
      }
    } catch (const std::runtime_error& error) {
      refusal = std::string("torque: ") + error.what();
      return std::nullopt;
    }
    answer.t_ns = torque.get<std::int64_t>("t_robot"), answer.until_ns = torque.get<std::int64_t>("valid_until");
    answer.damps = status == "damping" || status == "fault";
    fault = status == "fault";
    return answer;
  }
};

}  // namespace idyn
