/* idyn from C and C++: contact forces and joint torques, predicted together, with a certificate.

   From the dynamics of a robot, its contacts and the demanded joint accelerations:

       M (v+ - v) = J' p + dt (P' tau - h)          p obeys the contact law, v+ and tau realise the demand

   A solver lives in memory of the caller. `idyn_solve` takes no lock and keeps no pointer to the caller's arrays; one solver
   serves one thread at a time. Memory beyond the workspace is counted in `idyn_output.heap`. All arrays are contiguous, rows
   first; matrices may be symmetric or column-major where that is the same. Frames: everything is in the world, SI units.

   The interface is stable: a library serves programs that were compiled with an equal IDYN_VERSION. */
#ifndef IDYN_H
#define IDYN_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define IDYN_VERSION 2

typedef enum { IDYN_COULOMB, IDYN_NO_SLIP, IDYN_SAP, IDYN_CONTACT_FREE } idyn_law;
typedef enum { IDYN_SELECT_OFF, IDYN_SELECT_TORQUE, IDYN_SELECT_TORQUE_CHANGE, IDYN_SELECT_IMPULSE_CHANGE, IDYN_SELECT_FORCE } idyn_selection;
typedef enum { IDYN_CONSISTENCY_OFF, IDYN_STICK, IDYN_HOLD } idyn_consistency;

/* A robot: a tree of joints in the order of Pinocchio. Joint 0 is the world; parents come before their children. With joints = 0
   parent and joint are not read, and contacts are given by rows, see `idyn_input`. */
typedef struct {
    int64_t nv, joints, actuated;  /* velocities; joints with the world, or 0; velocities that have a motor */
    const int64_t *parent;         /* parent of each joint (joints); of the world: 0 */
    const int64_t *joint;          /* joint of each velocity, ascending, from 1 (nv) */
    const int64_t *motor;          /* velocities that have a motor, ascending (actuated) */
    const double *torque_limit;    /* [N m] (actuated), INFINITY: none; NULL: none at all */
    double weight;                 /* [N] */
} idyn_robot;

/* Settings. `idyn_defaults` fills those of the server, with which robots stand on ground that yields. */
typedef struct {
    int32_t law, selection, consistency;  /* see the enumerations above */
    int32_t warm_start, drift;            /* 1: start from the last basis; 1: the law applies at the end of the period, with J_dot v */
    double dt;                            /* period [s] */
    double noise, touching;               /* gaps up to these count as closed, and must stick under IDYN_HOLD [m] */
    double recovery_speed;                /* largest speed at which penetration is undone [m/s] */
    double relaxation, memory;            /* T_r, T_p of the contact compliance model [s]; 0: rigid */
    double independent;                   /* rank threshold for unlimited friction */
    double force_limit;                   /* of a contact, in weights of the robot; INFINITY: none */
} idyn_options;

/* What is measured and demanded in one period. Arrays of contacts have n rows. A robot with joints takes axes, body, other, point,
   normal, tangent and radius, from which J and J_dot v follow. A robot without joints takes J and J_dot_v; those others must be
   NULL, all forces are along the rows of J, and v is in any coordinates that M, h and J have. Forces of the last period are
   remembered along the rows too: give a contact a new key if its directions jump. */
typedef struct {
    const double *v;             /* generalised velocity [m/s, rad/s] (nv) */
    const double *M, *h;         /* mass matrix, both triangles (nv, nv); bias forces with gravity [N, N m] (nv) */
    const double *axes;          /* spatial velocity (linear at the world's origin, angular) for unit velocities (nv, 6): the
                                    memory of Pinocchio's `data.J` after `computeJointJacobians`. J_dot v is that of axes
                                    fixed in the body that they move (a free base: velocity in its own frame) */
    const double *J;             /* contact rows (3n, nv): from v to the velocity of the first body minus the other's at each
                                    contact, along s, t, n: orthogonal unit vectors, s x t = n, from the other body to the first */
    const double *J_dot_v;       /* rate of J v at constant v [m/s^2] (3n); NULL: only if options.drift = 0 */
    const double *applied;       /* further generalised force [N, N m] (nv); NULL: none */
    const double *acceleration;  /* demand [rad/s^2] (actuated) */
    const double *preferred;     /* target of IDYN_SELECT_FORCE [N] (n, 3), as in `force`; NULL: 0 */
    int64_t contacts;            /* n */
    const int64_t *key;          /* identity of each contact from period to period (n); NULL: its row */
    const int64_t *body, *other; /* joints that carry the two bodies (n); other = NULL: the ground, joint 0 */
    const double *point;         /* contact points [m] (n, 3) */
    const double *normal;        /* unit vectors from the other body to the first (n, 3) */
    const double *tangent;       /* unit vectors at right angles to the normals (n, 3) */
    const double *friction;      /* coefficients >= 0, INFINITY: no limit (n) */
    const double *gap;           /* distances [m] (n); NULL: 0 */
    const double *radius;        /* of the first body's surface at the contact [m] (n); NULL: 0, a point */
} idyn_input;

