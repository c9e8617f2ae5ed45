// The bundled quadruped, standing on a bench: sends its state 500 times per second and prints what the server says.
//
// idyn serve quadruped --endpoint ipc:///tmp/torques
// ./stand ipc:///tmp/torques [SECONDS]
#include "idyn_client.hpp"

#include <csignal>
#include <iostream>
#include <random>
#include <thread>

using idyn::Vector;

namespace {

volatile std::sig_atomic_t ends = 0;
constexpr std::int64_t period_ns = 2'000'000;
const std::vector<std::string> feet = {"LF_FOOT", "LH_FOOT", "RF_FOOT", "RH_FOOT"};

// In place of sensors and drives. Replace it by your robot's.
class Bench {
 public:
  Bench() {
    for (const double sign : {1.0, -1.0, -1.0, 1.0})
      for (const double angle : {0.112948, 0.567157, 1.53122}) stance_.push_back(sign * angle);
  }
  Vector q() {  // the encoders are noisy by 10 µrad
    Vector measured = stance_;
    for (std::size_t i = 7; i < measured.size(); ++i) measured[i] += noise_(random_);
    return measured;
  }
  Vector vel() { return Vector(18, 0.0); }
  void write(const Vector&) {}  // apply torques for one period

 private:
  Vector stance_ = {0.0, 0.0, 0.161853, 0.0, 0.0, 0.0, 1.0};
  std::mt19937 random_;
  std::normal_distribution<double> noise_{0.0, 1e-5};
};

idyn::Robot quadruped() {
  idyn::Robot robot;
  robot.nq = 19, robot.nv = 18, robot.total_mass = 4.8, robot.dt = period_ns * 1e-9, robot.damping = 0.2;
  for (const char* leg : {"LF", "LH", "RF", "RH"})
    for (const char* joint : {"_X_1", "_Y_2", "_Y_3"}) robot.joints.push_back(std::string(leg) + joint);
  return robot;
}

double largest(const Vector& vector) {
  double most = 0.0;
  for (const double each : vector) most = std::max(most, std::abs(each));
  return most;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "expected the address of a server\n";
    return 2;
  }
  const double seconds = argc > 2 ? std::stod(argv[2]) : 1e9;
  std::signal(SIGTERM, [](int) { ends = 1; });
  std::signal(SIGINT, [](int) { ends = 1; });
  idyn::Client client(argv[1], quadruped());
  Bench bench;
  std::string said;
  double torque = 0.0;  // largest of the run
  const auto begin = std::chrono::steady_clock::now();
  auto due = begin;
  while (!ends && std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds) {
    const std::int64_t now = idyn::monotonic_ns();
    const Vector q = bench.q(), vel = bench.vel();
    const Vector tau = client.tick(now, q, vel, feet);
    bench.write(tau);
    torque = std::max(torque, largest(tau));
    if (client.phase == idyn::Phase::latched && largest(vel) < 0.1)
      client.reset(now, q, vel);  // on a robot: only when somebody has agreed
    const std::string line = std::string(name(client.phase)) + " " + client.status + " " + client.refusal;
    if (line != said) std::cout << (said = line) << std::endl;
    due = std::max(due + std::chrono::nanoseconds(period_ns), std::chrono::steady_clock::now());  // late ticks are not made up for
    std::this_thread::sleep_until(due);
  }
  std::cout << "states " << client.seq << ", last answered " << client.applied << ", largest torque " << torque
            << " N·m" << std::endl;
}
