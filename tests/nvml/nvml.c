/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for NVIDIA's libnvidia-ml.so.1: the GPUs are those of the file that NVML_STANDIN names, one thing a line:
 *
 *     driver VERSION                       of the driver; "driver" and "cuda" come first
 *     cuda NUMBER                          12020 for 12.2
 *     gpu BUS UUID MIB FREE_MIB CAPABILITY NAME...
 *     mig GPU UUID MIB NAME...             a part of a GPU
 *     process GPU PID MIB                  that computes; MIB may be unknown
 *     draws GPU PID MIB                    that draws
 *     level GPU GPU NUMBER                 their nearest common ancestor: 0, 10, ... 50
 *     nvlink GPU GPU COUNT
 *     switch GPU COUNT                     NVLinks to switches
 *     peer GPU GPU STATUS                  nvmlGpuP2PStatus_t
 *     load GPU PERCENT DEGREES             how busy and how hot it is
 *     lost GPU                             it has fallen off the bus
 *     fail CALL RESULT                     that function returns RESULT
 *
 * NVML_FAIL="N RESULT" makes the Nth call return RESULT, and NVML_CALLS names a file that gets a line for each call.
 * With OLD_DRIVER, it is the library of a driver of 2016: without MIG, NVLink and newer versions of functions.
 * It is as strict as it can be: calls before nvmlInit_v2 and foreign handles are errors. */
#include <config.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__ ((visibility ("default")))

enum { MOST = 80, LINKS = 18 };
enum { UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15 };

struct part {
    char uuid[96], name[96];
    unsigned long long mib;
};

struct process {
    unsigned int pid;
    unsigned long long bytes;
    bool draws;
};

static struct device {
    char bus[32], uuid[96], name[96];
    unsigned long long mib, free;
    int major, minor, parts_count, process_count, switched;
    bool is_lost, has_load;
    unsigned int use, degrees;
    struct part parts[8];
    struct process processes[200];
    int level[MOST], nvlinks[MOST], peer[MOST];
} devices[MOST];
static int count, cuda;
static char driver[80];
static bool is_read, is_open;
static struct failure {
    char name[64];
    int result;
} failures[16];
static int failure_count;

static void
set_both (int table_of (struct device *, int, int), int one, int other, int value)
{
    table_of (&devices[one], other, value);
    table_of (&devices[other], one, value);
}

static int
set_level (struct device *device, int other, int value)
{
    return device->level[other] = value;
}

static int
set_nvlinks (struct device *device, int other, int value)
{
    return device->nvlinks[other] = value;
}

static int
set_peer (struct device *device, int other, int value)
{
    return device->peer[other] = value;
}

static void
read_gpu (const char *line)
{
    struct device *device = &devices[count++];
    sscanf (line, "gpu %31s %95s %llu %llu %d.%d %95[^\n]", device->bus, device->uuid, &device->mib, &device->free,
            &device->major, &device->minor, device->name);
    for (int i = 0; i < MOST; i++)
        device->level[i] = 50;
}

