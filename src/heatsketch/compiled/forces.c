/* Forces between the points of an embedding; see forces.py.

Sums over other points are kept in lanes, which are added at the end: this takes the vectors of the processor, and the
order of a sum is the same on all of them. Functions for one to three dimensions are instances of one, with loops over
coordinates that the compiler unrolls. */

#include "loops.h"

enum {
  LANES = 16,
  N_PART = PART(float, LANES),
  PARTS = LANES / N_PART,
  DRAWN = 256, /* points whose weights are stored at a time, in general dimension */
};
typedef VECTOR(float, N_PART) vector;
typedef VECTOR(int32_t, N_PART) bits;
typedef struct {
  vector part[PARTS];
} lanes;
#define EACH_PART UNROLL for (int q = 0; q < PARTS; q++)

/* The coordinates of points that stand for missing ones in the last lanes. */
static const float FAR = 1e15f;

/* The next n numbers, at most LANES, followed by padding. */
INLINE lanes load(const float *x, int64_t n, float padding) {
  lanes found;
  if (n >= LANES) {
    EACH_PART found.part[q] = ((const vector *)x)[q];
    return found;
  }
  float some[LANES];
  for (int l = 0; l < LANES; l++) some[l] = l < n ? x[l] : padding;
  EACH_PART found.part[q] = ((const vector *)some)[q];
  return found;
}

INLINE float sum_of(const lanes *of) {
  float sums[LANES];
  EACH_PART((vector *)sums)[q] = of->part[q];
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int l = 0; l < half; l++) sums[l] += sums[l + half];
  return sums[0];
}

/* sum_j weights_j (y - others_j), for weights that are zero in the last lanes beyond n. */
INLINE float force(const float *weights, float y, const float *others, int64_t n) {
  lanes sums = {0};
  for (int64_t j = 0; j < n; j += LANES) {
    const lanes there = load(others + j, n - j, 0);
    EACH_PART sums.part[q] += ((const vector *)(weights + j))[q] * (y - there.part[q]);
  }
  return sum_of(&sums);
}

/* start + |y - others_j|^2 of the next n points, columns of `others`, (k, m). */
INLINE lanes squared_distances(lanes start, const float *y, const float *others, int64_t k, int64_t m, int64_t n) {
  for (int64_t c = 0; c < k; c++) {
    const lanes there = load(others + c * m, n, FAR);
    EACH_PART start.part[q] += (y[c] - there.part[q]) * (y[c] - there.part[q]);
  }
  return start;
}

INLINE void attract_row(const int64_t first, const int64_t last, const void *indices, const bool wide, const float *P,
                        const float *Y, const float *scales, float *restrict out, int64_t k, int64_t i) {
  const float *y = Y + i * k, own = scales[i];
  float sums[2] = {0};
  if (k != 2)
    for (int64_t c = 0; c < k; c++) out[i * k + c] = 0;
  for (int64_t p = first; p < last; p++) {
    const int64_t j = wide ? ((const int64_t *)indices)[p] : ((const int32_t *)indices)[p];
    const float *other = Y + j * k;
    if (k == 2) {
      const float dx = y[0] - other[0], dy = y[1] - other[1];
      const float q = P[p] / (own * scales[j] + dx * dx + dy * dy);
      sums[0] += q * dx;
      sums[1] += q * dy;
      continue;
    }
    float squared = own * scales[j];
    for (int64_t c = 0; c < k; c++) squared += (y[c] - other[c]) * (y[c] - other[c]);
    const float q = P[p] / squared;
    for (int64_t c = 0; c < k; c++) out[i * k + c] += q * (y[c] - other[c]);
  }
  if (k == 2) memcpy(out + i * k, sums, sizeof sums);
}

#define ATTRACT(LETTER)                                                                                               \
  EXPORT void attract_##LETTER(const TYPE(LETTER) *indptr, const TYPE(LETTER) *indices, const float *P,               \
                               const float *Y, const float *scales, float *restrict out, int64_t k, int64_t start,   \
                               int64_t stop) {                                                                        \
    const bool wide = sizeof *indices == sizeof(int64_t);                                                             \
    for (int64_t i = start; i < stop; i++)                                                                            \
      if (k == 2)                                                                                                     \
        attract_row(indptr[i], indptr[i + 1], indices, wide, P, Y, scales, out, 2, i);                                \
      else                                                                                                            \
        attract_row(indptr[i], indptr[i + 1], indices, wide, P, Y, scales, out, k, i);                                \
  }

