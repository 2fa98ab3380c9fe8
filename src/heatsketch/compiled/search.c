/* Selection of nearest neighbours from tiles of distances, and the neighbour graph; see search.py. */

#include "loops.h"

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

/* Vectors of the search, and the registers that hold one. Its input is padded to a multiple of LANES. */
enum { LANES = 16, N_PART = PART(float, LANES), PARTS = LANES / N_PART };
typedef VECTOR(float, N_PART) vector;
typedef VECTOR(int32_t, N_PART) mask;
#define EACH_PART UNROLL for (int q = 0; q < PARTS; q++)

/* Modes of `offer`: columns are candidates of the rows; rows and columns are the same points; columns are candidates of
the rows, and rows of the columns. */
enum { TO_ROWS, SAME_POINTS, BOTH_WAYS };

/* Padding of a row of candidates: larger than any limit. */
static const float FARTHEST = 3.4e38f;

/* The lanes that are set, as bits of an integer. */
INLINE uint32_t bits_of_lanes(const mask lanes[PARTS]) {
#if defined(__AVX512DQ__)
  return _mm512_movepi32_mask((__m512i)lanes[0]);
#elif defined(__AVX__)
  return _mm256_movemask_ps((__m256)lanes[0]) | _mm256_movemask_ps((__m256)lanes[1]) << 8;
#elif defined(__SSE2__)
  return _mm_movemask_ps((__m128)lanes[0]) | _mm_movemask_ps((__m128)lanes[1]) << 4 |
         _mm_movemask_ps((__m128)lanes[2]) << 8 | _mm_movemask_ps((__m128)lanes[3]) << 12;
#else
  mask bits = {0};
  const mask one = {1, 2, 4, 8};
  EACH_PART bits |= lanes[q] & (one << 4 * q);
  return bits[0] | bits[1] | bits[2] | bits[3];
#endif
}

/* How many entries of a row of candidates are at most the limit. */
INLINE int64_t n_within(const float *row, int64_t room, float limit) {
  mask found[PARTS] = {0};
  for (int64_t p = 0; p < room; p += LANES)
    EACH_PART found[q] -= ((const vector *)(row + p))[q] <= limit + (vector){0};
  int64_t total = 0;
  EACH_PART
    UNROLL for (int l = 0; l < N_PART; l++) total += found[q][l];
  return total;
}

/* Limits around the k-th smallest of a row: equal if exactly k are within, else adjacent numbers. */
INLINE void bisect(const float *row, int64_t room, int64_t held, int64_t k, float *below, float *limit) {
  float low = row[0], high = row[0];
  for (int64_t p = 1; p < held; p++) {
    low = row[p] < low ? row[p] : low;
    high = row[p] > high ? row[p] : high;
  }
  low -= 1e-6f * fabsf(low) + 1e-30f; /* below all of them */
  for (;;) {
    const float middle = 0.5f * (low + high);
    if (middle <= low || middle >= high) break;
    const int64_t within = n_within(row, room, middle);
    if (within == k) {
      *below = *limit = middle;
      return;
    }
    if (within < k)
      low = middle;
    else
      high = middle;
  }
  *below = low, *limit = high;
}

/* The largest number to keep among candidates at the limit, so that k are kept in total. */
static int64_t last_of_ties(const float *row, const int32_t *ids, int64_t held, float below, float limit, int64_t k) {
  if (below == limit) return -1;
  int64_t wanted = k;
  for (int64_t p = 0; p < held; p++) wanted -= row[p] <= below;
  int64_t low = -1, high = INT32_MAX;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    int64_t found = 0;
    for (int64_t p = 0; p < held; p++) found += below < row[p] && row[p] <= limit && ids[p] <= middle;
    if (found >= wanted)
      high = middle;
    else
      low = middle;
  }
  return high;
}

static void shrink_row(float *squared, int32_t *ids, int32_t *count, float *worst, int64_t k, int64_t room) {
  const int64_t held = *count;
  if (held <= k) return;
  for (int64_t p = held; p < room; p++) squared[p] = FARTHEST;
  float below, limit;
  bisect(squared, room, held, k, &below, &limit);
  const int64_t last = last_of_ties(squared, ids, held, below, limit, k);
  int64_t place = 0;
  float largest = 0;
  for (int64_t p = 0; p < held; p++) {
    const float distance = squared[p];
    const int32_t number = ids[p];
    if (distance <= below || (distance <= limit && number <= last)) {
      largest = place && largest > distance ? largest : distance;
      squared[place] = distance, ids[place] = number;
      place++;
    }
  }
  *count = (int32_t)k, *worst = largest;
}

