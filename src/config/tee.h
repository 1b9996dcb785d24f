/* SPDX-License-Identifier: Apache-2.0 */
/* The words of --tee, spelled as for torchrun: one digit for all ranks, or RANK:DIGIT with commas between. */
#ifndef CONFIG_TEE_H
#define CONFIG_TEE_H

#include <stdbool.h>

/** What goes into a file as well; a set of bits. */
enum { TEE_OUT = 1, TEE_ERR = 2 };

bool tee_is_valid (const char *spec);

/** The bits of @p local_rank; none if a valid @p spec does not name it.  As in Accelerate, the last pair counts. */
unsigned tee_of_rank (const char *spec, int local_rank);

/** The greatest rank that @p spec names, -1 if it is for all. */
int tee_greatest_rank (const char *spec);

#endif
