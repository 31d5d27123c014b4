/* The heavy top on its fixed point by the Munthe-Kaas method of order 4 on unit quaternions: what a
 * step costs without any generality.
 *
 * One source for one trajectory and for several: LANES doubles make one number. Coefficients are
 * polynomials of the squared angle, exact to rounding for rotations up to pi in a step, so that the
 * compiler can vectorise everything. q is scalar first, body to inertial; omega is body-fixed.
 */
#ifndef LANES
#define LANES 1
#endif

#if LANES == 1
typedef double real;
#else
typedef double real __attribute__((vector_size(8 * LANES)));
#endif

typedef struct { real x, y, z; } vector;
typedef struct { real w, x, y, z; } quaternion;
typedef struct { double torque, inverse[3], difference[3]; } top;
typedef struct { vector turn, omega; } rates;

static inline vector axpy(double a, vector x, vector y) {
    return (vector){a * x.x + y.x, a * x.y + y.y, a * x.z + y.z};
}

static inline vector cross(vector a, vector b) {
    return (vector){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

static inline quaternion multiply(quaternion p, quaternion q) {
    return (quaternion){
        p.w * q.w - p.x * q.x - p.y * q.y - p.z * q.z,
        p.w * q.x + p.x * q.w + p.y * q.z - p.z * q.y,
        p.w * q.y - p.x * q.z + p.y * q.w + p.z * q.x,
        p.w * q.z + p.x * q.y - p.y * q.x + p.z * q.w,
    };
}

/* Coefficients in w = (angle / 2)^2, up to (pi / 2)^2: the first omitted terms are below 1e-19. */
#define TERMS 13

/* Pairs of pairs: the operations of one level do not wait for each other. */
static inline real polynomial(const double *c, real w) {
    real v = w * w, u = v * v;
    real a = (c[0] + c[1] * w) + (c[2] + c[3] * w) * v;
    real b = (c[4] + c[5] * w) + (c[6] + c[7] * w) * v;
    real d = (c[8] + c[9] * w) + (c[10] + c[11] * w) * v;
    return (a + b * u) + (d + c[12] * u) * (u * u);
}

/* cos(a), sin(a) / a and (sin(a) / a - cos(a)) / a^2 with a half the angle. */
static double cosine[TERMS], sine[TERMS], third[TERMS];

__attribute__((constructor)) static void prepare(void) {
    double even = 1.0;
    for (int k = 0; k < TERMS; ++k) {
        double odd = even / (2 * k + 1);
        double next = -even / ((2 * k + 1) * (2 * k + 2));
        cosine[k] = even;
        sine[k] = odd;
        third[k] = next / (2 * k + 3) - next;
        even = next;
    }
}

static inline real squared(vector x) { return x.x * x.x + x.y * x.y + x.z * x.z; }

static inline quaternion exponential(vector x) {
    real w = 0.25 * squared(x), s = 0.5 * polynomial(sine, w);
    return (quaternion){polynomial(cosine, w), s * x.x, s * x.y, s * x.z};
}

/* dexp^-1 of -x, applied to omega. */
static inline vector inverse_differential(vector x, vector omega) {
    real w = 0.25 * squared(x);
    real a = 0.25 * polynomial(third, w) / polynomial(sine, w);
    vector once = cross(x, omega), twice = cross(x, once);
    return (vector){
        omega.x + 0.5 * once.x + a * twice.x,
        omega.y + 0.5 * once.y + a * twice.y,
        omega.z + 0.5 * once.z + a * twice.z,
    };
}

/* Euler's equations about the fixed point; the centre of mass lies on body y, gravity acts along
 * world -z: the torque is torque * e_y x (R^T (-e_z)). */
static inline vector acceleration(const top *t, quaternion q, vector o) {
    real zx = 2.0 * (q.x * q.z - q.w * q.y);
    real zz = 1.0 - 2.0 * (q.x * q.x + q.y * q.y);
    return (vector){
        (-t->torque * zz + t->difference[0] * o.y * o.z) * t->inverse[0],
        t->difference[1] * o.z * o.x * t->inverse[1],
        (t->torque * zx + t->difference[2] * o.x * o.y) * t->inverse[2],
    };
}

static inline rates stage(const top *t, quaternion q, vector turn, vector omega) {
    return (rates){
        inverse_differential(turn, omega),
        acceleration(t, multiply(q, exponential(turn)), omega),
    };
}

/* `start` and `end` hold seven rows of `batch` numbers: q, then omega. `batch` must be a multiple of
 * LANES. parameters: mass g length, and the moments of inertia about the fixed point. */
void heavy_top(const double *parameters, const double *start, double *end, long batch, long steps,
               double h) {
    const double *j = parameters + 1;
    const top t = {
        parameters[0], {1.0 / j[0], 1.0 / j[1], 1.0 / j[2]}, {j[1] - j[2], j[2] - j[0], j[0] - j[1]}};
    const vector zero = {0.0 * (real){0}, 0.0 * (real){0}, 0.0 * (real){0}};
    for (long b = 0; b < batch; b += LANES) {
        real s[7];
        for (int i = 0; i < 7; ++i) __builtin_memcpy(&s[i], start + i * batch + b, sizeof(real));
        quaternion q = {s[0], s[1], s[2], s[3]};
        vector o = {s[4], s[5], s[6]};
        for (long n = 0; n < steps; ++n) {
            rates a = {o, acceleration(&t, q, o)};
            rates f = stage(&t, q, axpy(0.5 * h, a.turn, zero), axpy(0.5 * h, a.omega, o));
            rates c = stage(&t, q, axpy(0.5 * h, f.turn, zero), axpy(0.5 * h, f.omega, o));
            rates d = stage(&t, q, axpy(h, c.turn, zero), axpy(h, c.omega, o));
            vector turn = axpy(2.0, f.turn, axpy(2.0, c.turn, axpy(1.0, a.turn, d.turn)));
            vector more = axpy(2.0, f.omega, axpy(2.0, c.omega, axpy(1.0, a.omega, d.omega)));
            q = multiply(q, exponential(axpy(h / 6.0, turn, zero)));
            o = axpy(h / 6.0, more, o);
        }
        const real result[7] = {q.w, q.x, q.y, q.z, o.x, o.y, o.z};
        for (int i = 0; i < 7; ++i) __builtin_memcpy(end + i * batch + b, &result[i], sizeof(real));
    }
}
