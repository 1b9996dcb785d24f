/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about GPUs: what they are, where, how they are connected, and which processes use them; see facts.h. */
#include <config.h>

#include "cli/env/facts.h"

#include "config/text/json_text.h"
#include "launch/machine/gpus.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <string.h>

static const double gib = 1024.0 * 1024 * 1024;

/* The driver's own names, for where NVML is missing. */
static void
tell_gpus_of_proc (struct strlist *values)
{
    AUTO_FREE struct gpu_location *locations = calloc (GPU_LOCATIONS_MOST, sizeof *locations);
    int count = locations ? gpu_locations_list ("", locations) : 0;
    values->failed = values->failed || !locations;
    for (int i = 0; i < count; i++)
        strlist_add (values, *locations[i].model ? locations[i].model : "unnamed");
}

static int
known_gpus (const struct machine *machine)
{
    return machine->gpu_count < MACHINE_MOST_GPUS ? machine->gpu_count : MACHINE_MOST_GPUS;
}

static struct gpu_location
place_of (const struct gpu *gpu)
{
    struct gpu_location place = { .node = -1 };
    if (*gpu->bus) {
        memcpy (place.bus, gpu->bus, sizeof place.bus);
        gpu_location_find ("", &place);
    }
    return place;
}

static void
fact_gpu (const struct gpu *gpu, struct strlist *values)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    struct gpu_location place = place_of (gpu);
    strbuf_printf (&text, "%d: %s, %.2f GB, %s", gpu->index, gpu->name, (double) gpu->memory / gib,
                   *gpu->uuid ? gpu->uuid : "no UUID");
    if (gpu->memory)
        strbuf_printf (&text, ", %.2f GB free", (double) gpu->memory_free / gib);
    if (gpu->major)
        strbuf_printf (&text, ", compute capability %d.%d", gpu->major, gpu->minor);
    if (*gpu->bus)
        strbuf_printf (&text, ", bus %s", gpu->bus);
    if (place.node >= 0)
        strbuf_printf (&text, ", NUMA node %d", place.node);
    if (*place.cpus)
        strbuf_printf (&text, ", CPUs %s", place.cpus);
    if (gpu->is_mig && !gpu->mig_count)
        strbuf_add (&text, ", in MIG mode without a MIG device: no program can use it");
    strlist_add (values, text.text ? text.text : "");
    values->failed = values->failed || text.failed;
    for (int i = 0; i < gpu->mig_count; i++)
        strlist_printf (values, "%d, part %d: %s, %.2f GB, %s", gpu->index, i, gpu->migs[i].name,
                        (double) gpu->migs[i].memory / gib, gpu->migs[i].uuid);
}

void
fact_gpus (const struct machine *machine, struct strlist *values)
{
    if (machine->gpu_count < 0) {
        tell_gpus_of_proc (values);
        if (machine->gpu_fail.status != FAIL_NOT_FOUND)
            strlist_add (values, machine->gpu_fail.text);
        return;
    }
    for (int i = 0; i < known_gpus (machine); i++)
        fact_gpu (&machine->gpus[i], values);
    if (machine->gpu_count > MACHINE_MOST_GPUS)
        strlist_printf (values, "and %d more", machine->gpu_count - MACHINE_MOST_GPUS);
}

static const char *
name_of_way (enum gpu_way way)
{
    static const char *const names[] = { [GPU_WAY_UNKNOWN] = "?", [GPU_WAY_BOARD] = "BRD", [GPU_WAY_PIX] = "PIX",
                                         [GPU_WAY_PXB] = "PXB",   [GPU_WAY_PHB] = "PHB",   [GPU_WAY_NODE] = "NODE",
                                         [GPU_WAY_SYS] = "SYS" };
    return names[way];
}

static void
name_link (const struct gpu_link *link, char *name, size_t size)
{
    if (link->nvlinks)
        snprintf (name, size, "NV%d", link->nvlinks);
    else
        snprintf (name, size, "%s", name_of_way (link->way));
}

static const char *
reason_of_peer (enum gpu_peer peer)
{
    static const char *const reasons[] = {
        [GPU_PEER_OK] = NULL,
        [GPU_PEER_CHIPSET] = "the chipset does not support it",
        [GPU_PEER_GPU] = "the GPU does not support it",
        [GPU_PEER_TOPOLOGY] = "they are on different I/O hubs",
        [GPU_PEER_DISABLED] = "disabled in the driver",
        [GPU_PEER_UNSUPPORTED] = "not supported",
        [GPU_PEER_UNKNOWN] = NULL,
    };
    return reasons[peer];
}

static bool
knows_links (const struct machine *machine, int count)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++)
            if (machine->gpus[i].links[j].nvlinks || machine->gpus[i].links[j].way != GPU_WAY_UNKNOWN)
                return true;
    return false;
}

/* A table as `nvidia-smi topo -m` prints it, then the pairs without access to each other. */
void
fact_gpu_links (const struct machine *machine, struct strlist *values)
{
    int count = known_gpus (machine);
    if (!knows_links (machine, count))
        return;
    for (int row = -1; row < count; row++) {
        AUTO_STRBUF struct strbuf text = { 0 };
        char name[16] = "";
        if (row >= 0)
            snprintf (name, sizeof name, "GPU%d", row);
        strbuf_printf (&text, "%-5s", name);
        for (int column = 0; column < count; column++) {
            if (row < 0)
                snprintf (name, sizeof name, "GPU%d", column);
            else if (row == column)
                snprintf (name, sizeof name, "X");
            else
                name_link (&machine->gpus[row].links[column], name, sizeof name);
            strbuf_printf (&text, column + 1 < count ? " %-5s" : " %s", name);
        }
        strlist_add (values, text.text ? text.text : "");
        values->failed = values->failed || text.failed;
    }
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++) {
            const char *reason = reason_of_peer (machine->gpus[i].links[j].peer);
            if (reason)
                strlist_printf (values, "GPU %d and GPU %d cannot access each other's memory: %s", i, j, reason);
        }
}