/* Residuals of the certificate: the conditions of the dynamics and of the law, recomputed from the input by code that no solver
   uses; with given rows from these, so that wrong rows are not found. A certified solution has none above 1e-8; units: see
   `idyn.types.Residuals`. */
typedef struct {
    double dynamics, demand, complementarity, cone, penetration, slip;
} idyn_residuals;

typedef struct {
    double *force;               /* contact forces on the first bodies [N] (n, 3), in the world, or along given rows */
    double *impulse;             /* in rows s, t = n x s, n [N s] (3n) */
    double *velocity;            /* v+ at the end of the period (nv) */
    double *torque;              /* tau [N m] (actuated) */
    idyn_residuals residuals;
    double change;               /* of the demanded joint velocities by `consistency`, max norm [rad/s] */
    double torque_excess;        /* largest excess of a torque over its limit [N m]; 0: within */
    double force_excess;         /* largest excess of a contact force over the limit [N] */
    int32_t attempt, iterations; /* number of the solver attempt, its pivots or iterations */
    int32_t choice;              /* dimension of the choice between equivalent impulses */
    int32_t heap;                /* pieces of memory taken beside the workspace: 0 in usual periods */
} idyn_output;

/* Results. Negative: nothing was computed, the outputs are undefined; `idyn_text` names the cause. */
enum {
    IDYN_CERTIFIED = 0,
    IDYN_NOT_CERTIFIED = 1, /* no attempt was certified */
    IDYN_NO_SOLUTION = 2,   /* no contact impulse realises the demand */
    IDYN_REFUTED = 3,       /* of idyn_certify: a residual is too large */
    IDYN_NULL = -1, IDYN_SIZES = -2, IDYN_TREE = -3, IDYN_MOTORS = -4, IDYN_LIMITS = -5, IDYN_OPTIONS = -6, IDYN_MEMORY = -7,
    IDYN_SOLVER = -8, IDYN_CONTACTS = -9, IDYN_VELOCITY = -10, IDYN_DYNAMICS = -11, IDYN_APPLIED = -12, IDYN_DEMAND = -13,
    IDYN_PREFERRED = -14, IDYN_POINT = -15, IDYN_NORMAL = -16, IDYN_TANGENT = -17, IDYN_FRICTION = -18, IDYN_GAP = -19,
    IDYN_BODY = -20, IDYN_RADIUS = -21, IDYN_KEY = -22, IDYN_PROCESSOR = -23, IDYN_FAILED = -24,
    IDYN_SOLUTION = -25, IDYN_ROWS = -26, IDYN_DRIFT = -27, IDYN_FORM = -28
};

typedef struct idyn_solver idyn_solver;

int idyn_version(void);
const char *idyn_text(int result);
void idyn_defaults(idyn_options *options);

/* Bytes that a solver for up to `contacts` contacts needs; negative: a result above, the robot is malformed. */
int64_t idyn_workspace(const idyn_robot *robot, int64_t contacts);

/* Prepare a solver in `memory` (aligned to 64 bytes, `size` bytes), which must outlive it. The robot's arrays are copied. */
int idyn_prepare(void *memory, int64_t size, const idyn_robot *robot, const idyn_options *options, int64_t contacts,
                 idyn_solver **solver);

/* Solve one period. The solver remembers basis, forces and torques for the next one; `idyn_forget` makes it start anew. */
int idyn_solve(idyn_solver *solver, const idyn_input *input, idyn_output *output);
void idyn_forget(idyn_solver *solver);

/* Check a solution, of this library or of another one, by the conditions of the solver's law: impulse, velocity and torque of
   `output` are read; residuals, change and forces are written. last_force: contact forces of the last period [N] (n, 3),
   as in `force`, which matter if `memory` > 0; NULL: there was none. */
int idyn_certify(idyn_solver *solver, const idyn_input *input, const double *last_force, idyn_output *output);

#ifdef __cplusplus
}
#endif
#endif
