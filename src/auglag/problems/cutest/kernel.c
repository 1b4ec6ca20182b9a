/* What all problems share: gathering elements into rows, group functions, derivatives of the Lagrangian.
   The functions of a problem are printed behind this text, with element_values() and group_values(). */
#include <math.h>
#include <string.h>

static inline double square(double a) { return a * a; }
static inline double cube(double a) { return a * a * a; }
static inline double fourth(double a) { a *= a; return a * a; }
static inline double sign(double a) { return (a > 0) - (a < 0); }
static inline double mod(double a, double b) { a = fmod(a, b); return a != 0 && (a < 0) != (b < 0) ? a + b : a; }

typedef struct {
  int n, rows, objective_rows, entries, objective_entries, values, types, quadratic;
  const int *Ap, *Ai; const double *Ax;         /* linear part */
  const int *Wp, *Wi; const double *Wx;         /* weights of element values in rows */
  const int *Sp, *Si; const double *Sx;         /* element gradients -> pattern */
  const double *linear, *constant, *inverse_scale;
  const int *start, *column;                    /* the pattern */
  const int *Hp, *Hi; const double *Hx;         /* quadratic term of the objective */
  double *fe, *ge, *he;                         /* elements: values, gradients, Hessians */
  double *inner, *jacobian;                     /* arguments of the group functions, and their gradients */
  double *fa, *ga, *ha;                         /* group functions: values, first and second derivatives */
  double *out;                                  /* f, gradient, c, entries of J */
  const int *count, *size;                      /* of each element type */
  const int **variables; const double **parameters; const int *width;
  const int *group_count, **group_rows; const double **group_parameters; const int *group_width;
  double *element_weight;                       /* work for products */
} Data;

void gather(const Data *d, const double *x, int nargout) {
  for (int r = 0; r < d->rows; r++) {
    double t = -d->constant[r];
    for (int k = d->Ap[r]; k < d->Ap[r + 1]; k++) t += d->Ax[k] * x[d->Ai[k]];
    for (int k = d->Wp[r]; k < d->Wp[r + 1]; k++) t += d->Wx[k] * d->fe[d->Wi[k]];
    d->inner[r] = d->fa[r] = t;
    d->ga[r] = 1;
    d->ha[r] = 0;
  }
  if (nargout > 1)
    for (int i = 0; i < d->entries; i++) {
      double t = d->linear[i];
      for (int k = d->Sp[i]; k < d->Sp[i + 1]; k++) t += d->Sx[k] * d->ge[d->Si[k]];
      d->jacobian[i] = t;
    }
}

void finish(const Data *d, const double *x, int nargout) {
  double f = 0, *g = d->out + 1, *c = g + d->n, *J = c + (d->rows - d->objective_rows);
  memset(g, 0, sizeof(double) * d->n);
  for (int r = 0; r < d->rows; r++) {
    double value = d->fa[r] * d->inverse_scale[r], w = d->ga[r] * d->inverse_scale[r];
    if (r < d->objective_rows) {
      f += value;
      if (nargout > 1) for (int k = d->start[r]; k < d->start[r + 1]; k++) g[d->column[k]] += w * d->jacobian[k];
    } else {
      c[r - d->objective_rows] = value;
      if (nargout > 1)
        for (int k = d->start[r]; k < d->start[r + 1]; k++) J[k - d->objective_entries] = w * d->jacobian[k];
    }
  }
  if (d->quadratic) {
    double q = 0;
    for (int r = 0; r < d->n; r++) {
      double t = 0;
      for (int k = d->Hp[r]; k < d->Hp[r + 1]; k++) t += d->Hx[k] * x[d->Hi[k]];
      q += x[r] * t;
      g[r] += t;
    }
    f += 0.5 * q;
  }
  d->out[0] = f;
}

/* out = Hess(f + y'c) v, after an evaluation with nargout = 3. */
void hessian_product(const Data *d, const double *y, const double *v, double *out) {
  double *we = d->element_weight;
  memset(out, 0, sizeof(double) * d->n);
  memset(we, 0, sizeof(double) * d->values);
  for (int r = 0; r < d->rows; r++) {
    double s = (r < d->objective_rows ? 1.0 : y[r - d->objective_rows]) * d->inverse_scale[r];
    double w = s * d->ga[r], h = s * d->ha[r];
    if (w != 0) for (int k = d->Wp[r]; k < d->Wp[r + 1]; k++) we[d->Wi[k]] += w * d->Wx[k];
    if (h != 0) {
      double t = 0;
      for (int k = d->start[r]; k < d->start[r + 1]; k++) t += d->jacobian[k] * v[d->column[k]];
      t *= h;
      for (int k = d->start[r]; k < d->start[r + 1]; k++) out[d->column[k]] += t * d->jacobian[k];
    }
  }
  const double *H = d->he;
  for (int t = 0, e = 0; t < d->types; t++) {
    int size = d->size[t];
    const int *V = d->variables[t];
    for (int i = 0; i < d->count[t]; i++, e++, H += size * size, V += size)
      if (we[e] != 0)
        for (int a = 0; a < size; a++) {
          double q = 0;
          for (int b = 0; b < size; b++) q += H[a * size + b] * v[V[b]];
          out[V[a]] += we[e] * q;
        }
  }
  if (d->quadratic)
    for (int r = 0; r < d->n; r++)
      for (int k = d->Hp[r]; k < d->Hp[r + 1]; k++) out[r] += d->Hx[k] * v[d->Hi[k]];
}
