/* SPDX-License-Identifier: Apache-2.0 */
/* The backend for a job of one process. */
#ifndef LIB_BACKENDS_SELF_H
#define LIB_BACKENDS_SELF_H

#include "lib/backends/backend.h"

extern const struct backend backend_self;

#endif
