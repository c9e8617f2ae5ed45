/* The C interface above the kernels, see idyn.h. A solver is one block of memory of the caller: records that the kernels work on,
   their arrays, what one period leaves for the next, and an arena for the kernels' own arrays (runtime.c). */
#include "idyn.h"
#include "idyn_kernels.h"
#include <string.h>

int idyn_processor(void);
void idyn_arena_begin(char *memory, int64_t size);
int32_t idyn_arena_end(void);

typedef struct { /* a law, as `header.py` writes it */
    int (*tick)(void *), (*again)(void *);
    int64_t method_tag, law_tag, kernels[8], count, cold, width;
    double directions[64];
    LawData law;
} LawRow;
static const LawRow LAWS[] = {IDYN_LAWS}; /* in the order of idyn_law */

enum { ATTEMPTS = 8, EDGES = 32, FACE = 34, CHOICES = 3, ARENA = 1 << 18 };
static const uint64_t SOUND = 0x6964796e31736f6cu;

struct idyn_solver {
    uint64_t sound;
    int64_t nv, joints, na, most, size; /* most: contacts that the arrays have room for; size of the workspace [bytes] */
    int64_t by_rows;                    /* contacts are given by rows: to the kernels the robot is one joint with all velocities */
    const LawRow *row;
    idyn_options options;
    Model model;
    Given given;
    Dynamics dynamics;
    ReducedProblem problem;
    SoftConstraints soft;
    LawData law, conditions; /* of the law's kernel, and of the certificate */
    Finish finish;
    Method method;
    int64_t kernels[ATTEMPTS];
    double directions[2 * EDGES];
    /* the last period: keys, basis, forces in the world, torques */
    int64_t warm, kept;
    int64_t *kept_key;
    uint8_t *kept_basis;
    double *kept_force, *kept_torque;
    /* this period: start, and values of inputs that were left out */
    uint8_t *basis;
    double *last_force, *zeros, *normal, *tangent;
    int64_t *ground, *joint_one;
    char *arena;
};

/* ---- memory: the same walk counts bytes (no base) and hands out addresses ---- */

typedef struct { char *base; int64_t used; } Bump;
static void *take(Bump *b, int64_t bytes) {
    void *address = b->base ? b->base + b->used : NULL;
    b->used += (bytes + 63) / 64 * 64;
    return address;
}
#define ARRAY1(record, field, n) ((record).field##_shape[0] = (n), (record).field = take(b, (n) * (int64_t)sizeof *(record).field))
#define ARRAY2(record, field, n, m) \
    ((record).field##_shape[0] = (n), (record).field##_shape[1] = (m), \
     (record).field = take(b, (n) * (m) * (int64_t)sizeof *(record).field))

