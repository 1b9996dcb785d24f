/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs by number and UUID; see gpu_choice.h. */
#include <config.h>

#include "launch/plan/gpu_choice.h"

#include "launch/machine/gpus.h"
#include "launch/machine/topology.h"
#include "util/cleanup.h"
#include "util/parse.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* CUDA takes the beginning of a UUID for it, if there is only one.  @return its place, -1: none, -2: several */
static int
find_uuid (const char *uuid, const struct topology *topology)
{
    int found = -1;
    for (int i = 0; i < topology->gpu_location_count; i++)
        if (!strncasecmp (topology->gpu_locations[i].uuid, uuid, strlen (uuid)))
            found = found == -1 ? i : -2;
    return found;
}

static bool
knows_uuids (const struct topology *topology)
{
    for (int i = 0; i < topology->gpu_location_count; i++)
        if (strncmp (topology->gpu_locations[i].uuid, "GPU-", 4) != 0 || strchr (topology->gpu_locations[i].uuid, '?'))
            return false;
    return topology->gpu_location_count > 0;
}

static bool
is_number (const char *entry, int64_t *number)
{
    return parse_int64 (entry, 0, INT_MAX, number) == PARSE_OK;
}

static int
check_entry (const char *entry, const struct topology *topology, struct fail *fail)
{
    int64_t number;
    int present = topology->gpus_present;
    if (is_number (entry, &number) && number >= present)
        return fail_set (fail, FAIL_USAGE, "gpu_ids: GPU %s does not exist: %s has %d GPU%s, numbered from 0", entry,
                         topology->host, present, present > 1 ? "s" : "");
    if (strncmp (entry, "GPU-", 4) || !knows_uuids (topology))
        return 0;
    int found = find_uuid (entry, topology);
    if (found == -1)
        return fail_set (fail, FAIL_USAGE, "gpu_ids: no GPU of %s has the UUID %s; 'accelerate env' lists them",
                         topology->host, entry);
    if (found == -2)
        return fail_set (fail, FAIL_USAGE, "gpu_ids: the UUIDs of several GPUs of %s begin with %s: give more of it",
                         topology->host, entry);
    return 0;
}

int
gpu_choice_check (const char *list, const struct topology *topology, struct fail *fail)
{
    if (!topology->gpus_present)
        return 0;
    for (size_t length; *list; list += length + (list[length] == ',')) {
        length = strcspn (list, ",");
        AUTO_FREE char *entry = strndup (list, length);
        if (!entry)
            return fail_nomem (fail);
        if (check_entry (entry, topology, fail))
            return -1;
    }
    return 0;
}

bool
gpu_choice_has_mig (const char *list)
{
    return !strncmp (list, "MIG-", 4) || strstr (list, ",MIG-");
}

void
gpu_choice_add_entry (const char *list, int local_rank, struct strbuf *out)
{
    int count = topology_visible_gpus (list, INT_MAX);
    for (int turn = count > 0 ? local_rank % count : 0; turn > 0; turn--) {
        list += strcspn (list, ",");
        list += *list == ',';
    }
    strbuf_add_bytes (out, list, strcspn (list, ","));
}

/* CUDA numbers the fastest GPU 0 and the others by the bus, unless CUDA_DEVICE_ORDER=PCI_BUS_ID. */
static bool
is_in_bus_order (const struct topology *topology)
{
    if (topology->cuda_order && !strcmp (topology->cuda_order, "PCI_BUS_ID"))
        return true;
    for (int i = 1; i < topology->gpu_location_count; i++)
        if (strcmp (topology->gpu_locations[i].model, topology->gpu_locations[0].model) != 0)
            return false;
    return true;
}

/* Whether it makes no difference which GPU it is. */
static bool
share_cpus (const struct topology *topology)
{
    for (int i = 1; i < topology->gpu_location_count; i++)
        if (strcmp (topology->gpu_locations[i].cpus, topology->gpu_locations[0].cpus) != 0)
            return false;
    return true;
}

/* @return the place of the GPU, or -1 */
static int
find_gpu (const char *entry, const struct topology *topology)
{
    int64_t number;
    if (is_number (entry, &number))
        return number < topology->gpu_location_count && is_in_bus_order (topology) ? (int) number : -1;
    if (!strncmp (entry, "MIG-GPU-", 8)) { /* MIG-<UUID of the GPU>/<instance>/<instance>, in drivers before 470 */
        AUTO_FREE char *uuid = strndup (entry + 4, strcspn (entry + 4, "/"));
        return uuid ? find_uuid (uuid, topology) : -1;
    }
    return strncmp (entry, "GPU-", 4) ? -1 : find_uuid (entry, topology);
}

const char *
gpu_choice_find_cpus (const char *list, int local_rank, const struct topology *topology, char *cpus)
{
    AUTO_STRBUF struct strbuf entry = { 0 };
    int at = -1;
    if (!topology->gpu_location_count)
        return "the driver does not list its GPUs";
    if (list)
        gpu_choice_add_entry (list, local_rank, &entry);
    else
        strbuf_printf (&entry, "%d", local_rank % topology->gpu_location_count);
    if (entry.text)
        at = find_gpu (entry.text, topology);
    if (at < 0 && share_cpus (topology))
        at = 0;
    if (at < 0)
        return "which GPU it uses is not known: set CUDA_DEVICE_ORDER=PCI_BUS_ID, or give UUIDs (GPU-...) in --gpu_ids";
    const struct gpu_location *location = &topology->gpu_locations[at];
    if (!*location->cpus)
        return "the kernel does not list them";
    if (strstr (topology->cpu_list, "..."))
        return "the list of CPUs that the launcher may use is too long";
    cpu_set_t near[8], allowed[8];
    CPU_ZERO_S (sizeof near, near);
    CPU_ZERO_S (sizeof allowed, allowed);
    cpu_list_mark (location->cpus, near, sizeof near);
    cpu_list_mark (topology->cpu_list, allowed, sizeof allowed);
    CPU_AND_S (sizeof near, near, near, allowed);
    if (!CPU_COUNT_S (sizeof near, near))
        return "the launcher may not use any of them";
    cpu_list_write (near, sizeof near, cpus, GPU_CHOICE_CPUS);
    return strstr (cpus, "...") ? "their list is too long" : NULL;
}
