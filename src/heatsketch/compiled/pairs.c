/* Loops over pairs of points; see pairs.py. */

#include "loops.h"

#ifndef LETTER

#define LETTER f
#include "pairs.c"
#undef LETTER
#define LETTER d
#include "pairs.c"

/* Added to squared distances, so that their logarithms are finite. */
static const double LEAST = 1e-290;

EXPORT void log_ratios(const double *restrict Y, const int64_t *restrict i, const int64_t *restrict j,
                       const double *restrict log_d, double *restrict ratios, double *restrict inverse, int64_t k,
                       int64_t pairs) {
  for (int64_t p = 0; p < pairs; p++) {
    const double *x = Y + i[p] * k, *y = Y + j[p] * k;
    double squared = LEAST;
    for (int64_t c = 0; c < k; c++) {
      const double difference = x[c] - y[c];
      squared += difference * difference;
    }
    ratios[p] = 0.5 * log(squared) - log_d[p];
    inverse[p] = 1.0 / squared;
  }
}

EXPORT void pull(const double *restrict Y, const int64_t *restrict i, const int64_t *restrict j,
                 const double *restrict weights, double *restrict out, int64_t k, int64_t pairs) {
  for (int64_t p = 0; p < pairs; p++) {
    const int64_t a = i[p] * k, b = j[p] * k;
    for (int64_t c = 0; c < k; c++) {
      const double force = weights[p] * (Y[a + c] - Y[b + c]);
      out[a + c] += force;
      out[b + c] -= force;
    }
  }
}

#else /* for one type of numbers */

EXPORT void JOIN(distances, LETTER)(const TYPE(LETTER) *restrict F, const int64_t *restrict i,
                                    const int64_t *restrict j, double *restrict out, int64_t m, int64_t start,
                                    int64_t stop) {
  for (int64_t p = start; p < stop; p++) {
    const TYPE(LETTER) *x = F + i[p] * m, *y = F + j[p] * m;
    double squared = 0.0;
    for (int64_t c = 0; c < m; c++) {
      const double difference = (double)x[c] - (double)y[c];
      squared += difference * difference;
    }
    out[p] = sqrt(squared);
  }
}

#endif