/* Arrays of the records for the solver's largest number of contacts, as the constructors of `idyn.terms.stages` make them. */
static void place(idyn_solver *s, Bump *b) {
    int64_t nv = s->nv, na = s->na, nu = nv - na, n = s->most;
    Model *m = &s->model;
    ARRAY1(*m, parents, s->joints), ARRAY1(*m, dof_joint, nv), ARRAY1(*m, u, nu), ARRAY1(*m, a, na), ARRAY1(*m, tau_max, na);
    ARRAY2(*m, support, s->joints, nv), ARRAY2(*m, unit_spans, 0, 2), ARRAY2(*m, loops, 0, 2);
    Given *g = &s->given;
    ARRAY1(*g, v, nv), ARRAY2(*g, M, nv, nv), ARRAY1(*g, h, nv), ARRAY2(*g, axes, nv, 6), ARRAY1(*g, own_origin, 3);
    ARRAY1(*g, bodies, n), ARRAY1(*g, others, n), ARRAY1(*g, mu, n), ARRAY1(*g, gaps, n), ARRAY1(*g, radii, n);
    ARRAY2(*g, points, n, 3), ARRAY2(*g, normals, n, 3), ARRAY2(*g, tangents, n, 3), ARRAY1(*g, last, 3 * n), ARRAY1(*g, q, 0);
    ARRAY2(*g, slope, nv, nv), ARRAY2(*g, own_slope, 0, nv), g->ends_shape[1] = g->own_ends_shape[1] = 2;
    g->ends_shape[2] = g->own_ends_shape[2] = 3, g->ends = g->own_ends = take(b, 0);
    Dynamics *d = &s->dynamics;
    ARRAY2(*d, J, 3 * n, nv), ARRAY1(*d, drift, 3 * n), ARRAY2(*d, G, 0, nv), ARRAY1(*d, rate, 0);
    ReducedProblem *p = &s->problem;
    ARRAY1(*p, q_ddot, na), ARRAY2(*p, L, nu, nu), ARRAY1(*p, v_free, nv), ARRAY1(*p, load, nv), ARRAY2(*p, Y, 3 * n, nu);
    ARRAY1(*p, b, 3 * n), ARRAY1(*p, energy, 3 * n), ARRAY1(*p, moments, 3 * n), ARRAY2(*p, C, 3 * n, 0), ARRAY1(*p, closing_free, 0);
    Finish *f = &s->finish;
    ARRAY1(*f, target, 3 * n > na ? 3 * n : na), ARRAY1(*f, closing, 0), ARRAY2(*f, moment, n, 3), ARRAY1(*f, figures, 9);
    ARRAY2(*f, flags, n, FACE), ARRAY2(*f, directional, n, 2), ARRAY1(*f, mu, n), ARRAY1(*f, multipliers, n);
    ARRAY2(s->method, basis, n, s->row ? s->row->width : ATTEMPTS);
    ARRAY2(s->soft, contacts, 0, 1), ARRAY2(s->soft, joints, 0, 1), ARRAY1(s->soft, q_index, 0);
    s->kept_key = take(b, 8 * n), s->kept_basis = take(b, ATTEMPTS * n), s->kept_force = take(b, 24 * n), s->kept_torque = take(b, 8 * na);
    s->basis = take(b, ATTEMPTS * n), s->last_force = take(b, 24 * n), s->zeros = take(b, 8 * (3 * n + 6 * nv));
    s->normal = take(b, 24 * n), s->tangent = take(b, 24 * n), s->ground = take(b, 8 * n), s->joint_one = take(b, 8 * n);
    s->arena = take(b, ARENA + 16 * (nv * nv + 9 * n * n + 6 * n * nv) * 8);
}

/* Rows of the arrays for n contacts. */
static void resize(idyn_solver *s, int64_t n) {
    Given *g = &s->given;
    ReducedProblem *p = &s->problem;
    Finish *f = &s->finish;
    g->bodies_shape[0] = g->others_shape[0] = g->mu_shape[0] = g->gaps_shape[0] = g->radii_shape[0] = n;
    g->points_shape[0] = g->normals_shape[0] = g->tangents_shape[0] = n, g->last_shape[0] = 3 * n;
    s->dynamics.J_shape[0] = s->dynamics.drift_shape[0] = p->Y_shape[0] = p->b_shape[0] = p->energy_shape[0] = 3 * n;
    p->moments_shape[0] = p->C_shape[0] = p->bound_shape[0] = 3 * n;
    f->target_shape[0] = f->of_forces ? 3 * n : s->na;
    f->moment_shape[0] = f->flags_shape[0] = f->directional_shape[0] = f->mu_shape[0] = f->multipliers_shape[0] = n;
    s->method.basis_shape[0] = n;
    g->rows_shape[0] = g->rows_dot_v_shape[0] = s->by_rows ? 3 * n : 0;
}

/* ---- preparation ---- */

static int flaw_of_robot(const idyn_robot *r, int64_t contacts) {
    if (!r) return IDYN_NULL;
    if (r->nv < 1 || r->nv > 1000 || contacts < 0 || contacts > 1000 || r->actuated < 0 || r->actuated > r->nv) return IDYN_SIZES;
    if (r->joints != 0 && (r->joints < 2 || r->joints > r->nv + 1)) return IDYN_SIZES;
    if ((r->joints && !(r->parent && r->joint)) || (r->actuated && !r->motor)) return IDYN_NULL;
    for (int64_t j = 1; j < r->joints; j++)
        if (r->parent[j] < 0 || r->parent[j] >= j) return IDYN_TREE;
    for (int64_t k = 0; r->joints && k < r->nv; k++)
        if (r->joint[k] < (k ? r->joint[k - 1] : 1) || r->joint[k] >= r->joints) return IDYN_TREE;
    for (int64_t k = 0; k < r->actuated; k++) {
        if (r->motor[k] < (k ? r->motor[k - 1] + 1 : 0) || r->motor[k] >= r->nv) return IDYN_MOTORS;
        if (r->torque_limit && !(r->torque_limit[k] >= 0.0)) return IDYN_LIMITS;
    }
    return isfinite(r->weight) && r->weight > 0.0 ? 0 : IDYN_LIMITS;
}