void
fact_gpu_processes (const struct machine *machine, struct strlist *values)
{
    for (int i = 0; i < known_gpus (machine); i++) {
        const struct gpu *gpu = &machine->gpus[i];
        int named = 0;
        for (int j = 0; j < gpu->process_count && j < NVML_MOST_PROCESSES; j++) {
            AUTO_STRBUF struct strbuf text = { 0 };
            if (!gpu->processes[j].pid)
                continue;
            gpu_process_describe (&gpu->processes[j], false, &text);
            strlist_printf (values, "GPU %d: %s", gpu->index, text.text ? text.text : "");
            values->failed = values->failed || text.failed;
            named++;
        }
        if (gpu->process_count > named)
            strlist_printf (values, "GPU %d: %d %sprocesses", gpu->index, gpu->process_count - named,
                            named ? "more " : "");
    }
}

void
fact_driver (const struct machine *machine, struct strlist *values)
{
    AUTO_FREE char *text = NULL;
    const struct gpu *gpu = &machine->gpus[0];
    if (machine->gpu_count > 0 && gpu->cuda_driver)
        strlist_printf (values, "%s, CUDA up to %d.%d", *gpu->driver ? gpu->driver : "unknown", gpu->cuda_driver / 1000,
                        gpu->cuda_driver % 1000 / 10);
    else if (machine->gpu_count > 0 && *gpu->driver)
        strlist_add (values, gpu->driver);
    else if (!io_read_file ("/proc/driver/nvidia/version", 65536, &text, NULL, NULL))
        strlist_printf (values, "%.*s", (int) strcspn (text, "\n"), text);
    else
        strlist_add (values, machine->gpu_count > 0 ? "unknown" : "none");
}

static json_t *
number_or_null (uint64_t number, bool is_known)
{
    return is_known ? json_integer ((json_int_t) number) : json_null ();
}

static json_t *
text_or_null (const char *text)
{
    return *text ? json_text (text) : json_null ();
}

static json_t *
json_of_processes (const struct gpu *gpu)
{
    json_t *array = json_array ();
    for (int i = 0; i < gpu->process_count && i < NVML_MOST_PROCESSES; i++)
        if (gpu->processes[i].pid)
            json_array_append_new (array, json_pack ("{s:i, s:o}", "pid", gpu->processes[i].pid, "memory",
                                                     number_or_null (gpu->processes[i].memory,
                                                                     gpu->processes[i].memory != NVML_UNKNOWN)));
    if (gpu->process_count && !json_array_size (array)) { /* unknown, or none of them is named */
        json_decref (array);
        return json_null ();
    }
    return array;
}

static json_t *
json_of_parts (const struct gpu *gpu)
{
    json_t *array = json_array ();
    for (int i = 0; i < gpu->mig_count; i++)
        json_array_append_new (array, json_pack ("{s:o, s:o, s:o}", "name", json_text (gpu->migs[i].name), "uuid",
                                                 json_text (gpu->migs[i].uuid), "memory",
                                                 number_or_null (gpu->migs[i].memory, gpu->migs[i].memory)));
    return array;
}

static json_t *
json_of_links (const struct machine *machine, const struct gpu *gpu)
{
    json_t *array = json_array ();
    for (int i = 0; i < known_gpus (machine); i++) {
        const struct gpu_link *link = &gpu->links[i];
        if (i == gpu->index)
            continue;
        const char *way = link->way == GPU_WAY_UNKNOWN ? NULL : name_of_way (link->way);
        json_t *access = link->peer == GPU_PEER_UNKNOWN ? json_null () : json_boolean (link->peer == GPU_PEER_OK);
        json_array_append_new (array, json_pack ("{s:i, s:s?, s:i, s:o}", "gpu", i, "path", way, "nvlinks",
                                                 (int) link->nvlinks, "peer_access", access));
    }
    return array;
}

json_t *
machine_gpus_json (const struct machine *machine)
{
    json_t *array = json_array ();
    for (int i = 0; i < known_gpus (machine); i++) {
        const struct gpu *gpu = &machine->gpus[i];
        struct gpu_location place = place_of (gpu);
        json_t *object = json_object ();
        AUTO_STRBUF struct strbuf capability = { 0 };
        strbuf_printf (&capability, "%d.%d", gpu->major, gpu->minor);
        json_object_set_new (object, "index", json_integer (gpu->index));
        json_object_set_new (object, "name", json_text (gpu->name));
        json_object_set_new (object, "uuid", text_or_null (gpu->uuid));
        json_object_set_new (object, "bus", text_or_null (gpu->bus));
        json_object_set_new (object, "memory", number_or_null (gpu->memory, gpu->memory));
        json_object_set_new (object, "memory_free", number_or_null (gpu->memory_free, gpu->memory));
        json_object_set_new (object, "compute_capability",
                             gpu->major && capability.text ? json_text (capability.text) : json_null ());
        json_object_set_new (object, "numa_node", number_or_null ((uint64_t) place.node, place.node >= 0));
        json_object_set_new (object, "cpus", text_or_null (place.cpus));
        json_object_set_new (object, "mig", json_boolean (gpu->is_mig));
        json_object_set_new (object, "mig_devices", json_of_parts (gpu));
        json_object_set_new (object, "processes", json_of_processes (gpu));
        json_object_set_new (object, "links", json_of_links (machine, gpu));
        json_array_append_new (array, object);
    }
    return array;
}
