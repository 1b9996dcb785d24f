/* SPDX-License-Identifier: Apache-2.0 */
/* The engines that are built in: one line each here, one folder each beside this file. */
#include <config.h>

#include "lib/engines/engine.h"
#include "lib/engines/self/self.h"
#include "lib/engines/shm/shm.h"

const struct accel_engine *const engines[] = { &engine_self, &engine_shm, NULL };
