// go2 in a loop of 1 kHz without Python: Pinocchio gives M, h and the joint axes, idyn the torques and contact forces under
// Coulomb's law. The robot squats up and down, or trots in place with `trot`; it moves by the predicted velocity. Prints the
// times of the calls.
//
//     go2 URDF SECONDS [squat|trot] [RECORD]
//
// RECORD: file of all states, demands, contacts and torques, for comparisons.
#include <idyn.h>

#include <pinocchio/algorithm/compute-all-terms.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/frames.hpp>
#include <pinocchio/algorithm/jacobian.hpp>
#include <pinocchio/algorithm/joint-configuration.hpp>
#include <pinocchio/algorithm/rnea.hpp>
#include <pinocchio/parsers/urdf.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr double DT = 1e-3, RADIUS = 0.022, FRICTION = 0.8, PI = 3.14159265358979;
const char *const FEET[] = {"FL_foot", "FR_foot", "RL_foot", "RR_foot"};

struct Free {
    void operator()(void *memory) const { std::free(memory); }
};

/// The solver and the memory that it lives in.
class Solver {
public:
    Solver(const pinocchio::Model &model, int64_t contacts) {
        for (int j = 0; j < model.njoints; j++) parent_.push_back(static_cast<int64_t>(model.parents[j]));
        for (int j = 1; j < model.njoints; j++)
            for (int k = 0; k < model.nvs[j]; k++) joint_.push_back(j);
        for (int64_t k = 6; k < model.nv; k++) motor_.push_back(k);
        const Eigen::VectorXd limits = model.effortLimit.tail(model.nv - 6);
        const idyn_robot robot{model.nv, model.njoints, model.nv - 6, parent_.data(), joint_.data(), motor_.data(), limits.data(),
                               9.81 * pinocchio::computeTotalMass(model)};
        idyn_options options;
        idyn_defaults(&options);
        const int64_t size = idyn_workspace(&robot, contacts);
        check(size < 0 ? static_cast<int>(size) : 0);
        memory_.reset(std::aligned_alloc(64, static_cast<size_t>(size + 63) / 64 * 64));
        check(idyn_prepare(memory_.get(), size, &robot, &options, contacts, &solver_));
    }
    int solve(const idyn_input &input, idyn_output &output) { return idyn_solve(solver_, &input, &output); }

private:
    static void check(int result) {
        if (result == 0) return;
        std::fprintf(stderr, "%s\n", idyn_text(result));
        std::exit(2);
    }
    std::vector<int64_t> parent_, joint_, motor_;
    std::unique_ptr<void, Free> memory_;
    idyn_solver *solver_ = nullptr;
};

using Rows = Eigen::Matrix<double, Eigen::Dynamic, 3, Eigen::RowMajor>;

/// Contacts of the feet that are within 2 mm of the ground.
struct Contacts {
    std::vector<int64_t> key, body;
    Rows point = Rows::Zero(4, 3), normal = Rows::Zero(4, 3), tangent = Rows::Zero(4, 3);
    Eigen::Vector4d friction = Eigen::Vector4d::Constant(FRICTION), gap, radius = Eigen::Vector4d::Constant(RADIUS);

    Contacts(const pinocchio::Model &model, const pinocchio::Data &data, const std::vector<pinocchio::FrameIndex> &feet) {
        normal.col(2).setOnes(), tangent.col(0).setOnes();
        for (size_t foot = 0; foot < feet.size(); foot++) {
            const Eigen::Vector3d at = data.oMf[feet[foot]].translation();
            if (at.z() - RADIUS > 0.002) continue;
            const auto row = static_cast<Eigen::Index>(key.size());
            point.row(row) = (at - RADIUS * Eigen::Vector3d::UnitZ()).transpose();
            gap[row] = at.z() - RADIUS;
            key.push_back(static_cast<int64_t>(foot)), body.push_back(static_cast<int64_t>(model.frames[feet[foot]].parentJoint));
        }
    }
};

double percentile(std::vector<double> values, double share) {
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

/// Joint angles at a time: legs bent by `bend` more than standing; in a trot the legs of a diagonal lift in turns.
Eigen::VectorXd reference(const pinocchio::Model &model, double t, bool trots) {
    Eigen::VectorXd q = Eigen::VectorXd::Zero(model.nq - 7);
    for (int j = 2; j < model.njoints; j++) {
        const std::string &name = model.names[j];
        const bool first = name.rfind("FL", 0) == 0 || name.rfind("RR", 0) == 0;
        const double swing = std::sin(2.0 * PI * t / 0.5) * (first ? 1.0 : -1.0);
        const double bend = trots ? 0.18 * std::max(swing, 0.0) : 0.1 * (1.0 - std::cos(2.0 * PI * t / 1.5));
        double &angle = q[model.idx_qs[j] - 7];
        if (name.find("thigh") != std::string::npos) angle = 0.785 + bend;
        if (name.find("calf") != std::string::npos) angle = -1.44 - 2.0 * bend;
    }
    return q;
}

}  // namespace