static int sound_options(const idyn_options *o) {
    return o->law >= 0 && o->law <= IDYN_CONTACT_FREE && o->selection >= 0 && o->selection <= IDYN_SELECT_FORCE && o->consistency >= 0 &&
           o->consistency <= IDYN_HOLD && isfinite(o->dt) && o->dt > 0.0 && o->noise >= 0.0 && o->touching >= 0.0 &&
           o->recovery_speed >= 0.0 && o->relaxation >= 0.0 && o->memory >= 0.0 && isfinite(o->memory) && o->independent >= 0.0 &&
           o->force_limit >= 0.0;
}

static int64_t bytes_of(const idyn_robot *r, int64_t contacts) {
    idyn_solver s = {.nv = r->nv, .joints = r->joints ? r->joints : 2, .na = r->actuated, .most = contacts};
    Bump b = {NULL, (sizeof s + 63) / 64 * 64};
    place(&s, &b);
    return b.used;
}

int64_t idyn_workspace(const idyn_robot *robot, int64_t contacts) {
    int flaw = flaw_of_robot(robot, contacts);
    return flaw ? flaw : bytes_of(robot, contacts);
}

static void fill_model(idyn_solver *s, const idyn_robot *r) {
    Model *m = &s->model;
    int64_t unactuated = 0, actuated = 0;
    for (int64_t j = 1; j < r->joints; j++) m->parents[j] = r->parent[j];
    for (int64_t k = 0; k < r->nv; k++) {
        m->dof_joint[k] = s->by_rows ? 1 : r->joint[k];
        if (actuated < r->actuated && r->motor[actuated] == k) m->a[actuated++] = k;
        else m->u[unactuated++] = k;
        for (int64_t j = 0; j < s->joints; j++) { /* does velocity k move joint j? */
            int64_t above = j;
            while (above && above != m->dof_joint[k]) above = m->parents[above];
            m->support[j * r->nv + k] = above != 0;
        }
    }
    for (int64_t k = 0; k < r->actuated; k++) m->tau_max[k] = r->torque_limit ? r->torque_limit[k] : INFINITY;
    for (int64_t i = 0; i < s->most; i++) s->joint_one[i] = 1, s->normal[3 * i + 2] = s->tangent[3 * i] = 1.0;
}

static void fill_settings(idyn_solver *s, double weight) {
    const idyn_options *o = &s->options;
    Given *g = &s->given;
    Finish *f = &s->finish;
    g->dt = o->dt, g->noise = o->noise, g->recovery_speed = o->recovery_speed, g->touching = o->touching;
    g->independent = o->independent, g->drift = o->drift != 0;
    g->keep = o->relaxation > 0.0 && o->dt < o->relaxation ? 1.0 - o->dt / o->relaxation : 0.0;
    f->selects = o->selection != IDYN_SELECT_OFF;
    f->of_forces = o->selection == IDYN_SELECT_FORCE || o->selection == IDYN_SELECT_IMPULSE_CHANGE;
    f->near = o->selection == IDYN_SELECT_FORCE ? 2 : o->selection == IDYN_SELECT_OFF || o->selection == IDYN_SELECT_TORQUE ? 0 : 1;
    f->force_limit = o->force_limit * weight;
    s->method.projects_first = o->consistency != IDYN_CONSISTENCY_OFF && o->law != IDYN_SAP; /* of springs all demands are feasible */
    s->method.closed = o->consistency == IDYN_HOLD;
}

