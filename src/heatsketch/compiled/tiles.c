/* Products with tiles of a Gaussian kernel that are formed on the fly; see products.py. */

#include "loops.h"

#ifndef LETTER

#define LETTER f
#include "tiles.c"
#undef LETTER
#define LETTER d
#include "tiles.c"
#undef LETTER

/* Squared distances, in units of epsilon, from which on the kernel is zero: they do not overflow in its type. */
static const float FARTHEST_f = 1e30f;
static const double FARTHEST_d = 1e300;

#define LETTER f
#define POINT f
#include "tiles.c"
#undef POINT
#define POINT d
#include "tiles.c"
#undef LETTER
#define LETTER d
#include "tiles.c"
#undef POINT
#define POINT f
#include "tiles.c"

#elif !defined(POINT) /* dense products, for one type of numbers */

#define REAL TYPE(LETTER)

/* Add `rows` rows of a dense product K V to some columns of `out`, whose rows are `across` apart. Entry (q, j) of K lies
at q step + j stride, for j < n; the rows of V are k apart. */
#define DEFINE_ROWS(NAME, N_ROWS, LANES)                                                                              \
  INLINE void JOIN(NAME, LETTER)(const REAL *K, int64_t step, int64_t stride, int64_t n, const REAL *V, int64_t k,     \
                                 REAL *restrict out, int64_t across) {                                                \
    enum { part = PART(REAL, LANES), parts = (LANES) / part };                                                        \
    typedef VECTOR(REAL, part) vector;                                                                                \
    vector sums[N_ROWS][parts];                                                                                       \
    UNROLL for (int i = 0; i < N_ROWS; i++)                                                                           \
      UNROLL for (int q = 0; q < parts; q++) sums[i][q] = ((const vector *)(out + i * across))[q];                    \
    for (int64_t j = 0; j < n; j++) {                                                                                 \
      const vector *row = (const vector *)(V + j * k);                                                                \
      const REAL *entry = K + j * stride;                                                                             \
      UNROLL for (int i = 0; i < N_ROWS; i++)                                                                         \
        UNROLL for (int q = 0; q < parts; q++) sums[i][q] += entry[i * step] * row[q];                                \
    }                                                                                                                 \
    UNROLL for (int i = 0; i < N_ROWS; i++)                                                                           \
      UNROLL for (int q = 0; q < parts; q++) ((vector *)(out + i * across))[q] = sums[i][q];                          \
  }

DEFINE_ROWS(four_wide, 4, WIDE_LANES(REAL))
DEFINE_ROWS(four, 4, 8)
DEFINE_ROWS(one, 1, 8)

/* out += K V for a matrix K of shape (m, n) and `width` columns of V, a multiple of 8.

Entry (i, j) of K lies at i step + j stride: with both exchanged, K is the transposed matrix. BLAS is three times slower
if `width` or n is small, because so few columns do not pay for its copies. */
static void JOIN(add_product, LETTER)(const REAL *K, int64_t step, int64_t stride, int64_t m, int64_t n, const REAL *V,
                                      int64_t k, int64_t width, REAL *restrict out, int64_t across) {
  const int64_t wide = WIDE_LANES(REAL), fours = m - m % 4;
  for (int64_t done = 0; done < width;) {
    const bool is_wide = width - done >= wide;
    for (int64_t i = 0; i < fours; i += 4)
      if (is_wide)
        JOIN(four_wide, LETTER)(K + i * step, step, stride, n, V + done, k, out + i * across + done, across);
      else
        JOIN(four, LETTER)(K + i * step, step, stride, n, V + done, k, out + i * across + done, across);
    const int64_t end = done + (is_wide ? wide : 8);
    for (int64_t i = fours; i < m; i++)
      for (int64_t c = done; c < end; c += 8)
        JOIN(one, LETTER)(K + i * step, step, stride, n, V + c, k, out + i * across + c, across);
    done = end;
  }
}

#undef REAL
#undef DEFINE_ROWS

#else /* for one type of points and one of the kernel */

#define REAL TYPE(LETTER)
#define COORDINATE TYPE(POINT)
#define INSTANCE(name) PASTE(name, PASTE(_, PASTE(POINT, LETTER)))