static void
read_line (const char *line)
{
    int one, other, number, pid;
    char uuid[96], name[96], size[32];
    unsigned long long mib;
    if (!strncmp (line, "gpu ", 4))
        read_gpu (line);
    else if (sscanf (line, "mig %d %95s %llu %95[^\n]", &one, uuid, &mib, name) == 4) {
        struct part *part = &devices[one].parts[devices[one].parts_count++];
        memcpy (part->uuid, uuid, sizeof uuid);
        memcpy (part->name, name, sizeof name);
        part->mib = mib;
    } else if (sscanf (line, "process %d %d %31s", &one, &pid, size) == 3
               || sscanf (line, "draws %d %d %31s", &one, &pid, size) == 3) {
        struct process *process = &devices[one].processes[devices[one].process_count++];
        process->pid = (unsigned int) pid;
        process->bytes = !strcmp (size, "unknown") ? ~0ULL : strtoull (size, NULL, 10) << 20;
        process->draws = *line == 'd';
    } else if (sscanf (line, "level %d %d %d", &one, &other, &number) == 3)
        set_both (set_level, one, other, number);
    else if (sscanf (line, "nvlink %d %d %d", &one, &other, &number) == 3)
        set_both (set_nvlinks, one, other, number);
    else if (sscanf (line, "peer %d %d %d", &one, &other, &number) == 3)
        set_both (set_peer, one, other, number);
    else if (sscanf (line, "switch %d %d", &one, &number) == 2)
        devices[one].switched = number;
    else if (sscanf (line, "load %d %d %d", &one, &number, &other) == 3) {
        devices[one].has_load = true;
        devices[one].use = (unsigned int) number;
        devices[one].degrees = (unsigned int) other;
    } else if (sscanf (line, "lost %d", &one) == 1)
        devices[one].is_lost = true;
    else if (sscanf (line, "fail %63s %d", failures[failure_count].name, &failures[failure_count].result) == 2)
        failure_count++;
    else if (sscanf (line, "driver %79s", driver) != 1 && sscanf (line, "cuda %d", &cuda) != 1 && *line != '\n')
        abort ();
}

static void
read_machine (void)
{
    const char *name = getenv ("NVML_STANDIN");
    char line[512];
    FILE *file = name ? fopen (name, "re") : NULL;
    while (file && fgets (line, sizeof line, file))
        read_line (line);
    if (file)
        fclose (file);
    is_read = true;
}

/* @return what the call has to return at once, or 0 */
static int
enter (const char *name)
{
    static int calls;
    int number, result;
    const char *fail = getenv ("NVML_FAIL"), *calls_name = getenv ("NVML_CALLS");
    FILE *file = calls_name ? fopen (calls_name, "ae") : NULL;
    if (file) {
        fprintf (file, "%s\n", name);
        fclose (file);
    }
    if (!is_read)
        read_machine ();
    calls++;
    if (fail && sscanf (fail, "%d %d", &number, &result) == 2 && number == calls)
        return result;
    for (int i = 0; i < failure_count; i++)
        if (!strcmp (failures[i].name, name))
            return failures[i].result;
    return is_open || !strcmp (name, "nvmlInit_v2") || !strcmp (name, "nvmlSystemGetNVMLVersion") ? 0 : UNINITIALIZED;
}

/* @return the device of @handle, or NULL: also of parts, which are devices for most functions */
static struct device *
find (void *handle)
{
    for (int i = 0; i < count; i++) {
        if (handle == &devices[i])
            return &devices[i];
        for (int j = 0; j < devices[i].parts_count; j++)
            if (handle == &devices[i].parts[j])
                return &devices[i];
    }
    return NULL;
}

#define CALL(name, ...)            \
    EXPORT int name (__VA_ARGS__); \
    EXPORT int name (__VA_ARGS__)

#define ENTER(result) int result = enter (__func__)

CALL (nvmlInit_v2, void)
{
    ENTER (result);
    is_open = is_open || !result;
    return result;
}

EXPORT const char *nvmlErrorString (int result);
EXPORT const char *
nvmlErrorString (int result)
{
    return result == 9 ? "Driver Not Loaded" : result == 4 ? "Insufficient Permissions"
                       : result == 18                      ? "Driver/library version mismatch"
                                                           : "Unknown Error";
}

CALL (nvmlSystemGetDriverVersion, char *text, unsigned int size)
{
    ENTER (result);
    if (!result)
        snprintf (text, size, "%s", driver);
    return result;
}

CALL (nvmlSystemGetNVMLVersion, char *text, unsigned int size)
{
    ENTER (result);
    if (!result)
        snprintf (text, size, "12.%s", driver);
    return result;
}

CALL (nvmlSystemGetCudaDriverVersion, int *version)
{
    ENTER (result);
    if (!result)
        *version = cuda;
    return result;
}

CALL (nvmlDeviceGetCount_v2, unsigned int *number)
{
    ENTER (result);
    if (!result)
        *number = (unsigned int) count;
    return result;
}

