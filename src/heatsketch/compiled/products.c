/* Products with sparse matrices; see products.py. */

#include "loops.h"

#ifndef LETTER

/* Entries of a sparse matrix for which rows of V are fetched ahead. */
enum { AHEAD = 16 };

#define LETTER f
#include "products.c"
#undef LETTER
#define LETTER d
#include "products.c"

#elif !defined(INDEX)

#define INDEX i
#include "products.c"
#undef INDEX
#define INDEX l
#include "products.c"
#undef INDEX

#else /* for one type of numbers, and one of column indices */

#define REAL TYPE(LETTER)
#define ROW(lanes) PASTE(row_, PASTE(lanes, PASTE(INDEX, LETTER)))
#define MULTIPLY(ends) PASTE(sparse_product_, PASTE(ends, PASTE(INDEX, LETTER)))

/* A row of the product, whose entries lie from `first` to `last`. The sums of a block of columns are held in registers;
the last block may overlap the one before. Two blocks are formed at once: rows of V are gathered only once. Wide blocks
take two cache lines, more than the processor fetches ahead by itself; `final` is the last entry of all rows. */
#define DEFINE_ROW(LANES)                                                                                             \
  INLINE void ROW(LANES)(int64_t first, int64_t last, const TYPE(INDEX) *indices, const REAL *data, const REAL *V,     \
                         REAL *restrict out, int64_t k, int64_t final) {                                              \
    enum { part = PART(REAL, LANES), parts = LANES / part };                                                          \
    typedef VECTOR(REAL, part) vector;                                                                                \
    if (LANES < k && k < 2 * LANES) {                                                                                 \
      vector sums[parts] = {0}, others[parts] = {0};                                                                  \
      for (int64_t p = first; p < last; p++) {                                                                        \
        const REAL *start = V + indices[p] * k;                                                                       \
        const vector *row = (const vector *)start, *end = (const vector *)(start + k - LANES);                        \
        UNROLL for (int q = 0; q < parts; q++) sums[q] += data[p] * row[q];                                           \
        UNROLL for (int q = 0; q < parts; q++) others[q] += data[p] * end[q];                                         \
      }                                                                                                               \
      UNROLL for (int q = 0; q < parts; q++) ((vector *)out)[q] = sums[q];                                            \
      UNROLL for (int q = 0; q < parts; q++) ((vector *)(out + k - LANES))[q] = others[q];                            \
      return;                                                                                                         \
    }                                                                                                                 \
    for (int64_t done = 0; done < k; done += LANES) {                                                                 \
      const int64_t column = least(done, k - LANES);                                                                  \
      vector sums[parts] = {0};                                                                                       \
      for (int64_t p = first; p < last; p++) {                                                                        \
        const vector *row = (const vector *)(V + indices[p] * k + column);                                            \
        if (LANES == 32) {                                                                                            \
          const REAL *ahead = V + indices[least(p + AHEAD, final)] * k + column;                                      \
          __builtin_prefetch(ahead);                                                                                  \
          __builtin_prefetch(ahead + LANES / 2);                                                                      \
        }                                                                                                             \
        UNROLL for (int q = 0; q < parts; q++) sums[q] += data[p] * row[q];                                           \
      }                                                                                                               \
      UNROLL for (int q = 0; q < parts; q++) ((vector *)(out + column))[q] = sums[q];                                 \
    }                                                                                                                 \
  }

DEFINE_ROW(2)
DEFINE_ROW(4)
DEFINE_ROW(8)
DEFINE_ROW(16)
DEFINE_ROW(32)

/* Four sums, each of every fourth entry: a single one would wait for itself. */
INLINE void ROW(1)(int64_t first, int64_t last, const TYPE(INDEX) *indices, const REAL *data, const REAL *V, REAL *out,
                   int64_t k, int64_t final) {
  REAL sums[4] = {0};
  int64_t p = first;
  for (; p + 4 <= last; p += 4)
    UNROLL for (int q = 0; q < 4; q++) sums[q] += data[p + q] * V[indices[p + q]];
  for (; p < last; p++) sums[0] += data[p] * V[indices[p]];
  out[0] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  (void)k, (void)final; /* k is 1 */
}

#define EACH_ROW(LANES)                                                                                               \
  for (int64_t i = start; i < stop; i++) ROW(LANES)(indptr[i], indptr[i + 1], indices, data, V, out + i * k, k, final)

#define DEFINE_MULTIPLY(ENDS)                                                                                         \
  EXPORT void MULTIPLY(ENDS)(const TYPE(ENDS) *indptr, const TYPE(INDEX) *indices, const REAL *data, const REAL *V,    \
                             REAL *out, int64_t k, int64_t start, int64_t stop) {                                     \
    if (!k) return;                                                                                                   \
    const int64_t final = indptr[stop] - 1;                                                                           \
    if (k >= 32)                                                                                                      \
      EACH_ROW(32);                                                                                                   \
    else if (k >= 16)                                                                                                 \
      EACH_ROW(16);                                                                                                   \
    else if (k >= 8)                                                                                                  \
      EACH_ROW(8);                                                                                                    \
    else if (k >= 4)                                                                                                  \
      EACH_ROW(4);                                                                                                    \
    else if (k >= 2)                                                                                                  \
      EACH_ROW(2);                                                                                                    \
    else                                                                                                              \
      EACH_ROW(1);                                                                                                    \
  }

DEFINE_MULTIPLY(i)
DEFINE_MULTIPLY(l)

#undef REAL
#undef ROW
#undef MULTIPLY
#undef DEFINE_ROW
#undef EACH_ROW
#undef DEFINE_MULTIPLY
#endif
