/* SPDX-License-Identifier: Apache-2.0 */
/* Options of torchrun, mpirun, srun, deepspeed and others, and what to write instead. */
#ifndef CONFIG_HABITS_H
#define CONFIG_HABITS_H

#include "config/options.h"

/**
 * Advice for an option that this command does not have.
 *
 * @param word    without its dashes, in any mixture of '-' and '_'
 * @param length  of @p word, in bytes
 * @return "use --num_processes, ..." (static), or NULL if no known launcher uses @p word
 */
const char *habit_advice (enum option_command command, const char *word, size_t length);

#endif