static void connect(idyn_solver *s) {
    s->model.tag = Model_TAG, s->given.tag = Given_TAG, s->dynamics.tag = Dynamics_TAG, s->problem.tag = ReducedProblem_TAG;
    s->soft.tag = SoftConstraints_TAG, s->soft.impratio = 1.0, s->finish.tag = Finish_TAG, s->method.tag = s->row->method_tag;
    s->law = s->row->law, s->law.tag = s->row->law_tag, s->law.directions = s->directions, s->law.soft = &s->soft;
    memcpy(s->directions, s->row->directions, sizeof s->directions), memcpy(s->kernels, s->row->kernels, sizeof s->kernels);
    s->conditions = s->law, s->conditions.tag = LawData_TAG;
    s->given.model = &s->model, s->given.own_M_shape[0] = s->given.own_M_shape[1] = s->given.own_h_shape[0] = s->nv;
    s->given.own_axes_shape[0] = s->nv, s->given.own_axes_shape[1] = 6, s->given.rows_shape[1] = s->nv;
    s->dynamics.given = &s->given, s->problem.dynamics = &s->dynamics;
    s->problem.bound = s->dynamics.J, s->problem.bound_shape[1] = s->nv;
    s->finish.problem = s->method.problem = &s->problem, s->finish.law = &s->conditions, s->method.law = &s->law;
    s->method.finish = &s->finish, s->method.kernels = s->kernels, s->method.kernels_shape[0] = s->row->count;
}

int idyn_prepare(void *memory, int64_t size, const idyn_robot *robot, const idyn_options *options, int64_t contacts,
                 idyn_solver **solver) {
    if (!memory || !options || !solver) return IDYN_NULL;
    *solver = NULL;
    int flaw = flaw_of_robot(robot, contacts);
    if (flaw) return flaw;
    if (!sound_options(options)) return IDYN_OPTIONS;
    if (!idyn_processor()) return IDYN_PROCESSOR;
    if ((uintptr_t)memory % 64 || size < bytes_of(robot, contacts)) return IDYN_MEMORY;
    memset(memory, 0, (size_t)bytes_of(robot, contacts));
    idyn_solver *s = memory;
    s->nv = robot->nv, s->joints = robot->joints ? robot->joints : 2, s->na = robot->actuated, s->most = contacts;
    s->by_rows = !robot->joints, s->options = *options, s->row = &LAWS[options->law];
    Bump b = {memory, (sizeof *s + 63) / 64 * 64};
    place(s, &b);
    s->size = b.used;
    connect(s);
    s->finish.flags_shape[1] = 2 + s->row->law.directions_shape[0];
    fill_model(s, robot);
    fill_settings(s, robot->weight);
    s->sound = SOUND;
    *solver = s;
    return 0;
}

void idyn_forget(idyn_solver *solver) { if (solver && solver->sound == SOUND) solver->warm = 0; }

void idyn_defaults(idyn_options *options) {
    if (options)
        *options = (idyn_options){.law = IDYN_COULOMB, .selection = IDYN_SELECT_FORCE, .consistency = IDYN_HOLD, .warm_start = 1, .drift = 1,
                                  .dt = 1e-3, .noise = 1e-5, .touching = 3e-4, .recovery_speed = 0.0, .relaxation = 0.05,
                                  .memory = 0.005, .independent = 1e-2, .force_limit = 20.0};
}

/* ---- one period ---- */

static int all_finite(const double *x, int64_t count) {
    int sound = 1;
    for (int64_t k = 0; k < count; k++) sound &= isfinite(x[k]) != 0;
    return sound;
}

/* A robot with joints takes axes and points, one without takes rows. */
static int flaw_of_form(const idyn_solver *s, const idyn_input *in) {
    int64_t n = in->contacts;
    const int placed = in->axes || in->body || in->other || in->point || in->normal || in->tangent || in->radius;
    if (s->by_rows ? placed : in->J || in->J_dot_v) return IDYN_FORM;
    if (!s->by_rows) return !in->axes || (n && !(in->body && in->point && in->normal && in->tangent)) ? IDYN_NULL : 0;
    if (n && !in->J) return IDYN_NULL;
    if (n && !in->J_dot_v && s->options.drift) return IDYN_DRIFT;
    return !all_finite(in->J, 3 * n * s->nv) || (in->J_dot_v && !all_finite(in->J_dot_v, 3 * n)) ? IDYN_ROWS : 0;
}

