/* SPDX-License-Identifier: Apache-2.0 */
/* A menu at a terminal: arrow keys, j and k, or digits move, Enter chooses. */
#ifndef CLI_MENU_H
#define CLI_MENU_H

#include "cli/prompt.h"

#include <stddef.h>

/** Whether a choice is only a number, which then need not be shown twice. */
bool menu_is_number (const char *label);

/**
 * Let a person choose.  Needs prompt_can_draw().
 *
 * @param numbers         the meaning of digits, one for each label
 * @param[in,out] chosen  the label that is marked first, then the chosen one
 */
enum prompt_result menu_choose (const char *question, const char *const *labels, const int *numbers, size_t count,
                                size_t *chosen);

#endif