ATTRACT(i)
ATTRACT(l)

/* Sums over the columns [first, last) of `others`, (k, m): the similarity q is returned, and its force is added to `out`.

With `near`, q is multiplied by z^4, with z = (radius^2 - |y - y_j|^2) / (radius^2 + s s_j) and 0 beyond the radius: what
is left of q is smooth, and comes from a grid. */
INLINE float repel_from(const float *y, float own, const float *others, const float *theirs, int64_t m, int64_t first,
                        int64_t last, bool near, float reach, float *out, const int k) {
  lanes total = {0}, along[3] = {0};
  for (int64_t j = first; j < last; j += LANES) {
    lanes apart[3];
    UNROLL for (int c = 0; c < k; c++) apart[c] = load(others + c * m + j, last - j, FAR);
    const lanes scales = load(theirs + j, last - j, 0);
    EACH_PART {
      const vector scale = own * scales.part[q];
      vector squared = {0};
      UNROLL for (int c = 0; c < k; c++) {
        apart[c].part[q] = y[c] - apart[c].part[q];
        squared += apart[c].part[q] * apart[c].part[q];
      }
      const vector falling = 1.0f / (scale + squared);
      vector similarity = scale * falling, pull = similarity * falling;
      if (near) {
        const vector inner = 1.0f / (reach + scale);
        vector z = (reach - squared) * inner;
        z = (vector)((bits)z & (z > 0));
        const vector cube = z * z * z;
        pull = similarity * cube * (z * falling + 4.0f * inner);
        similarity *= cube * z;
      }
      total.part[q] += similarity;
      UNROLL for (int c = 0; c < k; c++) along[c].part[q] += pull * apart[c].part[q];
    }
  }
  UNROLL for (int c = 0; c < k; c++) out[c] += sum_of(&along[c]);
  return sum_of(&total);
}

INLINE float repel_here(const float *y, float own, const float *others, const float *theirs, float *out, int64_t m,
                        const int k) {
  for (int c = 0; c < k; c++) out[c] = 0;
  return repel_from(y, own, others, theirs, m, 0, m, false, 0, out, k);
}

INLINE float repel_in_space(const float *y, float own, const float *others, const float *theirs, float *out, int64_t k,
                            int64_t m) {
  float weights[DRAWN];
  lanes total = {0};
  for (int64_t c = 0; c < k; c++) out[c] = 0;
  for (int64_t first = 0; first < m; first += DRAWN) {
    const int64_t n = least(DRAWN, m - first);
    for (int64_t j = 0; j < n; j += LANES) {
      lanes scales = load(theirs + first + j, n - j, 0);
      EACH_PART scales.part[q] *= own;
      const lanes squared = squared_distances(scales, y, others + first + j, k, m, n - j);
      EACH_PART {
        const vector falling = 1.0f / squared.part[q], similarity = scales.part[q] * falling;
        total.part[q] += similarity;
        ((vector *)(weights + j))[q] = similarity * falling;
      }
    }
    for (int64_t c = 0; c < k; c++) out[c] += force(weights, y[c], others + c * m + first, n);
  }
  return sum_of(&total);
}

/* The repulsion of all others at one place. */
static float repel_at(const float *y, float own, const float *others, const float *theirs, float *out, int64_t k,
                      int64_t m) {
  switch (k) {
    case 1: return repel_here(y, own, others, theirs, out, m, 1);
    case 2: return repel_here(y, own, others, theirs, out, m, 2);
    case 3: return repel_here(y, own, others, theirs, out, m, 3);
    default: return repel_in_space(y, own, others, theirs, out, k, m);
  }
}

EXPORT void repel(const float *Y, const float *others, const float *scales, const float *theirs, float *restrict out,
                  double *restrict totals, int64_t k, int64_t m, int64_t start, int64_t stop) {
  for (int64_t i = start; i < stop; i++)
    totals[i] = repel_at(Y + i * k, scales[i], others, theirs, out + i * k, k, m);
}

