/* What the loops share: names of instances, short vectors, and functions that loops over them vectorise.

Functions take addresses of C-contiguous arrays and their sizes, and a range of rows where several threads share the
work. They allocate nothing and keep no state. C has no templates: a file that serves several types includes itself,
once for each of them. The names of instances end in letters of their types: f and d for float and double, i and l for
32 and 64 bit integers.

Sums keep the order in which they are written, and NaN and infinity are meant: padding is NaN, initial limits are
infinite. Products and sums may be fused. */

#ifndef HEATSKETCH_LOOPS_H
#define HEATSKETCH_LOOPS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#define INLINE static inline __attribute__((always_inline))

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/* The types that letters stand for. */
typedef float type_f;
typedef double type_d;
typedef int32_t type_i;
typedef int64_t type_l;
#define TYPE(letter) JOIN(type, letter)

/* Bytes of a register of the processor, and of the sums of a row of which four rows fit into the registers. */
#if defined(__AVX512F__)
enum { REGISTER = 64, WIDE = 128 };
#elif defined(__AVX__)
enum { REGISTER = 32, WIDE = 64 };
#elif defined(__aarch64__)
enum { REGISTER = 16, WIDE = 64 };
#else
enum { REGISTER = 16, WIDE = 32 };
#endif
#define WIDE_LANES(real) (WIDE / sizeof(real) < 8 ? 8 : WIDE / sizeof(real))

/* A short vector: the compiler keeps an array of them in registers if it is the size of a register, and if loops over
the array are unrolled. `PART` is the number of entries of each, if `lanes` are divided among several. */
#define PART(real, lanes) ((lanes) * sizeof(real) < REGISTER ? (lanes) : REGISTER / sizeof(real))
#define VECTOR(real, part) real __attribute__((vector_size((part) * sizeof(real)), aligned(sizeof(real)), may_alias))
#define UNROLL _Pragma("GCC unroll 16")

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

INLINE uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

INLINE float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

INLINE uint64_t bits_of_double(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

INLINE double double_of(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* exp(x) for x <= 0 to two units in the last place; branch-free, so that loops over it are vectorised. Adding and
subtracting 1.5 2^23 rounds to an integer. */
INLINE float exp_f(float x) {
  float y = x > -87.0f ? x : -87.0f;
  float shifted = y * 1.4426950408889634f + 12582912.0f;
  float n = shifted - 12582912.0f;
  float f = y - n * 0.693359375f;
  f = f - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * f * f + f + 1.0f;
  float e = float_of(bits_of(p) + (bits_of(shifted) << 23));
  return x >= -87.0f ? e : 0.0f;
}

INLINE double exp_d(double x) {
  double y = x > -708.0 ? x : -708.0;
  double shifted = y * 1.4426950408889634 + 6755399441055744.0;
  double n = shifted - 6755399441055744.0;
  double f = y - n * 6.93145751953125e-1;
  f = f - n * 1.42860682030941723212e-6;
  double p = 1.0 / 6227020800.0;
  p = p * f + 1.0 / 479001600.0;
  p = p * f + 1.0 / 39916800.0;
  p = p * f + 1.0 / 3628800.0;
  p = p * f + 1.0 / 362880.0;
  p = p * f + 1.0 / 40320.0;
  p = p * f + 1.0 / 5040.0;
  p = p * f + 1.0 / 720.0;
  p = p * f + 1.0 / 120.0;
  p = p * f + 1.0 / 24.0;
  p = p * f + 1.0 / 6.0;
  p = p * f + 0.5;
  p = p * f * f + f + 1.0;
  double e = double_of(bits_of_double(p) + (bits_of_double(shifted) << 52));
  return x >= -708.0 ? e : 0.0;
}

#endif
