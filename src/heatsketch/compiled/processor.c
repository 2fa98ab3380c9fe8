/* Which instructions the processor has. */

#include "loops.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(_WIN32)
#include <windows.h>
#endif

/* The variant of the library that is best for this processor; see hatch_build.py. */
EXPORT const char *variant(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v3 && v4 ? "x86-64-v4" : v3 ? "x86-64-v3" : "baseline";
#elif defined(__aarch64__)
#if defined(__linux__)
  const bool dot_products = getauxval(AT_HWCAP) >> 20 & 1; /* HWCAP_ASIMDDP */
#elif defined(_WIN32)
  const bool dot_products = IsProcessorFeaturePresent(43); /* PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE */
#else
  const bool dot_products = true; /* Apple's processors */
#endif
  return dot_products ? "arm64-dotprod" : "baseline";
#else
  return "baseline";
#endif
}
