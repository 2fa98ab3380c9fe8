/* Which instructions the processor has. */

#include "loops.h"

/* The level of x86-64 of which there is a variant of the library, 3 or 4; 0 for all others. */
EXPORT int64_t level(void) {
#ifdef __x86_64__
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v3 && v4 ? 4 : v3 ? 3 : 0;
#else
  return 0;
#endif
}
