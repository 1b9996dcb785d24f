/* SPDX-License-Identifier: Apache-2.0 */
/* How functions are compiled whose results are compared with torch's: no operation is fused with the next, which rounds
 * once less; and GCC makes vectors of loops like these from -O3 on only, from which the rest of the library gains
 * nothing.  (Square roots would stay scalar without -fno-math-errno, see m4/accel_flags.m4.) */
#ifndef LIB_KERNELS_ARITHMETIC_H
#define LIB_KERNELS_ARITHMETIC_H

#if defined __GNUC__ && !defined __clang__
#define UNFUSED __attribute__ ((optimize ("fp-contract=off")))
#define VECTORISED __attribute__ ((optimize ("O3", "fp-contract=off")))
#else
#pragma STDC FP_CONTRACT OFF
#define UNFUSED
#define VECTORISED
#endif

#endif
