/* SPDX-License-Identifier: Apache-2.0 */
/* The engine for the processes of one host: shared memory, no daemon, no port. */
#ifndef LIB_ENGINES_SHM_H
#define LIB_ENGINES_SHM_H

#include "lib/engines/engine.h"

extern const struct accel_engine engine_shm;

#endif