static int flaw_of_input(const idyn_solver *s, const idyn_input *in, const idyn_output *out) {
    if (!s || !in || !out) return IDYN_NULL;
    if (s->sound != SOUND) return IDYN_SOLVER;
    int64_t n = in->contacts;
    if (n < 0 || n > s->most) return IDYN_CONTACTS;
    if (!in->v || !in->M || !in->h || (s->na && (!in->acceleration || !out->torque)) || !out->velocity) return IDYN_NULL;
    if (n && !(in->friction && out->impulse && out->force)) return IDYN_NULL;
    int flaw = flaw_of_form(s, in);
    if (flaw) return flaw;
    if (!all_finite(in->v, s->nv)) return IDYN_VELOCITY;
    if (!all_finite(in->M, s->nv * s->nv) || !all_finite(in->h, s->nv)) return IDYN_DYNAMICS;
    if (in->axes && !all_finite(in->axes, 6 * s->nv)) return IDYN_DYNAMICS;
    if (in->applied && !all_finite(in->applied, s->nv)) return IDYN_APPLIED;
    if (!all_finite(in->acceleration, s->na)) return IDYN_DEMAND;
    for (int64_t k = 0; in->preferred && k < 3 * n; k++)
        if (!(fabs(in->preferred[k]) <= 1e9)) return IDYN_PREFERRED;
    for (int64_t i = 0; in->key && i < n; i++)
        for (int64_t k = 0; k < i; k++)
            if (in->key[i] == in->key[k]) return IDYN_KEY;
    return 0;
}

/* Words of a call: addresses with shapes, numbers; results follow. */
typedef struct { int64_t word[128]; int at; } Block;
static void put(Block *b, const void *address) { b->word[b->at++] = (int64_t)(intptr_t)address; }
static void put1(Block *b, const void *address, int64_t n) { put(b, address), b->word[b->at++] = n; }
static void put2(Block *b, const void *address, int64_t n, int64_t m) { put1(b, address, n), b->word[b->at++] = m; }

static void put_state(Block *b, const idyn_solver *s, const idyn_input *in) { /* q is known by M, h and the axes only */
    put1(b, s->zeros, 0), put1(b, in->v, s->nv), put1(b, in->applied ? in->applied : s->zeros, in->applied ? s->nv : 0);
    put1(b, in->acceleration ? in->acceleration : s->zeros, s->na);
}
static void put_contacts(Block *b, const idyn_solver *s, const idyn_input *in) {
    int64_t n = in->contacts;
    put1(b, in->body ? in->body : s->joint_one, n), put1(b, in->other ? in->other : s->ground, n);
    put2(b, in->point ? in->point : s->zeros, n, 3);
    put2(b, in->normal ? in->normal : s->normal, n, 3), put2(b, in->tangent ? in->tangent : s->tangent, n, 3);
    put1(b, in->friction, n), put1(b, in->gap ? in->gap : s->zeros, n), put1(b, in->radius ? in->radius : s->zeros, n);
}
static void put_out(Block *b, const idyn_solver *s, int64_t n, const idyn_output *out) {
    put1(b, out->impulse ? out->impulse : s->zeros, 3 * n), put2(b, out->force ? out->force : s->zeros, n, 3);
    put1(b, out->velocity, s->nv), put1(b, out->torque ? out->torque : s->zeros, s->na);
}

/* Basis and forces of the last period, by key; new contacts start open. */
static void recall(idyn_solver *s, const idyn_input *in) {
    int64_t width = s->row->width;
    for (int64_t i = 0; i < in->contacts; i++) {
        int64_t key = in->key ? in->key[i] : i, k = 0;
        memset(s->basis + i * width, 0, (size_t)width), memset(s->last_force + 3 * i, 0, 24);
        while (k < s->kept && s->kept_key[k] != key) k++;
        if (!s->warm || k == s->kept) continue;
        memcpy(s->basis + i * width, s->kept_basis + k * width, (size_t)width);
        memcpy(s->last_force + 3 * i, s->kept_force + 3 * k, 24);
    }
}
static void keep(idyn_solver *s, const idyn_input *in, const uint8_t *basis, const idyn_output *out) {
    int64_t n = in->contacts;
    for (int64_t i = 0; i < n; i++) s->kept_key[i] = in->key ? in->key[i] : i;
    if (n > 0 && s->row->width > 0) memcpy(s->kept_basis, basis, (size_t)(n * s->row->width));
    if (n) memcpy(s->kept_force, out->force, 24 * (size_t)n);
    if (s->na) memcpy(s->kept_torque, out->torque, 8 * (size_t)s->na);
    s->kept = n, s->warm = s->options.warm_start != 0;
}

