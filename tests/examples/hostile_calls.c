/* Random calls of the C interface, then malformed ones: `calls RANDOM MALFORMED`. The robot is a chain of two free bodies with six
   motors between them, with joint axes or with contact rows. Exits with 1 where a malformed call is not refused with a text. */
#include <idyn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NV = 12, NA = 6, MOST = 6 };

static double uniform(void) { return 2.0 * rand() / RAND_MAX - 1.0; }

typedef struct {
    double v[NV], M[NV * NV], h[NV], axes[6 * NV], applied[NV], demand[NA], preferred[3 * MOST];
    double J[3 * MOST * NV], J_dot_v[3 * MOST];
    double point[3 * MOST], normal[3 * MOST], tangent[3 * MOST], friction[MOST], gap[MOST], radius[MOST];
    int64_t key[MOST], body[MOST], other[MOST];
    idyn_input in;
} Case;

static void randomise(Case *c, int rows) {
    double root[NV][NV];
    for (int i = 0; i < NV; i++)
        for (int k = 0; k < NV; k++) root[i][k] = (i == k) * 1.5 + 0.3 * uniform();
    for (int i = 0; i < NV; i++) {
        c->v[i] = uniform(), c->h[i] = 20.0 * uniform(), c->applied[i] = 10.0 * uniform();
        for (int k = 0; k < NV; k++) {
            c->M[NV * i + k] = 0.0;
            for (int r = 0; r < NV; r++) c->M[NV * i + k] += root[i][r] * root[k][r];
        }
        for (int k = 0; k < 6; k++) c->axes[6 * i + k] = uniform();
    }
    for (int k = 0; k < 3 * MOST * NV; k++) c->J[k] = uniform();
    for (int k = 0; k < 3 * MOST; k++) c->J_dot_v[k] = uniform();
    for (int k = 0; k < NA; k++) c->demand[k] = 20.0 * uniform();
    int64_t n = rand() % (MOST + 1);
    for (int i = 0; i < MOST; i++) {
        double a = 3.14 * uniform(), b = 1.5 * uniform(), turn = 3.14 * uniform();
        double *N = c->normal + 3 * i, *T = c->tangent + 3 * i;
        double e[3] = {-sin(a), cos(a), 0.0}, f[3] = {-sin(b) * cos(a), -sin(b) * sin(a), cos(b)};
        N[0] = cos(a) * cos(b), N[1] = sin(a) * cos(b), N[2] = sin(b);
        for (int k = 0; k < 3; k++) T[k] = cos(turn) * e[k] + sin(turn) * f[k];
        for (int k = 0; k < 3; k++) c->point[3 * i + k] = uniform(), c->preferred[3 * i + k] = 50.0 * uniform();
        c->friction[i] = rand() % 5 ? fabs(uniform()) : rand() % 2 ? INFINITY : 0.0;
        c->gap[i] = rand() % 2 ? 0.0 : 1e-3 * uniform(), c->radius[i] = 0.02 * (rand() % 2);
        c->key[i] = 10 * i + rand() % 3, c->body[i] = 1 + rand() % 2, c->other[i] = rand() % 4 ? 0 : 3 - c->body[i];
    }
    c->in = (idyn_input){.v = c->v, .M = c->M, .h = c->h, .acceleration = c->demand, .contacts = n, .friction = c->friction};
    if (rows) c->in.J = c->J, c->in.J_dot_v = c->J_dot_v;
    else c->in.axes = c->axes, c->in.body = c->body, c->in.point = c->point, c->in.normal = c->normal, c->in.tangent = c->tangent;
    if (rand() % 2) c->in.applied = c->applied;
    if (rand() % 2) c->in.preferred = c->preferred;
    if (rand() % 2) c->in.gap = c->gap;
    if (rand() % 2) c->in.key = c->key;
    if (!rows && rand() % 2) c->in.radius = c->radius;
    if (!rows && rand() % 2) c->in.other = c->other;
}

static double wrong(void) {
    const double values[] = {NAN, INFINITY, -INFINITY};
    return values[rand() % 3];
}

static void spoil_rows(Case *c) {
    switch (rand() % 4) {
    case 0: c->in.J = NULL; break;
    case 1: c->J[rand() % (3 * MOST * NV)] = wrong(); break;
    case 2: c->J_dot_v[rand() % (3 * MOST)] = wrong(); break;
    case 3: c->in.normal = c->normal; break;
    }
}