CALL (nvmlDeviceGetHandleByIndex_v2, unsigned int index, void **device)
{
    ENTER (result);
    if (result || index >= (unsigned int) count)
        return result ? result : INVALID;
    if (devices[index].is_lost)
        return LOST;
    *device = &devices[index];
    return 0;
}

static struct part *
find_part (void *handle)
{
    struct device *device = find (handle);
    return device && handle != device ? handle : NULL;
}

CALL (nvmlDeviceGetName, void *handle, char *text, unsigned int size)
{
    ENTER (result);
    struct device *device = find (handle);
    if (result || !device)
        return result ? result : INVALID;
    struct part *part = find_part (handle);
    snprintf (text, size, "%s", part ? part->name : device->name);
    return 0;
}

CALL (nvmlDeviceGetUUID, void *handle, char *text, unsigned int size)
{
    ENTER (result);
    struct device *device = find (handle);
    if (result || !device)
        return result ? result : INVALID;
    struct part *part = find_part (handle);
    snprintf (text, size, "%s", part ? part->uuid : device->uuid);
    return 0;
}

CALL (nvmlDeviceGetMemoryInfo, void *handle, unsigned long long *memory)
{
    ENTER (result);
    struct device *device = find (handle);
    if (result || !device)
        return result ? result : INVALID;
    struct part *part = find_part (handle);
    memory[0] = (part ? part->mib : device->mib) << 20;
    memory[1] = (part ? part->mib : device->free) << 20;
    memory[2] = memory[0] - memory[1];
    return 0;
}

CALL (nvmlDeviceGetUtilizationRates, void *handle, unsigned int *percent)
{
    ENTER (result);
    struct device *device = find (handle);
    if (result || !device)
        return result ? result : INVALID;
    if (!device->has_load)
        return UNSUPPORTED;
    percent[0] = device->use;
    percent[1] = 1;
    return 0;
}

CALL (nvmlDeviceGetTemperature, void *handle, int sensor, unsigned int *degrees)
{
    ENTER (result);
    struct device *device = find (handle);
    if (result || !device || sensor)
        return result ? result : INVALID;
    if (!device->has_load)
        return UNSUPPORTED;
    *degrees = device->degrees;
    return 0;
}

CALL (nvmlDeviceGetCudaComputeCapability, void *handle, int *major, int *minor)
{
    ENTER (result);
    struct device *device = find (handle);
    if (result || !device)
        return result ? result : INVALID;
    *major = device->major;
    *minor = device->minor;
    return 0;
}

struct pci {
    char short_id[16];
    unsigned int domain, bus, device, id, subsystem;
    char long_id[32];
};

