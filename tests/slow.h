/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the thread sanitizer makes every access to memory some twenty times as slow: tests that compare many elements
 * then take fewer sizes, for what it looks for shows in each of them. */
#ifndef TESTS_SLOW_H
#define TESTS_SLOW_H

#ifdef __SANITIZE_THREAD__
#define IS_SLOW 1
#else
#define IS_SLOW 0
#endif

#endif