/* log(x) for normal numbers x > 0, to 1e-6. */
INLINE vector log_of(vector x) {
  const vector exponent = __builtin_convertvector(((bits)x >> 23) - 127, vector);
  const vector mantissa = (vector)(((bits)x & 0x7FFFFF) | 0x3F800000); /* in [1, 2) */
  const vector t = (mantissa - 1.0f) / (mantissa + 1.0f), u = t * t;
  vector p = u * (2.0f / 9.0f) + 2.0f / 7.0f;
  p = p * u + 2.0f / 5.0f;
  p = p * u + 2.0f / 3.0f;
  p = p * u + 2.0f;
  return p * t + exponent * 0.6931471805599453f;
}

/* (l_ij - mean) / s_ij; l_ij and its square are added to the sums. All are 0 for pairs that coincide. */
INLINE vector stretching(vector squared, vector logs, float mean, vector *total, vector *squares) {
  const bits apart = logs > -80.0f + (vector){0};
  const vector ratio = (vector)(apart & (bits)(0.5f * (log_of(squared) - logs)));
  *total += ratio;
  *squares += ratio * ratio;
  return (vector)(apart & (bits)((ratio - mean) / squared));
}

INLINE float stretch_in_plane(const float *y, const float *others, const float *logs, float least, float mean,
                              float *out, double *square, int64_t m) {
  lanes total = {0}, squares = {0}, along = {0}, across = {0};
  for (int64_t j = 0; j < m; j += LANES) {
    const lanes xs = load(others + j, m - j, FAR), ys = load(others + m + j, m - j, FAR);
    const lanes theirs = load(logs + j, m - j, -100.0f);
    EACH_PART {
      const vector dx = y[0] - xs.part[q], dy = y[1] - ys.part[q];
      const vector pull = stretching(least + dx * dx + dy * dy, theirs.part[q], mean, &total.part[q], &squares.part[q]);
      along.part[q] += pull * dx;
      across.part[q] += pull * dy;
    }
  }
  out[0] = sum_of(&along), out[1] = sum_of(&across), *square = sum_of(&squares);
  return sum_of(&total);
}

INLINE float stretch_in_space(const float *y, const float *others, const float *logs, float softening, float mean,
                              float *out, double *square, int64_t k, int64_t m) {
  float weights[DRAWN];
  lanes total = {0}, squares = {0}, start;
  EACH_PART start.part[q] = softening + (vector){0};
  for (int64_t c = 0; c < k; c++) out[c] = 0;
  for (int64_t first = 0; first < m; first += DRAWN) {
    const int64_t n = least(DRAWN, m - first);
    for (int64_t j = 0; j < n; j += LANES) {
      const lanes squared = squared_distances(start, y, others + first + j, k, m, n - j);
      const lanes theirs = load(logs + first + j, n - j, -100.0f);
      EACH_PART((vector *)(weights + j))[q] = 
          stretching(squared.part[q], theirs.part[q], mean, &total.part[q], &squares.part[q]);
    }
    for (int64_t c = 0; c < k; c++) out[c] += force(weights, y[c], others + c * m + first, n);
  }
  *square = sum_of(&squares);
  return sum_of(&total);
}

EXPORT void stretch(const float *Y, const float *others, const float *logs, float *restrict out,
                    double *restrict totals, double *restrict squares, int64_t k, int64_t m, double least,
                    double mean, int64_t start, int64_t stop) {
  for (int64_t i = start; i < stop; i++)
    totals[i] = k == 2 ? stretch_in_plane(Y + i * k, others, logs + i * m, least, mean, out + i * k, squares + i, m)
                       : stretch_in_space(Y + i * k, others, logs + i * m, least, mean, out + i * k, squares + i, k, m);
}

/* The repulsion of n points, as a function of place and scale: all pairs, or near pairs and a grid.

On the grid are m smooth potentials, one for each of m scales, between which `basis` interpolates; cubic B-splines
interpolate between nodes. A cell has CELL nodes along each axis, and neighbouring cells hold all points within reach.
Axes are counted from the last of three, of which the first may have a single node. */
enum { CELL = 5, ORDER = 4 };

typedef struct {
  const float *others, *theirs; /* (k, n) and (n,), sorted by cells */
  const int32_t *starts;        /* of each cell, and the end of the last */
  const double *origin;         /* (3,) */
  const int64_t *cells, *sizes; /* (3,), cells and nodes of the grid, with those that are padding */
  const float *grid;            /* (m, nodes) */
  int64_t k, n, m, n_cells;
  double spacing;
  float reach; /* squared */
} field;