/* Spoil one thing. */
static void spoil(Case *c, idyn_output *out, int rows) {
    int64_t i = rand() % MOST;
    int what = rand() % 20;
    c->in.contacts = MOST, c->in.gap = c->gap, c->in.key = c->key, c->in.applied = c->applied, c->in.preferred = c->preferred;
    if (rows && (what == 3 || what == 10 || what == 14 || what == 15 || what == 18)) {
        spoil_rows(c);
        return;
    }
    if (!rows) c->in.radius = c->radius;
    switch (what) {
    case 0: c->in.contacts = rand() % 2 ? -1 : INT64_MAX; break;
    case 1: c->in.v = NULL; break;
    case 2: c->in.M = NULL; break;
    case 3: c->in.body = NULL; break;
    case 4: c->in.acceleration = NULL; break;
    case 5: out->torque = NULL; break;
    case 6: out->force = NULL; break;
    case 7: c->v[rand() % NV] = wrong(); break;
    case 8: c->M[rand() % (NV * NV)] = wrong(); break;
    case 9: c->h[rand() % NV] = wrong(); break;
    case 10: c->axes[rand() % (6 * NV)] = wrong(); break;
    case 11: c->applied[rand() % NV] = wrong(); break;
    case 12: c->demand[rand() % NA] = wrong(); break;
    case 13: c->preferred[rand() % (3 * MOST)] = rand() % 2 ? wrong() : 1e10; break;
    case 14: c->point[rand() % (3 * MOST)] = wrong(); break;
    case 15: c->normal[3 * i] += 0.5; break;
    case 16: c->friction[i] = rand() % 2 ? NAN : -1.0; break;
    case 17: c->gap[i] = wrong(); break;
    case 18: c->body[i] = rand() % 2 ? -1 : INT64_MAX; break;
    case 19: c->key[i] = c->key[(i + 1) % MOST]; break;
    }
}

int main(int argc, char **argv) {
    const int64_t parent[] = {0, 0, 1}, joint[NV] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2}, motor[NA] = {6, 7, 8, 9, 10, 11};
    const double limit[NA] = {50, 50, 50, 50, 50, INFINITY};
    const idyn_robot robot = {NV, 3, NA, parent, joint, motor, limit, 200.0};
    long random = argc > 1 ? atol(argv[1]) : 1000, malformed = argc > 2 ? atol(argv[2]) : 100, answered = 0, refused = 0, heap = 0;
    const idyn_robot treeless = {.nv = NV, .actuated = NA, .motor = motor, .torque_limit = limit, .weight = 200.0};
    int64_t size = idyn_workspace(&robot, MOST), other = idyn_workspace(&treeless, MOST);
    int rows = 0;
    if (size < other) size = other;
    void *memory = aligned_alloc(64, (size_t)(size + 63) / 64 * 64);
    idyn_solver *solver = NULL;
    double force[3 * MOST], impulse[3 * MOST], velocity[NV], torque[NA];
    static Case c;
    for (long k = 0; k < random + malformed; k++) {
        if (k % 500 == 0) { /* another law, other settings */
            idyn_options options;
            idyn_defaults(&options);
            options.law = rand() % 4, options.selection = rand() % 5, options.consistency = rand() % 3, options.drift = rand() % 2;
            options.relaxation = rand() % 2 ? 0.0 : 0.05, options.memory = rand() % 2 ? 0.0 : 0.005;
            rows = k / 500 % 2;
            int result = idyn_prepare(memory, size, rows ? &treeless : &robot, &options, MOST, &solver);
            if (result) return fprintf(stderr, "prepare: %s\n", idyn_text(result)), 1;
        }
        randomise(&c, rows);
        idyn_output out = {.force = force, .impulse = impulse, .velocity = velocity, .torque = torque};
        if (k >= random) {
            spoil(&c, &out, rows);
            int result = rand() % 3 ? idyn_solve(solver, &c.in, &out) : idyn_certify(solver, &c.in, NULL, &out);
            if (result >= 0 || !strcmp(idyn_text(result), "unknown result"))
                return fprintf(stderr, "malformed call %ld: %d, %s\n", k - random, result, idyn_text(result)), 1;
            refused++;
            continue;
        }
        int result = idyn_solve(solver, &c.in, &out);
        if (result < 0) return fprintf(stderr, "random call %ld: %s\n", k, idyn_text(result)), 1;
        answered += result == IDYN_CERTIFIED, heap += out.heap;
        for (int j = 0; result == IDYN_CERTIFIED && j < NA; j++)
            if (!isfinite(torque[j])) return fprintf(stderr, "random call %ld: torque %g\n", k, torque[j]), 1;
    }
    printf("%ld certified %ld refused %ld pieces of memory\n", answered, refused, heap);
    free(memory);
    return 0;
}
