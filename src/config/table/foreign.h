/* SPDX-License-Identifier: Apache-2.0 */
/* Options of torchrun, mpirun, srun, deepspeed and others, and what to write instead. */
#ifndef CONFIG_TABLE_FOREIGN_H
#define CONFIG_TABLE_FOREIGN_H

#include "config/table/options.h"

enum { FOREIGN_ADVICE_LENGTH = 256 }; /* bytes of the longest advice */

/**
 * Advice for an option that this command does not have.
 *
 * @param word    without its dashes, in any mixture of '-' and '_'
 * @param length  of @p word, in bytes
 * @param value   what was given to it, or NULL: the advice repeats it if the option takes the same values
 * @return "use --num_processes 2, ..." (static, or in @p space), or NULL if no known launcher uses @p word
 */
const char *foreign_advice (enum option_command command, const char *word, size_t length, const char *value,
                          char space[FOREIGN_ADVICE_LENGTH]);

#endif
