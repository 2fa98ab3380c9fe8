/* A k-d tree: building it, and searching it for nearest neighbours; see trees.py. */

#include "loops.h"

enum {
  MOST_LEVELS = 64,
  SOME = 64, /* points of a leaf whose distances are computed at a time */
};

INLINE double greater(double a, double b) { return a > b ? a : b; }

INLINE double smaller(double a, double b) { return a < b ? a : b; }

/* Partition the points from start to stop so that those before `middle` have no larger coordinate (Hoare). */
static void part(double *points, int64_t *order, int64_t d, int64_t axis, int64_t start, int64_t stop, int64_t middle) {
  int64_t low = start, high = stop - 1;
  while (low < high) {
    const double a = points[low * d + axis], b = points[(low + high) / 2 * d + axis], c = points[high * d + axis];
    const double pivot = greater(smaller(a, b), smaller(greater(a, b), c));
    int64_t i = low, j = high;
    while (i <= j) {
      while (points[i * d + axis] < pivot) i++;
      while (points[j * d + axis] > pivot) j--;
      if (i > j) break;
      const int64_t number = order[i];
      order[i] = order[j], order[j] = number;
      for (int64_t f = 0; f < d; f++) {
        const double coordinate = points[i * d + f];
        points[i * d + f] = points[j * d + f], points[j * d + f] = coordinate;
      }
      i++, j--;
    }
    if (middle <= j)
      high = j;
    else if (middle >= i)
      low = i;
    else
      break;
  }
}

EXPORT void split(double *points, int64_t *order, double *low, double *high, int64_t n, int64_t d, int64_t level,
                  int64_t index, int64_t depth) {
  for (int64_t at = level; at <= depth; at++)
    for (int64_t i = index << (at - level); i < (index + 1) << (at - level); i++) {
      const int64_t start = (n * i) >> at, stop = (n * (i + 1)) >> at, node = ((int64_t)1 << at) + i;
      int64_t axis = 0;
      double widest = -1.0;
      for (int64_t f = 0; f < d; f++) {
        double small = points[start * d + f], large = small;
        for (int64_t p = start + 1; p < stop; p++) {
          small = smaller(points[p * d + f], small);
          large = greater(points[p * d + f], large);
        }
        low[node * d + f] = small, high[node * d + f] = large;
        if (large - small > widest) axis = f, widest = large - small;
      }
      if (at < depth) part(points, order, d, axis, start, stop, (n * (2 * i + 1)) >> (at + 1));
    }
}

/* The exponent p of a Minkowski metric; 0 stands for infinity. */
enum { LARGEST, CITY_BLOCK, EUCLIDEAN };

INLINE double longer(double distance, double difference, const int p) {
  if (p == EUCLIDEAN) return distance + difference * difference;
  return p == CITY_BLOCK ? distance + fabs(difference) : greater(distance, fabs(difference));
}

/* Distance of a point to a box. */
INLINE double to_box(const double *x, const double *low, const double *high, int64_t d, const int p) {
  double total = 0.0;
  for (int64_t f = 0; f < d; f++) total = longer(total, greater(greater(low[f] - x[f], x[f] - high[f]), 0.0), p);
  return total;
}

/* The queries of a search, and their neighbours. */
struct search {
  const double *columns, *low, *high, *Q;
  int32_t *ids;
  double *squared;
  int64_t n, d, k, depth;
  bool itself;
};

/* Offer the points from first to end to query q; returns how many neighbours it holds. */
INLINE int64_t visit(const struct search *s, int64_t q, int64_t first, int64_t end, int64_t held, const int p) {
  const int64_t k = s->k;
  int32_t *numbers = s->ids + q * k;
  double *values = s->squared + q * k, apart[SOME] = {0};
  for (int64_t f = 0; f < s->d; f++) {
    const double x = s->Q[q * s->d + f], *there = s->columns + f * s->n + first;
    for (int64_t j = 0; j < end - first; j++) apart[j] = longer(apart[j], there[j] - x, p);
  }
  for (int64_t j = first; j < end; j++) {
    const double distance = apart[j - first];
    if (held == k && (distance > values[k - 1] || (distance == values[k - 1] && j > numbers[k - 1]))) continue;
    if (s->itself && j == q) continue;
    int64_t r = least(held, k - 1);
    for (; r > 0 && (values[r - 1] > distance || (values[r - 1] == distance && numbers[r - 1] > j)); r--)
      values[r] = values[r - 1], numbers[r] = numbers[r - 1];
    values[r] = distance, numbers[r] = (int32_t)j;
    held = least(held + 1, k);
  }
  return held;
}

INLINE void search_for(const struct search *s, int64_t q, const int p) {
  const int64_t n = s->n, d = s->d, k = s->k, depth = s->depth;
  const double *x = s->Q + q * d;
  double bounds[MOST_LEVELS] = {0}, *values = s->squared + q * k;
  int64_t stack[MOST_LEVELS] = {1}, top = 1, held = 0;
  while (top) {
    top--;
    int64_t node = stack[top];
    double bound = bounds[top];
    const double worst = held == k ? values[k - 1] : INFINITY;
    /* Descend to the nearer child, and remember the other one. */
    while (bound <= worst && node < (int64_t)1 << depth) {
      const double left = to_box(x, s->low + 2 * node * d, s->high + 2 * node * d, d, p);
      const double right = to_box(x, s->low + (2 * node + 1) * d, s->high + (2 * node + 1) * d, d, p);
      node = 2 * node + (right < left);
      stack[top] = node ^ 1, bounds[top] = greater(left, right), bound = smaller(left, right);
      top++;
    }
    if (bound > worst) continue;
    const int64_t leaf = node - ((int64_t)1 << depth), end = (n * (leaf + 1)) >> depth;
    for (int64_t first = (n * leaf) >> depth; first < end; first += SOME)
      held = visit(s, q, first, least(end, first + SOME), held, p);
  }
  if (p != EUCLIDEAN)
    for (int64_t r = 0; r < k; r++) values[r] *= values[r];
}

EXPORT void nearest(const double *columns, const double *low, const double *high, const double *Q, int32_t *ids,
                    double *squared, int64_t d, int64_t n, int64_t k, int64_t depth, int64_t itself, double p,
                    int64_t start, int64_t stop) {
  const struct search s = {columns, low, high, Q, ids, squared, n, d, k, depth, itself};
  for (int64_t q = start; q < stop; q++)
    if (p == 2.0)
      search_for(&s, q, EUCLIDEAN);
    else if (p == 1.0)
      search_for(&s, q, CITY_BLOCK);
    else
      search_for(&s, q, LARGEST);
}
