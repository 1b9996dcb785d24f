/* SPDX-License-Identifier: Apache-2.0 */
/* The default generator as a part of each job: checkpoints save it. */
#ifndef LIB_DATA_RANDOM_PART_H
#define LIB_DATA_RANDOM_PART_H

#include "lib/state/part.h"

extern const struct part_kind part_random;

#endif
