/* SPDX-License-Identifier: Apache-2.0 */
/* The terminal that lines are redrawn on. */
#ifndef LIB_UTILITY_TERMINAL_H
#define LIB_UTILITY_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/** @return how many characters a line on standard error may have: what wraps cannot be drawn over. */
size_t terminal_columns (bool terminal);

#endif
