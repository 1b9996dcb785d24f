/* SPDX-License-Identifier: Apache-2.0 */
/* Names of engines as programs and users give them: "shm" for host memory, or "cpu:shm,cuda:nccl", like torch. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/tensor.h"
#include "lib/engines/engine.h"
#include "lib/memory/memory.h"

#include <string.h>

/* One item of a list; without a kind, it is for host memory. */
struct item {
    const char *kind, *name;
    int kind_length, name_length;
};

static struct item
next_item (const char **at)
{
    size_t length = strcspn (*at, ",");
    const char *colon = memchr (*at, ':', length);
    struct item item = { .kind = "cpu", .kind_length = 3, .name = *at, .name_length = (int) length };
    if (colon) {
        item.kind = *at;
        item.kind_length = (int) (colon - *at);
        item.name = colon + 1;
        item.name_length = (int) length - item.kind_length - 1;
    }
    *at += length + ((*at)[length] == ',');
    return item;
}

bool
engine_named (const char *names, const char *kind, char name[ENGINE_NAME_MOST + 1])
{
    for (const char *at = names; at && *at;) {
        struct item item = next_item (&at);
        if ((size_t) item.kind_length != strlen (kind) || strncmp (item.kind, kind, strlen (kind)))
            continue;
        memcpy (name, item.name, (size_t) item.name_length);
        name[item.name_length] = '\0';
        return true;
    }
    return false;
}

static bool
has_memory (const struct item *item)
{
    for (int type = 0; type < MEMORY_KINDS; type++) {
        const char *kind = tensor_device_name ((DLDevice){ .device_type = (DLDeviceType) type });
        if (memory_table (type) && strlen (kind) == (size_t) item->kind_length
            && !strncmp (kind, item->kind, strlen (kind)))
            return true;
    }
    return false;
}

enum accel_status
engine_check_names (const char *names, struct accel_error *err)
{
    for (const char *at = names; at && *at;) {
        const char *begin = at;
        struct item item = next_item (&at);
        if (item.name_length < 1 || item.name_length > ENGINE_NAME_MOST)
            return accel_fail (err, ACCEL_ERR_INVALID,
                               "accel_open: engine '%.80s': expected NAME, or KIND:NAME for several kinds of memory, "
                               "such as cpu:shm,cuda:nccl",
                               names);
        if (!has_memory (&item))
            return accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                               "accel_open: engine '%.*s': this build has no code for %.*s memory",
                               (int) strcspn (begin, ","), begin, item.kind_length, item.kind);
    }
    return ACCEL_OK;
}