int main(int argc, char **argv) {
    if (argc < 3) return std::fprintf(stderr, "usage: go2 URDF SECONDS [squat|trot] [RECORD]\n"), 2;
    pinocchio::Model model;
    pinocchio::urdf::buildModel(argv[1], pinocchio::JointModelFreeFlyer(), model);
    pinocchio::Data data(model);
    std::vector<pinocchio::FrameIndex> feet;
    for (const char *name : FEET) feet.push_back(model.getFrameId(name));
    const bool trots = argc > 3 && std::string(argv[3]) == "trot";
    std::ofstream record(argc > 4 ? argv[4] : "", std::ios::binary);

    const Eigen::Index nv = model.nv, na = nv - 6;
    Eigen::VectorXd q = pinocchio::neutral(model), v = Eigen::VectorXd::Zero(nv);
    q.tail(na) = reference(model, 0.0, trots);
    pinocchio::framesForwardKinematics(model, data, q);
    q[2] = RADIUS - data.oMf[feet[0]].translation().z();

    Solver solver(model, 4);
    Rows force(4, 3);
    Eigen::VectorXd impulse(12), velocity(nv), torque(na);
    std::vector<double> solved, whole;
    int failures = 0, heap = 0;
    const int ticks = static_cast<int>(std::atof(argv[2]) / DT);
    auto due = std::chrono::steady_clock::now();
    for (int tick = 0; tick < ticks; tick++) {
        std::this_thread::sleep_until(due += std::chrono::microseconds(1000));
        const auto begin = std::chrono::steady_clock::now();
        pinocchio::computeJointJacobians(model, data, q);
        pinocchio::updateFramePlacements(model, data);
        pinocchio::crba(model, data, q, pinocchio::Convention::WORLD);
        data.M.triangularView<Eigen::StrictlyLower>() = data.M.transpose();
        pinocchio::nonLinearEffects(model, data, q, v);
        const Contacts contacts(model, data, feet);
        const double t = tick * DT;
        const Eigen::VectorXd wanted = reference(model, t, trots);
        const Eigen::VectorXd speed = (reference(model, t + DT, trots) - wanted) / DT;
        const Eigen::VectorXd demand = 400.0 * (wanted - q.tail(na)) + 40.0 * (speed - v.tail(na));
        idyn_input in{};
        in.v = v.data(), in.M = data.M.data(), in.h = data.nle.data(), in.axes = data.J.data(), in.acceleration = demand.data();
        in.contacts = static_cast<int64_t>(contacts.key.size()), in.key = contacts.key.data(), in.body = contacts.body.data();
        in.point = contacts.point.data(), in.normal = contacts.normal.data(), in.tangent = contacts.tangent.data();
        in.friction = contacts.friction.data(), in.gap = contacts.gap.data(), in.radius = contacts.radius.data();
        idyn_output out{};
        out.force = force.data(), out.impulse = impulse.data(), out.velocity = velocity.data(), out.torque = torque.data();
        const auto called = std::chrono::steady_clock::now();
        const int result = solver.solve(in, out);
        const auto end = std::chrono::steady_clock::now();
        solved.push_back(std::chrono::duration<double, std::micro>(end - called).count());
        whole.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
        failures += result != IDYN_CERTIFIED, heap += out.heap;
        if (result < 0) return std::fprintf(stderr, "%s\n", idyn_text(result)), 2;
        if (record.is_open()) {
            const double head[] = {static_cast<double>(result), static_cast<double>(in.contacts)};
            record.write(reinterpret_cast<const char *>(head), sizeof head);
            const auto write = [&record](const auto &m) { record.write(reinterpret_cast<const char *>(m.data()), 8 * m.size()); };
            write(q), write(v), write(demand), write(torque), write(velocity);
            write(force);
        }
        if (result == IDYN_CERTIFIED) v = velocity;
        q = pinocchio::integrate(model, q, DT * v);
    }
    std::printf("%d ticks, %d not certified, %d pieces of memory taken, base at %.3f m\n", ticks, failures, heap, q[2]);
    std::printf("idyn_solve: median %.1f, 99 %% %.1f, max %.1f us\n", percentile(solved, 0.5), percentile(solved, 0.99), percentile(solved, 1.0));
    std::printf("with Pinocchio: median %.1f, 99 %% %.1f, max %.1f us\n", percentile(whole, 0.5), percentile(whole, 0.99), percentile(whole, 1.0));
    return failures ? 1 : 0;
}
