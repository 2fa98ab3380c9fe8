/* Elementwise loops over blocks of columns; see blocks.py. */

#include "loops.h"

#ifndef LETTER

#define LETTER f
#include "blocks.c"
#undef LETTER
#define LETTER d
#include "blocks.c"

#else /* for one type of numbers */

#define REAL TYPE(LETTER)

EXPORT void JOIN(combine, LETTER)(REAL *restrict out, const REAL *restrict current, const REAL *restrict previous,
                                  double scale, double shift, int64_t start, int64_t stop) {
  const REAL a = (REAL)scale, b = (REAL)shift;
  for (int64_t i = start; i < stop; i++) out[i] = a * out[i] - b * current[i] - previous[i];
}

EXPORT void JOIN(add, LETTER)(double *restrict total, const REAL *restrict term, double factor, int64_t start,
                              int64_t stop) {
  for (int64_t i = start; i < stop; i++) total[i] += factor * term[i];
}

EXPORT void JOIN(subtract, LETTER)(REAL *restrict W, const REAL *restrict factors, const REAL *restrict V, int64_t k,
                                   int64_t start, int64_t stop) {
  for (int64_t i = start; i < stop; i++)
    for (int64_t c = 0; c < k; c++) W[i * k + c] -= factors[c] * V[i * k + c];
}

EXPORT void JOIN(exponential, LETTER)(const REAL *restrict x, REAL *restrict out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = JOIN(exp, LETTER)(x[i]);
}

#undef REAL
#endif