EXPORT void shrink(float *squared, int32_t *ids, int32_t *count, float *worst, int64_t room, int64_t k, int64_t start,
                   int64_t stop) {
  for (int64_t i = start; i < stop; i++) shrink_row(squared + i * room, ids + i * room, count + i, worst + i, k, room);
}

/* The candidates of all points. */
struct candidates {
  float *worst;
  int32_t *count;
  float *squared;
  int32_t *ids;
  int64_t k, room;
};

INLINE void add(const struct candidates *of, int64_t point, float distance, int64_t number) {
  const int64_t at = point * of->room, c = of->count[point]++;
  of->squared[at + c] = distance, of->ids[at + c] = (int32_t)number;
  if (c + 1 == of->room)
    shrink_row(of->squared + at, of->ids + at, of->count + point, of->worst + point, of->k, of->room);
}

/* The limits of `size` points. Those of padding, from `end` on, are the limits of other points, which another thread may
change: they are not read. */
INLINE const float *limits_of(const struct candidates *of, int64_t first, int64_t end, const int size, float *copy) {
  if (end - first >= size) return of->worst + first;
  for (int l = 0; l < size; l++) copy[l] = of->worst[least(first + l, end - 1)];
  return copy;
}

INLINE void offer_tile(const float *P, const float *left, const float *right, const struct candidates *of, int64_t m,
                       int64_t n, int64_t start, int64_t stop, int64_t row, int64_t column, int64_t column_stop,
                       const int mode) {
  float copy[LANES];
  for (int64_t i = 0; i < m; i++) {
    const int64_t here = row + i;
    const float norm = left[i], *products = P + i * n;
    for (int64_t j = start; j < stop; j += LANES) {
      const int64_t there = j - start + column;
      vector apart[PARTS];
      mask within[PARTS], others[PARTS];
      const vector *limits = mode == BOTH_WAYS ? (const vector *)limits_of(of, there, column_stop, LANES, copy) : 0;
      EACH_PART {
        apart[q] = norm + ((const vector *)(right + j))[q] - ((const vector *)(products + j))[q];
        within[q] = apart[q] <= of->worst[here] + (vector){0};
        if (mode == BOTH_WAYS) others[q] = apart[q] <= limits[q];
      }
      for (uint32_t hits = bits_of_lanes(within); hits; hits &= hits - 1) {
        const int lane = __builtin_ctz(hits);
        if (mode == SAME_POINTS && here == there + lane) continue;
        add(of, here, norm + right[j + lane] - products[j + lane], there + lane);
      }
      if (mode != BOTH_WAYS) continue;
      for (uint32_t hits = bits_of_lanes(others); hits; hits &= hits - 1) {
        const int lane = __builtin_ctz(hits);
        add(of, there + lane, norm + right[j + lane] - products[j + lane], here);
      }
    }
  }
}

EXPORT void offer(const float *P, const float *left, const float *right, float *worst, int32_t *count, float *squared,
                  int32_t *ids, int64_t m, int64_t n, int64_t room, int64_t start, int64_t stop, int64_t row,
                  int64_t column, int64_t column_stop, int64_t mode, int64_t k) {
  const struct candidates of = {worst, count, squared, ids, k, room};
  if (mode == TO_ROWS)
    offer_tile(P, left, right, &of, m, n, start, stop, row, column, column_stop, TO_ROWS);
  else if (mode == SAME_POINTS)
    offer_tile(P, left, right, &of, m, n, start, stop, row, column, column_stop, SAME_POINTS);
  else
    offer_tile(P, left, right, &of, m, n, start, stop, row, column, column_stop, BOTH_WAYS);
}