/* Weights of the ORDER nodes around a place between two nodes, and their derivatives. */
INLINE void spline(float t, float *restrict weights, float *restrict slopes) {
  const float r = 1.0f - t;
  weights[0] = r * r * r / 6.0f;
  weights[1] = (3.0f * t - 6.0f) * t * t / 6.0f + 2.0f / 3.0f;
  weights[2] = (3.0f * r - 6.0f) * r * r / 6.0f + 2.0f / 3.0f;
  weights[3] = t * t * t / 6.0f;
  slopes[0] = -0.5f * r * r;
  slopes[1] = (1.5f * t - 2.0f) * t;
  slopes[2] = -(1.5f * r - 2.0f) * r;
  slopes[3] = 0.5f * t * t;
}

/* Nodes and weights around one place. */
typedef struct {
  int64_t node[3], count[3]; /* the first along each axis, and how many */
  float weights[3][ORDER], slopes[3][ORDER];
} stencil;

INLINE stencil stencil_at(const field *in, const float *y) {
  stencil at;
  for (int c = 0; c < 3; c++) {
    const int64_t axis = c - (3 - in->k);
    at.node[c] = 0, at.count[c] = 1, at.weights[c][0] = 1.0f, at.slopes[c][0] = 0.0f;
    if (axis < 0) continue;
    const double last = (double)(CELL * in->cells[c]) - 3.0, from = (y[axis] - in->origin[c]) / in->spacing;
    const double u = from > 1.0 ? (from < last ? from : last) : 1.0; /* NaN, too, gets a place on the grid */
    at.node[c] = (int64_t)u - 1, at.count[c] = ORDER;
    spline((float)(u - (double)(int64_t)u), at.weights[c], at.slopes[c]);
  }
  return at;
}

EXPORT void bin_points(const float *Y, const double *origin, const int64_t *cells, int32_t *restrict cell_of,
                       int32_t *restrict starts, int32_t *restrict order, int64_t k, int64_t n, int64_t n_starts,
                       double spacing) {
  const field in = {.origin = origin, .cells = cells, .k = k, .spacing = spacing};
  memset(starts, 0, (size_t)n_starts * sizeof *starts);
  for (int64_t i = 0; i < n; i++) {
    const stencil at = stencil_at(&in, Y + i * k);
    int64_t cell = 0;
    for (int c = 0; c < 3; c++) cell = cell * cells[c] + (at.count[c] == 1 ? 0 : (at.node[c] + 1) / CELL);
    cell_of[i] = (int32_t)cell;
    starts[cell + 1]++;
  }
  for (int64_t cell = 1; cell < n_starts; cell++) starts[cell] += starts[cell - 1];
  for (int64_t i = 0; i < n; i++) order[starts[cell_of[i]]++] = (int32_t)i;
  memmove(starts + 1, starts, (size_t)(n_starts - 1) * sizeof *starts);
  starts[0] = 0;
}

EXPORT void spread(const float *Y, const float *basis, const double *origin, const int64_t *cells,
                   const int64_t *sizes, float *restrict grid, int64_t k, int64_t m, int64_t nodes, double spacing,
                   int64_t start, int64_t stop) {
  const field in = {.origin = origin, .cells = cells, .k = k, .spacing = spacing};
  for (int64_t i = start; i < stop; i++) {
    const stencil at = stencil_at(&in, Y + i * k);
    for (int64_t a = 0; a < m; a++)
      for (int64_t x = 0; x < at.count[0]; x++)
        for (int64_t y = 0; y < at.count[1]; y++) {
          const float weight = basis[i * m + a] * at.weights[0][x] * at.weights[1][y];
          float *row = grid + a * nodes + ((at.node[0] + x) * sizes[1] + at.node[1] + y) * sizes[2] + at.node[2];
          for (int z = 0; z < ORDER; z++) row[z] += weight * at.weights[2][z];
        }
  }
}

