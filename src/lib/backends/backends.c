/* SPDX-License-Identifier: Apache-2.0 */
/* The backends that are built in: one line each here, one folder each beside this file. */
#include <config.h>

#include "lib/backends/backend.h"
#include "lib/backends/self/self.h"
#include "lib/backends/shm/shm.h"

const struct backend *const backends[] = { &backend_self, &backend_shm, NULL };
