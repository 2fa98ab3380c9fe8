/* Forces between the points of an embedding; see forces.py.

Sums over the points that are drawn in a step are kept in lanes, which are added at the end: this takes the vectors of the
processor, and the order of a sum is the same on all of them. The plane has functions of its own: without loops over
coordinates they are twice as fast. */

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

INLINE float repel_in_plane(const float *y, float own, const float *others, const float *theirs, float *out, int64_t m) {
  lanes total = {0}, along = {0}, across = {0};
  for (int64_t j = 0; j < m; j += LANES) {
    const lanes xs = load(others + j, m - j, FAR), ys = load(others + m + j, m - j, FAR);
    const lanes scales = load(theirs + j, m - j, 0);
    EACH_PART {
      const vector dx = y[0] - xs.part[q], dy = y[1] - ys.part[q], scale = own * scales.part[q];
      const vector falling = 1.0f / (scale + dx * dx + dy * dy), similarity = scale * falling;
      total.part[q] += similarity;
      along.part[q] += similarity * falling * dx;
      across.part[q] += similarity * falling * dy;
    }
  }
  out[0] = sum_of(&along), out[1] = sum_of(&across);
  return sum_of(&total);
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

EXPORT void repel(const float *Y, const float *others, const float *scales, const float *theirs, float *restrict out,
                  double *restrict totals, int64_t k, int64_t m, int64_t start, int64_t stop) {
  for (int64_t i = start; i < stop; i++)
    totals[i] = k == 2 ? repel_in_plane(Y + i * k, scales[i], others, theirs, out + i * k, m)
                       : repel_in_space(Y + i * k, scales[i], others, theirs, out + i * k, k, m);
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

/* l_ij, which is added to the total, and (l_ij - mean) / s_ij; both are 0 for pairs that coincide. */
INLINE vector stretching(vector squared, vector logs, float mean, vector *total) {
  const bits apart = logs > -80.0f + (vector){0};
  const vector ratio = 0.5f * (log_of(squared) - logs);
  *total += (vector)(apart & (bits)ratio);
  return (vector)(apart & (bits)((ratio - mean) / squared));
}

INLINE float stretch_in_plane(const float *y, const float *others, const float *logs, float least, float mean,
                              float *out, int64_t m) {
  lanes total = {0}, along = {0}, across = {0};
  for (int64_t j = 0; j < m; j += LANES) {
    const lanes xs = load(others + j, m - j, FAR), ys = load(others + m + j, m - j, FAR);
    const lanes theirs = load(logs + j, m - j, -100.0f);
    EACH_PART {
      const vector dx = y[0] - xs.part[q], dy = y[1] - ys.part[q];
      const vector pull = stretching(least + dx * dx + dy * dy, theirs.part[q], mean, &total.part[q]);
      along.part[q] += pull * dx;
      across.part[q] += pull * dy;
    }
  }
  out[0] = sum_of(&along), out[1] = sum_of(&across);
  return sum_of(&total);
}

INLINE float stretch_in_space(const float *y, const float *others, const float *logs, float softening, float mean,
                              float *out, int64_t k, int64_t m) {
  float weights[DRAWN];
  lanes total = {0}, start;
  EACH_PART start.part[q] = softening + (vector){0};
  for (int64_t c = 0; c < k; c++) out[c] = 0;
  for (int64_t first = 0; first < m; first += DRAWN) {
    const int64_t n = least(DRAWN, m - first);
    for (int64_t j = 0; j < n; j += LANES) {
      const lanes squared = squared_distances(start, y, others + first + j, k, m, n - j);
      const lanes theirs = load(logs + first + j, n - j, -100.0f);
      EACH_PART((vector *)(weights + j))[q] = stretching(squared.part[q], theirs.part[q], mean, &total.part[q]);
    }
    for (int64_t c = 0; c < k; c++) out[c] += force(weights, y[c], others + c * m + first, n);
  }
  return sum_of(&total);
}

EXPORT void stretch(const float *Y, const float *others, const float *logs, float *restrict out,
                    double *restrict totals, int64_t k, int64_t m, double least, double mean, int64_t start,
                    int64_t stop) {
  for (int64_t i = start; i < stop; i++)
    totals[i] = k == 2 ? stretch_in_plane(Y + i * k, others, logs + i * m, least, mean, out + i * k, m)
                       : stretch_in_space(Y + i * k, others, logs + i * m, least, mean, out + i * k, k, m);
}