/* The near part of the repulsion at a place. */
INLINE float near_at(const field *in, const stencil *at, const float *y, float own, float *out, const int k) {
  int64_t from[3], to[3];
  for (int c = 0; c < 3; c++) {
    const int64_t cell = at->count[c] == 1 ? 0 : (at->node[c] + 1) / CELL;
    from[c] = cell > 0 ? cell - 1 : 0, to[c] = least(cell + 1, in->cells[c] - 1);
  }
  float total = 0;
  for (int64_t x = from[0]; x <= to[0]; x++)
    for (int64_t z = from[1]; z <= to[1]; z++) {
      const int64_t row = (x * in->cells[1] + z) * in->cells[2];
      total += repel_from(y, own, in->others, in->theirs, in->n, in->starts[row + from[2]],
                          in->starts[row + to[2] + 1], true, in->reach, out, k);
    }
  return total;
}

/* The similarity to all points at a place, and their repulsion, into `out`. */
static float field_at(const field *in, const float *y, float own, const float *basis, float *out) {
  if (!in->n_cells) return repel_at(y, own, in->others, in->theirs, out, in->k, in->n);
  const stencil at = stencil_at(in, y);
  const int64_t nodes = in->sizes[0] * in->sizes[1] * in->sizes[2];
  float sums[4] = {0}; /* the potential, and its derivatives along three axes */
  for (int64_t a = 0; a < in->m; a++)
    for (int64_t x = 0; x < at.count[0]; x++)
      for (int64_t z = 0; z < at.count[1]; z++) {
        const int64_t first = ((at.node[0] + x) * in->sizes[1] + at.node[1] + z) * in->sizes[2] + at.node[2];
        const float *row = in->grid + a * nodes + first;
        float value = 0, slope = 0;
        for (int p = 0; p < ORDER; p++) value += at.weights[2][p] * row[p], slope += at.slopes[2][p] * row[p];
        const float both = basis[a] * at.weights[0][x] * at.weights[1][z];
        sums[0] += both * value;
        sums[1] += basis[a] * at.slopes[0][x] * at.weights[1][z] * value;
        sums[2] += basis[a] * at.weights[0][x] * at.slopes[1][z] * value;
        sums[3] += both * slope;
      }
  const float unit = (float)(-0.5 / in->spacing);
  for (int64_t c = 0; c < in->k; c++) out[c] = unit * sums[4 - in->k + c];
  switch (in->k) {
    case 1: return sums[0] + near_at(in, &at, y, own, out, 1);
    case 2: return sums[0] + near_at(in, &at, y, own, out, 2);
    default: return sums[0] + near_at(in, &at, y, own, out, 3);
  }
}

#define FIELD                                                                                                          \
  {.others = others, .theirs = theirs, .starts = starts,   .origin = origin, .cells = cells,                           \
   .sizes = sizes,   .grid = grid,     .k = k,             .n = n,           .m = m,                                   \
   .n_cells = n_starts - 1, .spacing = spacing, .reach = (float)reach}

EXPORT void repel_by_grid(const float *others, const float *theirs, const int32_t *starts, const double *origin,
                          const int64_t *cells, const int64_t *sizes, const float *grid, const float *Y,
                          const float *scales, const float *basis, float *restrict out, double *restrict totals,
                          int64_t k, int64_t n, int64_t m, int64_t n_starts, double spacing, double reach,
                          int64_t start, int64_t stop) {
  const field in = FIELD;
  for (int64_t i = start; i < stop; i++)
    totals[i] = field_at(&in, Y + i * k, scales[i], basis + i * m, out + i * k);
}

/* A new point's part of the objective, ``sum_j p_j log(s s_j + |y - y_j|^2) + factor sum_j q``, at a place y.

Also the place at which it would be smallest, if weights of neighbours and the repulsion were those of y, into `next`. */
static float part_at(const field *in, const float *y, float own, const float *basis, const int32_t *neighbors,
                     const float *p, int64_t count, const float *Y, const float *scales, float factor, float *next) {
  const int64_t k = in->k;
  const float similar = field_at(in, y, own, basis, next);
  float sum = 0, weights = 0;
  for (int64_t c = 0; c < k; c++) next[c] *= factor;
  for (int64_t j = 0; j < count; j++) {
    const float *other = Y + neighbors[j] * k;
    float squared = own * scales[neighbors[j]];
    for (int64_t c = 0; c < k; c++) squared += (y[c] - other[c]) * (y[c] - other[c]);
    const float weight = p[j] / squared;
    sum += p[j] * logf(squared), weights += weight;
    for (int64_t c = 0; c < k; c++) next[c] += weight * other[c];
  }
  for (int64_t c = 0; c < k; c++) next[c] /= weights;
  return sum + factor * similar;
}

