/* Which instructions the processor has. */

#include "loops.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(_WIN32)
#include <windows.h>
#endif

#ifdef __x86_64__
/* By the instruction for it: Zig has no library for __builtin_cpu_supports. */
static const char *x86_level(void) {
  const uint32_t fma_movbe_osxsave_avx_f16c = 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29, lzcnt = 1u << 5;
  const uint32_t bmi_avx2_bmi2 = 1u << 3 | 1u << 5 | 1u << 8;
  const uint32_t avx512_f_dq_cd_bw_vl = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
  uint32_t a, b, c, d, saved, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || ~c & fma_movbe_osxsave_avx_f16c) return "baseline";
  if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || ~c & lzcnt) return "baseline";
  __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0)); /* registers that the operating system saves */
  if (~saved & 0x6 || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || ~b & bmi_avx2_bmi2) return "baseline";
  return ~saved & 0xE6 || ~b & avx512_f_dq_cd_bw_vl ? "x86-64-v3" : "x86-64-v4";
}
#endif

/* The variant of the library that is best for this processor; see hatch_build.py. */
EXPORT const char *variant(void) {
#if defined(__x86_64__)
  return x86_level();
#elif defined(__aarch64__)
#if defined(__linux__)
  const bool dot_products = getauxval(AT_HWCAP) >> 20 & 1; /* HWCAP_ASIMDDP */
#elif defined(_WIN32)
  const bool dot_products = IsProcessorFeaturePresent(43); /* PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE */
#else
#ifdef __APPLE__
  const bool dot_products = true;
#else
  const bool dot_products = false; /* unknown */
#endif
#endif
  return dot_products ? "arm64-dotprod" : "baseline";
#else
  return "baseline";
#endif
}