static void
fill_pci (const struct device *device, struct pci *pci)
{
    sscanf (device->bus, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    snprintf (pci->long_id, sizeof pci->long_id, "0000%.12s", device->bus);
    snprintf (pci->short_id, sizeof pci->short_id, "%.12s", device->bus);
}

CALL (nvmlDeviceGetPciInfo_v3, void *handle, struct pci *pci)
{
    ENTER (result);
    struct device *device = find (handle);
    if (!result && device)
        fill_pci (device, pci);
    return result ? result : device ? 0 : INVALID;
}

CALL (nvmlDeviceGetTopologyCommonAncestor, void *one, void *other, unsigned int *level)
{
    ENTER (result);
    struct device *first = find (one), *second = find (other);
    if (result || !first || !second || first == second)
        return result ? result : INVALID;
    *level = (unsigned int) first->level[second - devices];
    return 0;
}

CALL (nvmlDeviceGetP2PStatus, void *one, void *other, unsigned int index, unsigned int *status)
{
    ENTER (result);
    struct device *first = find (one), *second = find (other);
    if (result || !first || !second || index > 4)
        return result ? result : INVALID;
    *status = (unsigned int) first->peer[second - devices];
    return 0;
}

struct process_1 {
    unsigned int pid;
    unsigned long long memory;
};
struct process_2 {
    unsigned int pid;
    unsigned long long memory;
    unsigned int gpu_instance, compute_instance;
};

static int
list_processes (int result, void *handle, unsigned int *room, void *list, bool draws, bool is_first)
{
    struct device *device = find (handle);
    if (result || !device)
        return result ? result : INVALID;
    unsigned int found = 0;
    for (int i = 0; i < device->process_count; i++)
        found += device->processes[i].draws == draws;
    if (found > *room) {
        *room = found;
        return TOO_SMALL;
    }
    *room = found;
    unsigned int at = 0;
    for (int i = 0; i < device->process_count; i++) {
        const struct process *process = &device->processes[i];
        if (process->draws != draws)
            continue;
        if (is_first)
            ((struct process_1 *) list)[at++] = (struct process_1){ process->pid, process->bytes };
        else
            ((struct process_2 *) list)[at++] = (struct process_2){ process->pid, process->bytes, ~0U, ~0U };
    }
    return 0;
}

#ifdef OLD_DRIVER
CALL (nvmlDeviceGetComputeRunningProcesses, void *handle, unsigned int *room, void *list)
{
    ENTER (result);
    return list_processes (result, handle, room, list, false, true);
}
#else
CALL (nvmlDeviceGetComputeRunningProcesses_v3, void *handle, unsigned int *room, void *list)
{
    ENTER (result);
    return list_processes (result, handle, room, list, false, false);
}

CALL (nvmlDeviceGetGraphicsRunningProcesses_v3, void *handle, unsigned int *room, void *list)
{
    ENTER (result);
    return list_processes (result, handle, room, list, true, false);
}

CALL (nvmlDeviceGetMigMode, void *handle, unsigned int *current, unsigned int *pending)
{
    ENTER (result);
    struct device *device = find (handle);
    if (result || !device)
        return result ? result : INVALID;
    if (device->major < 8)
        return UNSUPPORTED;
    *current = *pending = device->parts_count > 0;
    return 0;
}

CALL (nvmlDeviceGetMigDeviceHandleByIndex, void *handle, unsigned int index, void **part)
{
    ENTER (result);
    struct device *device = find (handle);
    if (result || !device || find_part (handle))
        return result ? result : INVALID;
    /* index 1 is a gap */
    if (index == 1 || (index > 1 ? index - 1 : index) >= (unsigned int) device->parts_count)
        return NOT_FOUND;
    *part = &device->parts[index > 1 ? index - 1 : index];
    return 0;
}

/* @return the GPU at the end of @link, or -1: a switch, or -2: none */
static int
find_end (const struct device *device, unsigned int link)
{
    int at = 0;
    for (int i = 0; i < count; i++)
        if ((at += device->nvlinks[i]) > (int) link)
            return i;
    return at + device->switched > (int) link ? -1 : -2;
}

CALL (nvmlDeviceGetNvLinkState, void *handle, unsigned int link, unsigned int *is_active)
{
    ENTER (result);
    struct device *device = find (handle);
    if (result || !device || link >= LINKS)
        return result ? result : INVALID;
    if (device->major < 6)
        return UNSUPPORTED;
    *is_active = find_end (device, link) > -2;
    return 0;
}

CALL (nvmlDeviceGetNvLinkRemoteDeviceType, void *handle, unsigned int link, unsigned int *type)
{
    ENTER (result);
    struct device *device = find (handle);
    if (result || !device || find_end (device, link) == -2)
        return result ? result : INVALID;
    *type = find_end (device, link) == -1 ? 2 : 0;
    return 0;
}

CALL (nvmlDeviceGetNvLinkRemotePciInfo_v2, void *handle, unsigned int link, struct pci *pci)
{
    ENTER (result);
    struct device *device = find (handle);
    if (result || !device || find_end (device, link) < 0)
        return result ? result : INVALID;
    fill_pci (&devices[find_end (device, link)], pci);
    return 0;
}
#endif