/* sums + row . columns: each lane of the columns, and the number `row`, hold four signed bytes. */
INLINE void add_dots(mask sums[PARTS], int32_t row, const mask columns[PARTS]) {
#ifdef __ARM_FEATURE_DOTPROD
  const int8x16_t factors = vreinterpretq_s8_s32(vdupq_n_s32(row));
  EACH_PART sums[q] = (mask)vdotq_s32((int32x4_t)sums[q], (int8x16_t)columns[q], factors);
#else
  UNROLL for (int bits = 24; bits >= 0; bits -= 8) {
    const int32_t byte = (int32_t)((uint32_t)row << bits) >> 24;
    EACH_PART sums[q] += byte * ((columns[q] << bits) >> 24);
  }
#endif
}

/* Rows, and blocks of LANES columns, that are compared at a time: as many sums as the registers hold. */
enum { ROWS = PARTS == 1 ? 8 : 4, BLOCKS = PARTS == 1 ? 2 : 1 };

/* Inner products of ROWS rows with some blocks of columns, `depth` numbers each, from codes: bytes, or numbers
themselves. */
INLINE void multiply_bytes(const int32_t *rows, const int32_t *columns, int64_t depth, const int blocks,
                           vector out[BLOCKS][ROWS][PARTS]) {
  for (int b = 0; b < blocks; b++, columns += depth * LANES) {
    mask dots[ROWS][PARTS] = {0};
    for (int64_t c = 0; c < depth * LANES; c += LANES)
      UNROLL for (int r = 0; r < ROWS; r++) add_dots(dots[r], rows[c + r], (const mask *)(columns + c));
    UNROLL for (int r = 0; r < ROWS; r++) EACH_PART out[b][r][q] = __builtin_convertvector(dots[r][q], vector);
  }
}

INLINE void multiply_floats(const float *rows, const float *columns, int64_t depth, const int blocks,
                            vector out[BLOCKS][ROWS][PARTS]) {
  vector sums[BLOCKS][ROWS][PARTS] = {0};
  for (int64_t c = 0; c < depth * LANES; c += LANES)
    UNROLL for (int r = 0; r < ROWS; r++)
      UNROLL for (int b = 0; b < blocks; b++)
        EACH_PART sums[b][r][q] += rows[c + r] * ((const vector *)(columns + b * depth * LANES + c))[q];
  UNROLL for (int b = 0; b < blocks; b++)
    UNROLL for (int r = 0; r < ROWS; r++) EACH_PART out[b][r][q] = sums[b][r][q];
}

/* The codes of points in rows and columns, in blocks of LANES, `depth` numbers each. */
struct codes {
  const void *rows, *columns;
  int64_t depth;
  bool in_bytes;
};

INLINE void multiply_codes(const struct codes *codes, int64_t row, int64_t column, const int blocks,
                           vector out[BLOCKS][ROWS][PARTS]) {
  const int64_t depth = codes->depth, there = column * depth, here = row / LANES * depth * LANES + row % LANES;
  if (codes->in_bytes)
    multiply_bytes((const int32_t *)codes->rows + here, (const int32_t *)codes->columns + there, depth, blocks, out);
  else
    multiply_floats((const float *)codes->rows + here, (const float *)codes->columns + there, depth, blocks, out);
}

/* Offer the points of ROWS rows and of a block of columns to each other, from their products; those from row_stop and
column_stop on are padding. */
INLINE void offer_block(const vector products[ROWS][PARTS], const float *left, const float *right,
                        const struct candidates *of, float factor, int64_t row, int64_t row_stop, int64_t column,
                        int64_t column_stop, const int mode) {
  float of_rows[ROWS], of_columns[LANES];
  const float *own = limits_of(of, row, row_stop, ROWS, of_rows);
  const vector *norms = (const vector *)right;
  const vector *limits =
      mode == BOTH_WAYS ? (const vector *)limits_of(of, column, column_stop, LANES, of_columns) : 0;
  vector apart[ROWS][PARTS];
  mask any[PARTS] = {0};
  UNROLL for (int r = 0; r < ROWS; r++) {
    EACH_PART {
      apart[r][q] = norms[q] - factor * products[r][q] + left[r];
      any[q] |= apart[r][q] <= own[r] + (vector){0};
      if (mode == BOTH_WAYS) any[q] |= apart[r][q] <= limits[q];
    }
  }
  if (!bits_of_lanes(any)) return;
  /* The rows that take columns as neighbours, then the columns that take rows. All limits are those of before. */
  uint32_t hits[ROWS], others[ROWS];
  UNROLL for (int r = 0; r < ROWS; r++) {
    mask within[PARTS];
    EACH_PART within[q] = apart[r][q] <= own[r] + (vector){0};
    hits[r] = bits_of_lanes(within);
    others[r] = 0;
    if (mode != BOTH_WAYS) continue;
    EACH_PART within[q] = apart[r][q] <= limits[q];
    others[r] = bits_of_lanes(within);
  }
  const float *near = (const float *)apart;
  for (int r = 0; r < ROWS; r++)
    for (; hits[r]; hits[r] &= hits[r] - 1) {
      const int lane = __builtin_ctz(hits[r]);
      if (mode == SAME_POINTS && row + r == column + lane) continue;
      add(of, row + r, near[r * LANES + lane], column + lane);
    }
  for (int r = 0; r < ROWS; r++)
    for (; others[r]; others[r] &= others[r] - 1) {
      const int lane = __builtin_ctz(others[r]);
      add(of, column + lane, near[r * LANES + lane], row + r);
    }
}