/* exp(-row_j here scale_j) in place of squared distances. */
INLINE void INSTANCE(exp_row)(REAL *restrict row, REAL here, const REAL *restrict scale, int64_t n) {
  for (int64_t j = 0; j < n; j++) row[j] = JOIN(exp, LETTER)(-(row[j] * here * scale[j]));
}

/* Rows of the kernel from inner products, |x|^2 + |y|^2 - 2 x.y. Only this difference needs their precision. A few rows
are formed at a time, whose products P, (strip, wide), stay in the cache. */
static void INSTANCE(from_products)(const COORDINATE *points, const COORDINATE *columns, const COORDINATE *norms,
                                    const REAL *scale, const int64_t *tile, COORDINATE *restrict P, REAL *restrict K,
                                    int64_t d, int64_t padded, int64_t strip, int64_t wide, int64_t across) {
  const int64_t top = tile[0], bottom = tile[1], left = tile[2], n = tile[3] - tile[2];
  for (int64_t first = top; first < bottom; first += strip) {
    const int64_t rows = least(strip, bottom - first);
    memset(P, 0, rows * wide * sizeof *P);
    JOIN(add_product, POINT)(points + first * d, d, 1, rows, d, columns + left, padded, (n + 7) / 8 * 8, P, wide);
    for (int64_t i = 0; i < rows; i++) {
      const COORDINATE norm = norms[first + i], *others = norms + left, *products = P + i * wide;
      REAL *row = K + (first - top + i) * across;
      for (int64_t j = 0; j < n; j++) {
        COORDINATE squared = norm + others[j] - (products[j] + products[j]);
        squared = squared > 0 ? squared : 0;
        row[j] = (REAL)(squared < JOIN(FARTHEST, LETTER) ? squared : JOIN(FARTHEST, LETTER));
      }
      INSTANCE(exp_row)(row, scale[first + i], scale + left, n);
    }
  }
}

/* Rows of the kernel from differences, which do not cancel. */
static void INSTANCE(from_differences)(const COORDINATE *columns, const REAL *scale, const int64_t *tile,
                                       REAL *restrict K, int64_t d, int64_t padded, int64_t across) {
  const int64_t top = tile[0], bottom = tile[1], left = tile[2], n = tile[3] - tile[2];
  for (int64_t i = 0; i < bottom - top; i++) {
    REAL *row = K + i * across;
    for (int64_t j = 0; j < n; j++) row[j] = 0;
    for (int64_t c = 0; c < d; c++) {
      const COORDINATE x = columns[c * padded + top + i], *ys = columns + c * padded + left;
      for (int64_t j = 0; j < n; j++) {
        const COORDINATE squared = row[j] + (x - ys[j]) * (x - ys[j]);
        row[j] = (REAL)(squared < FARTHEST_f ? squared : FARTHEST_f);
      }
    }
    INSTANCE(exp_row)(row, scale[top + i], scale + left, n);
  }
}

EXPORT void INSTANCE(tile_products)(const int64_t *tiles, const COORDINATE *points, const COORDINATE *columns,
                                    const COORDINATE *norms, const REAL *scale, const REAL *V, REAL *out,
                                    COORDINATE *P, REAL *K, int64_t n_tiles, int64_t n_points, int64_t d, int64_t n,
                                    int64_t k, int64_t strip, int64_t wide, int64_t across, int64_t zero_diagonal) {
  const int64_t padded = n + 8; /* length of a row of `columns` */
  for (const int64_t *tile = tiles; tile < tiles + 4 * n_tiles; tile += 4) {
    const int64_t top = tile[0], left = tile[2], height = tile[1] - top, width = tile[3] - left;
    if (n_points)
      INSTANCE(from_products)(points, columns, norms, scale, tile, P, K, d, padded, strip, wide, across);
    else
      INSTANCE(from_differences)(columns, scale, tile, K, d, padded, across);
    if (top == left && zero_diagonal)
      for (int64_t i = 0; i < height; i++) K[i * across + i] = 0;
    JOIN(add_product, LETTER)(K, across, 1, height, width, V + left * k, k, k, out + top * k, k);
    if (top != left) JOIN(add_product, LETTER)(K, 1, across, width, height, V + top * k, k, k, out + left * k, k);
  }
}

#undef REAL
#undef COORDINATE
#undef INSTANCE
#endif
