/* SPDX-License-Identifier: Apache-2.0 */
/* The engine for a job of one process. */
#ifndef LIB_ENGINES_SELF_H
#define LIB_ENGINES_SELF_H

#include "lib/engines/engine.h"

extern const struct accel_engine engine_self;

#endif
