/* A block of 10 kg on four corners, pushed sideways with 15 N: the forces of the ground and the motion after 1 ms, by Coulomb's
   law, from plain arrays. */
#include <idyn.h>
#include <stdio.h>
#include <stdlib.h>

enum { NV = 6, N = 4 };

int main(void) {
    const int64_t parent[] = {0, 0}, joint[NV] = {1, 1, 1, 1, 1, 1};
    const double mass = 10.0, g = 9.81, z = 0.1, inertia[] = {0.10, 0.14, 0.17};
    const idyn_robot robot = {.nv = NV, .joints = 2, .parent = parent, .joint = joint, .weight = mass * g};
    idyn_options options;
    idyn_defaults(&options);

    int64_t size = idyn_workspace(&robot, N);
    if (size < 0) return fprintf(stderr, "%s\n", idyn_text((int)size)), 2;
    void *memory = aligned_alloc(64, (size_t)(size + 63) / 64 * 64);
    idyn_solver *solver;
    int result = idyn_prepare(memory, size, &robot, &options, N, &solver);
    if (result) return fprintf(stderr, "%s\n", idyn_text(result)), 2;

    /* the centre of mass is at height z: a turn about it moves the world's origin; at rest, the frame of v does not matter */
    double M[NV * NV] = {0}, h[NV] = {0, 0, mass * g}, v[NV] = {0}, push[NV] = {15.0};
    double axes[NV * 6] = {1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, z, 0, 1, 0, 0, -z, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1};
    for (int k = 0; k < 3; k++) M[7 * k] = mass, M[7 * (k + 3)] = inertia[k];
    const int64_t body[N] = {1, 1, 1, 1};
    const double point[N][3] = {{0.2, 0.15, 0}, {0.2, -0.15, 0}, {-0.2, 0.15, 0}, {-0.2, -0.15, 0}};
    const double normal[N][3] = {{0, 0, 1}, {0, 0, 1}, {0, 0, 1}, {0, 0, 1}}, tangent[N][3] = {{1}, {1}, {1}, {1}};
    const double friction[N] = {0.6, 0.6, 0.6, 0.6};
    const idyn_input input = {.v = v, .M = M, .h = h, .axes = axes, .applied = push, .contacts = N, .body = body, .point = point[0],
                              .normal = normal[0], .tangent = tangent[0], .friction = friction};

    double force[N][3], impulse[3 * N], velocity[NV], torque[1];
    idyn_output output = {.force = force[0], .impulse = impulse, .velocity = velocity, .torque = torque};
    result = idyn_solve(solver, &input, &output);
    printf("%s, largest residual of the law %.1e m/s\n", idyn_text(result), output.residuals.complementarity);
    for (int i = 0; i < N; i++) printf("corner %d: %8.3f %8.3f %8.3f N\n", i, force[i][0], force[i][1], force[i][2]);
    printf("velocity after 1 ms: %.3e m/s\n", velocity[0]);
    printf("again: %s\n", idyn_text(idyn_certify(solver, &input, NULL, &output)));
    free(memory);
    return result;
}