enum { NEAREST = 5, MOST_STEPS = 60 };

EXPORT void place(const float *others, const float *theirs, const int32_t *starts, const double *origin,
                  const int64_t *cells, const int64_t *sizes, const float *grid, const float *Y, const float *scales,
                  const int64_t *indptr, const int32_t *indices, const float *p, const float *own, const float *basis,
                  float *restrict out, float *restrict work, int64_t k, int64_t n, int64_t m, int64_t n_starts,
                  double spacing, double reach, double factor, double tol, int64_t start, int64_t stop) {
  const field in = FIELD;
  for (int64_t i = start; i < stop; i++) {
    const int32_t *neighbors = indices + indptr[i];
    const float *weights = p + indptr[i], *mix = basis + i * m;
    const int64_t count = indptr[i + 1] - indptr[i];
    const size_t size = (size_t)k * sizeof(float);
    float *best = out + i * k, *next = work + 3 * k * i, *trial = next + k, *after = trial + k;
    float least_part = INFINITY, limit = INFINITY;
    for (int tried = 0; tried <= NEAREST && tried <= count; tried++) {
      if (tried == 0) { /* the mean of the neighbours */
        for (int64_t c = 0; c < k; c++) trial[c] = 0;
        for (int64_t j = 0; j < count; j++)
          for (int64_t c = 0; c < k; c++) trial[c] += weights[j] * Y[neighbors[j] * k + c];
      } else { /* the next of the nearest */
        float largest = -1.0f;
        int64_t at = 0;
        for (int64_t j = 0; j < count; j++)
          if (weights[j] < limit && weights[j] > largest) largest = weights[j], at = j;
        if (largest < 0) break;
        limit = largest;
        memcpy(trial, Y + neighbors[at] * k, size);
      }
      const float part = part_at(&in, trial, own[i], mix, neighbors, weights, count, Y, scales, (float)factor, after);
      if (part < least_part) {
        least_part = part;
        memcpy(best, trial, size), memcpy(next, after, size);
      }
    }
    float length = 1.0f;
    for (int step = 0; step < MOST_STEPS; step++) {
      float moved = 0;
      for (int64_t c = 0; c < k; c++) {
        const float apart = length * (next[c] - best[c]);
        trial[c] = best[c] + apart, moved += apart * apart;
      }
      if (!(moved > (float)(tol * tol))) break;
      const float part = part_at(&in, trial, own[i], mix, neighbors, weights, count, Y, scales, (float)factor, after);
      if (part < least_part) {
        least_part = part, length = length < 0.5f ? 2.0f * length : 1.0f;
        memcpy(best, trial, size), memcpy(next, after, size);
      } else {
        length *= 0.5f;
      }
    }
  }
}

/* sum_j P_ij log(1 + |y_i - y_j|^2 / (s_i s_j)). */
INLINE double divergence_of(const int64_t first, const int64_t last, const void *indices, const bool wide,
                            const float *P, const float *Y, const float *scales, int64_t k, int64_t i) {
  const float *y = Y + i * k;
  double sum = 0;
  for (int64_t p = first; p < last; p++) {
    const int64_t j = wide ? ((const int64_t *)indices)[p] : ((const int32_t *)indices)[p];
    float squared = 0;
    for (int64_t c = 0; c < k; c++) squared += (y[c] - Y[j * k + c]) * (y[c] - Y[j * k + c]);
    sum += P[p] * log1pf(squared / (scales[i] * scales[j]));
  }
  return sum;
}

#define DIVERGENCE(LETTER)                                                                                             \
  EXPORT void divergence_##LETTER(const TYPE(LETTER) *indptr, const TYPE(LETTER) *indices, const float *P,             \
                                  const float *Y, const float *scales, double *restrict totals, int64_t k,             \
                                  int64_t start, int64_t stop) {                                                       \
    for (int64_t i = start; i < stop; i++)                                                                             \
      totals[i] = divergence_of(indptr[i], indptr[i + 1], indices, sizeof *indices == sizeof(int64_t), P, Y, scales,   \
                                k, i);                                                                                 \
  }

DIVERGENCE(i)
DIVERGENCE(l)
