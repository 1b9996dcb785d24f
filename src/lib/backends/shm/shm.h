/* SPDX-License-Identifier: Apache-2.0 */
/* The backend for the processes of one host: shared memory, no daemon, no port. */
#ifndef LIB_BACKENDS_SHM_H
#define LIB_BACKENDS_SHM_H

#include "lib/backends/backend.h"

extern const struct backend backend_shm;

#endif