INLINE void offer_coded(const struct codes *codes, const float *left, const float *right, const struct candidates *of,
                        float factor, int64_t row, int64_t row_stop, int64_t column, int64_t column_stop,
                        const int mode) {
  const int64_t m = row_stop - row, n = column_stop - column;
  vector products[BLOCKS][ROWS][PARTS];
  int64_t j = 0;
  /* The columns stay in the nearest cache, while all rows pass by. */
  for (; j + (BLOCKS - 1) * LANES < n; j += BLOCKS * LANES)
    for (int64_t i = 0; i < m; i += ROWS) {
      multiply_codes(codes, i, j, BLOCKS, products);
      UNROLL for (int b = 0; b < BLOCKS; b++)
        offer_block(products[b], left + i, right + j + b * LANES, of, factor, row + i, row_stop,
                    column + j + b * LANES, column_stop, mode);
    }
  for (; j < n; j += LANES) /* at most one block, and none if BLOCKS is 1 */
    for (int64_t i = 0; i < m; i += ROWS) {
      multiply_codes(codes, i, j, 1, products);
      offer_block(products[0], left + i, right + j, of, factor, row + i, row_stop, column + j, column_stop, mode);
    }
}

#define OFFER_CODES(T, IN_BYTES)                                                                                      \
  EXPORT void offer_codes_##T(const TYPE(T) *rows, const TYPE(T) *columns, const float *left, const float *right,     \
                              float *worst, int32_t *count, float *squared, int32_t *ids, int64_t row_blocks,         \
                              int64_t column_blocks, int64_t depth, int64_t room, double factor, int64_t row,         \
                              int64_t row_stop, int64_t column, int64_t column_stop, int64_t same_points,             \
                              int64_t k) {                                                                            \
    const int64_t row_end = least(row_stop, row + row_blocks * LANES);                                                \
    const int64_t column_end = least(column_stop, column + column_blocks * LANES);                                    \
    const struct candidates of = {worst, count, squared, ids, k, room};                                               \
    const struct codes codes = {rows, columns, depth, IN_BYTES};                                                      \
    if (same_points)                                                                                                  \
      offer_coded(&codes, left, right, &of, (float)factor, row, row_end, column, column_end, SAME_POINTS);            \
    else                                                                                                              \
      offer_coded(&codes, left, right, &of, (float)factor, row, row_end, column, column_end, BOTH_WAYS);              \
  }

OFFER_CODES(i, true)
OFFER_CODES(f, false)

EXPORT void mirror(const int32_t *ids, const int32_t *kept, bool *lonely, int64_t k, int64_t start, int64_t stop) {
  for (int64_t i = start; i < stop; i++)
    for (int64_t p = 0; p < kept[i]; p++) {
      const int64_t j = ids[i * k + p];
      int32_t known = 0;
      for (int64_t q = 0; q < kept[j]; q++) known |= ids[j * k + q] == i;
      lonely[i * k + p] = !known;
    }
}

EXPORT void smallest(const double *D, int32_t *ids, double *values, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; i++) {
    const double *row = D + i * n;
    int32_t *columns = ids + i * k;
    double *kept = values + i * k, largest = INFINITY;
    for (int64_t q = 0; q < k; q++) kept[q] = INFINITY, columns[q] = 0;
    for (int64_t j = 0; j < n; j++) {
      if (!(row[j] < largest)) continue;
      int64_t q = k - 1; /* insertion sort */
      for (; q > 0 && kept[q - 1] > row[j]; q--) kept[q] = kept[q - 1], columns[q] = columns[q - 1];
      kept[q] = row[j], columns[q] = (int32_t)j;
      largest = kept[k - 1];
    }
  }
}