enum { RUNG, STATUS, ITERATIONS, NULL_DIM, FINISHED, RESULTS, RAY = 1, UNSELECTED = 2, MALFORMED = -2 };

/* `tick`, or, with a demand to meet, `solve_again` with its dynamics. Fills the results; returns whether the kernel ran. */
static int attempt(idyn_solver *s, const idyn_input *in, const idyn_output *out, int again, int64_t *found) {
    int64_t n = in->contacts;
    Block b = {.at = 1};
    put(&b, &s->method);
    if (again) put1(&b, in->acceleration, s->na), put1(&b, in->acceleration, s->na);
    else put_state(&b, s, in), put_contacts(&b, s, in), put2(&b, s->basis, n, s->row->width);
    put2(&b, s->last_force, s->warm ? n : 0, 3), put1(&b, s->kept_torque, s->warm ? s->na : 0);
    put2(&b, in->preferred ? in->preferred : s->zeros, in->preferred ? n : 0, 3);
    if (again) put2(&b, s->basis, n, s->row->width);
    put_out(&b, s, n, out);
    if (again) b.word[b.at++] = 0; /* change of the demand: 0.0 */
    b.word[b.at++] = s->warm ? 0 : s->row->cold;
    int ran = (again ? s->row->again : s->row->tick)(b.word);
    memcpy(found, b.word + b.at, RESULTS * sizeof *found);
    return ran;
}

static void report(const idyn_solver *s, const int64_t *found, idyn_output *out) {
    const double *f = s->finish.figures;
    out->residuals = (idyn_residuals){f[0], f[1], f[2], f[3], f[4], f[5]};
    out->torque_excess = f[6], out->force_excess = f[7], out->change = f[8];
    out->attempt = (int32_t)found[RUNG], out->iterations = (int32_t)found[ITERATIONS], out->choice = (int32_t)found[NULL_DIM];
}

static int flaw_of_contacts(idyn_solver *s) {
    static const int FLAWS[] = {IDYN_FAILED, IDYN_POINT, IDYN_NORMAL, IDYN_TANGENT, IDYN_FRICTION, IDYN_GAP, IDYN_BODY, IDYN_RADIUS};
    Block b = {.at = 1};
    put(&b, &s->given);
    return IDYN_FLAW(b.word) && b.word[b.at] > 0 && b.word[b.at] < 8 ? FLAWS[b.word[b.at]] : IDYN_FAILED;
}

static int solve(idyn_solver *s, const idyn_input *in, idyn_output *out) {
    int64_t found[RESULTS];
    recall(s, in);
    s->given.remembers = s->warm, s->given.rho = s->warm ? s->options.memory / s->options.dt : 0.0;
    int ran = attempt(s, in, out, 0, found), again = 0;
    if (ran && found[RUNG] == MALFORMED) return flaw_of_contacts(s);
    if (ran && found[RUNG] < 0 && found[STATUS] != RAY && s->method.projects_first) /* the demand itself, not projected */
        ran = attempt(s, in, out, again = 1, found);
    if (ran && found[RUNG] >= 0 && found[FINISHED] == UNSELECTED) {
        Block b = {.at = 1};
        put(&b, &s->finish), put1(&b, in->acceleration, s->na), put_out(&b, s, in->contacts, out);
        ran = IDYN_CHOOSE(b.word);
        found[FINISHED] = b.word[b.at], found[NULL_DIM] = b.word[b.at + 1];
    }
    if (!ran || found[RUNG] < 0) {
        s->warm = 0;
        return !ran ? IDYN_FAILED : found[STATUS] == RAY ? IDYN_NO_SOLUTION : IDYN_NOT_CERTIFIED;
    }
    report(s, found, out);
    keep(s, in, again ? s->basis : s->method.basis, out);
    return IDYN_CERTIFIED;
}

