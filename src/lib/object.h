/* SPDX-License-Identifier: Apache-2.0 */
/* What every object that accel_prepare() takes begins with, so that it can tell them apart and refuse what is none. */
#ifndef LIB_OBJECT_H
#define LIB_OBJECT_H

#include <accel/state.h>

enum object_kind {
    OBJECT_MODEL = 0x4d0de1,
    OBJECT_OPTIMIZER,
    OBJECT_LOADER,
    OBJECT_SCHEDULER,
};

struct object {
    uint64_t magic;      /* OBJECT_MAGIC ^ enum object_kind */
    struct accel *owner; /* who prepared it; NULL: nobody yet */
    struct object *next; /* of those that the owner prepared, the latest first */
    int64_t number;      /* among these, 1 for the first; the same on all processes */
};

#define OBJECT_MAGIC UINT64_C (0xacce1e7a7e000000)
#define OBJECT_INIT(kind) { .magic = OBJECT_MAGIC ^ (kind) }

#endif