#define MEASURE(X, Y)                                                                                                 \
  EXPORT void measure_##X##Y(const TYPE(X) *points, const TYPE(Y) *others, int32_t *ids, double *squared, int64_t d,   \
                             int64_t k, int64_t start, int64_t stop) {                                                \
    for (int64_t i = start; i < stop; i++) {                                                                          \
      int32_t *numbers = ids + i * k;                                                                                 \
      double *values = squared + i * k;                                                                               \
      for (int64_t p = 0; p < k; p++) {                                                                               \
        const int32_t j = numbers[p];                                                                                 \
        double total = 0.0;                                                                                           \
        for (int64_t c = 0; c < d; c++) {                                                                             \
          const double difference = (double)points[i * d + c] - (double)others[j * d + c];                            \
          total += difference * difference;                                                                           \
        }                                                                                                             \
        int64_t q = p; /* insertion sort */                                                                           \
        for (; q > 0 && (values[q - 1] > total || (values[q - 1] == total && numbers[q - 1] > j)); q--)               \
          values[q] = values[q - 1], numbers[q] = numbers[q - 1];                                                     \
        values[q] = total, numbers[q] = j;                                                                            \
      }                                                                                                               \
    }                                                                                                                 \
  }

MEASURE(f, f)
MEASURE(f, d)
MEASURE(d, f)
MEASURE(d, d)

#define LISTS(T)                                                                                                      \
  EXPORT void list_kept_##T(const int32_t *ids, const TYPE(T) *squared, const int32_t *kept, const int64_t *indptr,    \
                            int32_t *columns, TYPE(T) *values, int64_t k, int64_t start, int64_t stop) {              \
    for (int64_t i = start; i < stop; i++) {                                                                          \
      const int64_t first = indptr[i];                                                                                \
      columns[first] = (int32_t)i, values[first] = 0;                                                                 \
      for (int64_t p = 0; p < kept[i]; p++)                                                                           \
        columns[first + 1 + p] = ids[i * k + p], values[first + 1 + p] = squared[i * k + p];                          \
    }                                                                                                                 \
  }                                                                                                                   \
                                                                                                                      \
  EXPORT void list_lonely_##T(const int32_t *ids, const TYPE(T) *squared, const int32_t *kept, const bool *lonely,     \
                              int64_t *place, int32_t *columns, TYPE(T) *values, int64_t n, int64_t k) {              \
    for (int64_t i = 0; i < n; i++)                                                                                   \
      for (int64_t p = 0; p < kept[i]; p++)                                                                           \
        if (lonely[i * k + p]) {                                                                                      \
          const int64_t at = place[ids[i * k + p]]++;                                                                 \
          columns[at] = (int32_t)i, values[at] = squared[i * k + p];                                                  \
        }                                                                                                             \
  }

LISTS(f)
LISTS(d)

#define GAUSSIAN_ENTRIES(I, J, S, T)                                                                                  \
  EXPORT void gaussian_entries_##I##J##S##T(const TYPE(I) *indptr, const TYPE(J) *columns,                            \
                                            const TYPE(S) *restrict squared, const double *scale,                     \
                                            TYPE(T) *restrict out, int64_t start, int64_t stop) {                     \
    for (int64_t i = start; i < stop; i++)                                                                            \
      for (int64_t p = indptr[i]; p < indptr[i + 1]; p++)                                                             \
        out[p] = (TYPE(T))exp_d(-((double)squared[p] * scale[i] * scale[columns[p]]));                                \
  }

#define FOR_INDICES(I, J)      \
  GAUSSIAN_ENTRIES(I, J, f, f) \
  GAUSSIAN_ENTRIES(I, J, f, d) \
  GAUSSIAN_ENTRIES(I, J, d, f) \
  GAUSSIAN_ENTRIES(I, J, d, d)

FOR_INDICES(i, i)
FOR_INDICES(i, l)
FOR_INDICES(l, i)
FOR_INDICES(l, l)