/* Point the problem to the caller's terms for one call. */
static void borrow(idyn_solver *s, const idyn_input *in) {
    s->given.own_M = (double *)in->M, s->given.own_h = (double *)in->h, s->given.own_axes = in->axes ? (double *)in->axes : s->zeros;
    s->given.rows = (double *)in->J, s->given.rows_dot_v = in->J_dot_v ? (double *)in->J_dot_v : s->zeros;
    resize(s, in->contacts);
    idyn_arena_begin(s->arena, s->size - (s->arena - (char *)s));
}

int idyn_solve(idyn_solver *solver, const idyn_input *input, idyn_output *output) {
    int flaw = flaw_of_input(solver, input, output);
    if (flaw) return flaw;
    borrow(solver, input);
    int result = solve(solver, input, output);
    output->heap = idyn_arena_end();
    return result;
}

int idyn_certify(idyn_solver *solver, const idyn_input *input, const double *last_force, idyn_output *output) {
    int flaw = flaw_of_input(solver, input, output);
    if (flaw) return flaw;
    idyn_solver *s = solver;
    int64_t n = input->contacts;
    if (!all_finite(output->velocity, s->nv) || !all_finite(output->torque, s->na) || !all_finite(output->impulse, 3 * n)) return IDYN_SOLUTION;
    borrow(s, input);
    s->given.remembers = last_force != NULL, s->given.rho = last_force ? s->options.memory / s->options.dt : 0.0;
    double figures[7] = {0};
    Block b = {.at = 1};
    put(&b, &s->given), put(&b, &s->conditions);
    put_state(&b, s, input), put_contacts(&b, s, input);
    put2(&b, last_force ? last_force : s->zeros, last_force ? n : 0, 3), put1(&b, output->impulse ? output->impulse : s->zeros, 3 * n);
    put1(&b, output->velocity, s->nv), put1(&b, output->torque ? output->torque : s->zeros, s->na);
    put2(&b, s->last_force, n, 3), put1(&b, figures, 7);
    int ran = IDYN_CERTIFY(b.word);
    int64_t verdict = b.word[b.at];
    int result = !ran ? IDYN_FAILED : verdict < 0 ? flaw_of_contacts(s) : verdict ? IDYN_CERTIFIED : IDYN_REFUTED;
    output->heap = idyn_arena_end();
    if (result < 0) return result;
    output->residuals = (idyn_residuals){figures[0], figures[1], figures[2], figures[3], figures[4], figures[5]};
    output->change = figures[6];
    for (int64_t k = 0; k < 3 * n; k++) output->force[k] = s->last_force[k] / s->options.dt;
    return result;
}

int idyn_version(void) { return IDYN_VERSION; }

const char *idyn_text(int result) {
    static const char *TEXTS[] = {
        "certified", "not certified: no attempt of the law was; check units, gaps and that M is positive definite",
        "no solution: no contact impulse realises the demand", "refuted: a residual is above 1e-8",
    };
    static const char *FLAWS[] = {
        "a pointer that is needed is NULL", "robot: sizes out of range, at most 1000 velocities and contacts",
        "robot.parent, joint: expected parents before children and ascending joints", "robot.motor: expected ascending velocities",
        "robot.torque_limit, weight: expected limits >= 0 and a finite weight > 0", "options: a value is out of range",
        "memory: expected 64-byte alignment and the size of idyn_workspace", "solver: not prepared by idyn_prepare",
        "contacts: more than the solver was prepared for, or fewer than 0", "v: expected finite numbers",
        "M, h, axes: expected finite numbers", "applied: expected finite numbers", "acceleration: expected finite numbers",
        "preferred: expected components of at most 1e9 N", "point: expected finite coordinates", "normal: expected unit vectors",
        "tangent: expected unit vectors at right angles to the normals", "friction: expected >= 0, INFINITY for no limit",
        "gap: expected finite numbers", "body, other: expected two different joints", "radius: expected finite numbers >= 0",
        "key: expected different ones", "the library needs a processor with AVX2 and FMA", "a kernel failed: out of memory",
        "impulse, velocity, torque: expected finite numbers", "J, J_dot_v: expected finite numbers",
        "J_dot_v: expected with J; without it, options.drift must be 0",
        "J, axes: a robot with joints takes axes, body, point, normal, tangent; one without takes J, J_dot_v and none of these",
    };
    if (result >= 0 && result < 4) return TEXTS[result];
    return result < 0 && result >= IDYN_FORM ? FLAWS[-1 - result] : "unknown result";
}
