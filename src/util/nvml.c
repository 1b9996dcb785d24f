/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs through NVML; see nvml.h.  Names, types and values below are those of NVML's documented, versioned interface.
 * What an old driver's library lacks is unknown, not an error. */
#include <config.h>

#include "util/nvml.h"

#include "util/cleanup.h"
#include "util/probe.h"

#include <dirent.h>
#include <string.h>

static const char nvml_name[] = "libnvidia-ml.so.1";

/* Values of nvmlReturn_t */
enum { NVML_NO_PERMISSION = 4, NVML_TOO_SMALL = 7, NVML_NOT_LOADED = 9, NVML_LOST = 15, NVML_MISMATCH = 18 };

enum { NVLINKS = 18, NVLINK_TO_GPU = 0, NVLINK_TO_SWITCH = 2, P2P_READ = 0 };

/* nvmlMemory_t */
struct nvml_memory {
    unsigned long long total, free, used;
};

/* nvmlUtilization_t, in percent */
struct nvml_use {
    unsigned int gpu, memory;
};

/* nvmlPciInfo_t of version 3 */
struct nvml_pci {
    char short_id[16];
    unsigned int domain, bus, device, id, subsystem;
    char long_id[32];
};

/* nvmlProcessInfo_v1_t, and that of versions 2 and 3 */
struct nvml_process_1 {
    unsigned int pid;
    unsigned long long memory;
};
struct nvml_process {
    unsigned int pid;
    unsigned long long memory;
    unsigned int gpu_instance, compute_instance;
};

typedef void *nvml_device;
typedef int (*nvml_processes) (nvml_device device, unsigned int *count, void *processes);

struct nvml {
    int (*init) (void);
    const char *(*error_string) (int result);
    int (*driver_version) (char *text, unsigned int size);
    int (*cuda_version) (int *version);
    int (*count) (unsigned int *count);
    int (*by_index) (unsigned int index, nvml_device *device);
    int (*name) (nvml_device device, char *text, unsigned int size);
    int (*uuid) (nvml_device device, char *text, unsigned int size);
    int (*memory) (nvml_device device, struct nvml_memory *memory);
    /* NULL in libraries that are older than the function: */
    int (*version) (char *text, unsigned int size);
    int (*capability) (nvml_device device, int *major, int *minor);
    int (*pci) (nvml_device device, struct nvml_pci *pci);
    int (*mig_mode) (nvml_device device, unsigned int *current, unsigned int *pending);
    int (*mig_by_index) (nvml_device device, unsigned int index, nvml_device *part);
    int (*use) (nvml_device device, struct nvml_use *use);
    int (*temperature) (nvml_device device, int sensor, unsigned int *degrees);
    nvml_processes processes[2]; /* that compute; that draw */
    nvml_processes processes_1[2];
    int (*ancestor) (nvml_device one, nvml_device other, unsigned int *level);
    int (*nvlink_state) (nvml_device device, unsigned int link, unsigned int *is_active);
    int (*nvlink_type) (nvml_device device, unsigned int link, unsigned int *type);
    int (*nvlink_pci) (nvml_device device, unsigned int link, struct nvml_pci *pci);
    int (*peer) (nvml_device one, nvml_device other, unsigned int index, unsigned int *status);
};

/* Those of one GPU. */
struct process_list {
    int *count;
    struct gpu_process *processes; /* [NVML_MOST_PROCESSES] */
};

/* A GPU as its links are found. */
struct node {
    nvml_device device; /* NULL: it is lost */
    bool has_pci;
    struct nvml_pci pci;
    int switched; /* NVLinks to switches */
};

struct answer {
    int count;
    struct gpu gpus[];
};

/* The two versions that differ: NVML's own, "12.550.54.14", without what it begins with, and the module's. */
static int
fail_mismatch (const struct nvml *nvml, struct fail *fail)
{
    char version[80] = "", module[80] = "";
    FILE *file = fopen ("/sys/module/nvidia/version", "re");
    if (!file || !fgets (module, sizeof module, file))
        snprintf (module, sizeof module, "another");
    if (file)
        fclose (file);
    module[strcspn (module, "\n")] = '\0';
    const char *dot = nvml->version && !nvml->version (version, sizeof version) ? strchr (version, '.') : NULL;
    return fail_set (fail, FAIL_GENERAL, "%s is from driver %s, but the loaded kernel module is from %s: restart the "
                     "machine, or end all programs that use GPUs and load the module nvidia again", nvml_name,
                     dot ? dot + 1 : "another version", module);
}

static int
check (const struct nvml *nvml, int result, const char *call, struct fail *fail)
{
    if (!result)
        return 0;
    if (result == NVML_MISMATCH)
        return fail_mismatch (nvml, fail);
    const char *hint = result == NVML_NOT_LOADED      ? ": load the kernel module (modprobe nvidia), or see dmesg"
                       : result == NVML_NO_PERMISSION ? ": this user may not open /dev/nvidiactl"
                                                      : "";
    return fail_set (fail, FAIL_GENERAL, "%s: %s: %s%s", nvml_name, call, nvml->error_string (result), hint);
}

static void
add_process (struct process_list *list, unsigned int pid, unsigned long long memory)
{
    int known = *list->count < NVML_MOST_PROCESSES ? *list->count : NVML_MOST_PROCESSES;
    for (int i = 0; i < known; i++)
        if (list->processes[i].pid == (int) pid)
            return;
    if (*list->count < NVML_MOST_PROCESSES)
        list->processes[*list->count] = (struct gpu_process){ .pid = (int) pid, .memory = memory };
    ++*list->count;
}

/* Processes that both compute and draw are in both lists. */
static void
list_processes (const struct nvml *nvml, nvml_device device, struct process_list list)
{
    enum { ROOM = 128 };
    static union {
        struct nvml_process_1 first[ROOM];
        struct nvml_process later[ROOM];
    } processes;
    *list.count = -1;
    for (int kind = 0; kind < 2; kind++) {
        nvml_processes get = nvml->processes[kind] ? nvml->processes[kind] : nvml->processes_1[kind];
        unsigned int count = ROOM;
        int result = get ? get (device, &count, &processes) : -1;
        if (result && result != NVML_TOO_SMALL)
            continue;
        *list.count = *list.count < 0 ? 0 : *list.count;
        if (result) {
            *list.count += (int) count;
            continue;
        }
        for (unsigned int i = 0; i < count && i < ROOM; i++)
            if (nvml->processes[kind])
                add_process (&list, processes.later[i].pid, processes.later[i].memory);
            else
                add_process (&list, processes.first[i].pid, processes.first[i].memory);
    }
}

static void
describe_parts (const struct nvml *nvml, nvml_device device, struct gpu *gpu)
{
    unsigned int current = 0, pending;
    if (!nvml->mig_mode || !nvml->mig_by_index || nvml->mig_mode (device, &current, &pending) || current != 1)
        return;
    gpu->is_mig = true;
    for (unsigned int i = 0; i < NVML_MOST_MIG; i++) { /* indices may have gaps */
        nvml_device part;
        struct nvml_memory memory = { 0 };
        struct gpu_mig *mig = &gpu->migs[gpu->mig_count];
        if (nvml->mig_by_index (device, i, &part) || nvml->uuid (part, mig->uuid, sizeof mig->uuid))
            continue;
        if (nvml->name (part, mig->name, sizeof mig->name))
            snprintf (mig->name, sizeof mig->name, "unknown");
        if (!nvml->memory (part, &memory))
            mig->memory = memory.total;
        gpu->mig_count++;
    }
}

/* A GPU that has fallen off the bus, or gives no name, is still counted: its number must not shift the others'. */
static void
describe (const struct nvml *nvml, unsigned int index, struct gpu *gpu, struct node *node)
{
    struct nvml_memory memory = { 0 };
    gpu->index = (int) index;
    gpu->process_count = -1;
    snprintf (gpu->name, sizeof gpu->name, "unknown");
    int result = nvml->by_index (index, &node->device);
    if (result) {
        node->device = NULL;
        if (result == NVML_LOST)
            snprintf (gpu->name, sizeof gpu->name, "lost (it has fallen off the bus: see dmesg)");
        return;
    }
    if (nvml->name (node->device, gpu->name, sizeof gpu->name))
        snprintf (gpu->name, sizeof gpu->name, "unknown");
    if (nvml->uuid (node->device, gpu->uuid, sizeof gpu->uuid))
        *gpu->uuid = '\0';
    if (!nvml->memory (node->device, &memory)) {
        gpu->memory = memory.total;
        gpu->memory_free = memory.free;
    }
    if (nvml->capability && nvml->capability (node->device, &gpu->major, &gpu->minor))
        gpu->major = gpu->minor = 0;
    node->has_pci = nvml->pci && !nvml->pci (node->device, &node->pci);
    if (node->has_pci)
        snprintf (gpu->bus, sizeof gpu->bus, "%04x:%02x:%02x.0", node->pci.domain, node->pci.bus, node->pci.device);
    describe_parts (nvml, node->device, gpu);
    list_processes (nvml, node->device, (struct process_list){ &gpu->process_count, gpu->processes });
}

static bool
is_at (const struct node *node, const struct nvml_pci *pci)
{
    return node->has_pci && node->pci.domain == pci->domain && node->pci.bus == pci->bus
           && node->pci.device == pci->device;
}

/* NVLinks of GPU @index: those to other GPUs are counted in its links, those to switches in its node. */
static void
count_nvlinks (const struct nvml *nvml, struct node *nodes, int count, int index, struct gpu *gpu)
{
    struct node *node = &nodes[index];
    for (unsigned int link = 0; node->device && nvml->nvlink_state && nvml->nvlink_pci && link < NVLINKS; link++) {
        unsigned int is_active = 0, type = NVLINK_TO_GPU;
        struct nvml_pci remote;
        if (nvml->nvlink_state (node->device, link, &is_active) || is_active != 1)
            continue;
        if (nvml->nvlink_type && !nvml->nvlink_type (node->device, link, &type) && type == NVLINK_TO_SWITCH) {
            node->switched++;
            continue;
        }
        if (nvml->nvlink_pci (node->device, link, &remote))
            continue;
        for (int other = 0; other < count; other++)
            if (other != index && is_at (&nodes[other], &remote))
                gpu->links[other].nvlinks++;
    }
}

static uint8_t
way_of_level (unsigned int level)
{
    static const uint8_t ways[] = { GPU_WAY_BOARD, GPU_WAY_PIX, GPU_WAY_PXB, GPU_WAY_PHB, GPU_WAY_NODE, GPU_WAY_SYS };
    return level % 10 == 0 && level / 10 < sizeof ways ? ways[level / 10] : GPU_WAY_UNKNOWN;
}

static struct gpu_link
find_link (const struct nvml *nvml, const struct node *one, const struct node *other)
{
    struct gpu_link link = { .peer = GPU_PEER_UNKNOWN };
    unsigned int level, status;
    if (!one->device || !other->device)
        return link;
    if (nvml->ancestor && !nvml->ancestor (one->device, other->device, &level))
        link.way = way_of_level (level);
    if (nvml->peer && !nvml->peer (one->device, other->device, P2P_READ, &status) && status < GPU_PEER_UNKNOWN)
        link.peer = (uint8_t) status;
    link.nvlinks = (uint8_t) (one->switched < other->switched ? one->switched : other->switched);
    return link;
}

static void
find_links (const struct nvml *nvml, struct node *nodes, int count, struct gpu *gpus)
{
    for (int i = 0; i < count; i++)
        count_nvlinks (nvml, nodes, count, i, &gpus[i]);
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            struct gpu_link link = i < j ? find_link (nvml, &nodes[i], &nodes[j]) : gpus[j].links[i];
            if (i < j)
                link.nvlinks = (uint8_t) (link.nvlinks + gpus[i].links[j].nvlinks);
            if (i != j)
                gpus[i].links[j] = link;
        }
}

static int
open_nvml (struct nvml *nvml, struct fail *fail)
{
    static const char *const names[] = { nvml_name, NULL };
    const struct probe_symbol symbols[] = {
        { "nvmlInit_v2", &nvml->init },
        { "nvmlErrorString", &nvml->error_string },
        { "nvmlSystemGetDriverVersion", &nvml->driver_version },
        { "nvmlSystemGetCudaDriverVersion", &nvml->cuda_version },
        { "nvmlDeviceGetCount_v2", &nvml->count },
        { "nvmlDeviceGetHandleByIndex_v2", &nvml->by_index },
        { "nvmlDeviceGetName", &nvml->name },
        { "nvmlDeviceGetUUID", &nvml->uuid },
        { "nvmlDeviceGetMemoryInfo", &nvml->memory },
        { NULL, NULL },
    };
    const struct probe_symbol newer[] = {
        { "nvmlSystemGetNVMLVersion", &nvml->version },
        { "nvmlDeviceGetCudaComputeCapability", &nvml->capability },
        { "nvmlDeviceGetPciInfo_v3", &nvml->pci },
        { "nvmlDeviceGetUtilizationRates", &nvml->use },
        { "nvmlDeviceGetTemperature", &nvml->temperature },
        { "nvmlDeviceGetMigMode", &nvml->mig_mode },
        { "nvmlDeviceGetMigDeviceHandleByIndex", &nvml->mig_by_index },
        { "nvmlDeviceGetComputeRunningProcesses_v2", &nvml->processes[0] },
        { "nvmlDeviceGetComputeRunningProcesses_v3", &nvml->processes[0] },
        { "nvmlDeviceGetGraphicsRunningProcesses_v2", &nvml->processes[1] },
        { "nvmlDeviceGetGraphicsRunningProcesses_v3", &nvml->processes[1] },
        { "nvmlDeviceGetComputeRunningProcesses", &nvml->processes_1[0] },
        { "nvmlDeviceGetGraphicsRunningProcesses", &nvml->processes_1[1] },
        { "nvmlDeviceGetTopologyCommonAncestor", &nvml->ancestor },
        { "nvmlDeviceGetNvLinkState", &nvml->nvlink_state },
        { "nvmlDeviceGetNvLinkRemoteDeviceType", &nvml->nvlink_type },
        { "nvmlDeviceGetNvLinkRemotePciInfo_v2", &nvml->nvlink_pci },
        { "nvmlDeviceGetP2PStatus", &nvml->peer },
        { NULL, NULL },
    };
    if (probe_open_library (names, symbols, fail))
        return -1;
    probe_find_more (nvml_name, newer);
    return 0;
}

static int
ask (void *into, const void *user, struct fail *fail)
{
    static struct node nodes[NVML_MOST_LINKED];
    struct answer *answer = into;
    struct nvml nvml = { 0 };
    unsigned int count = 0;
    struct gpu system = { 0 };
    int most = *(const int *) user;
    if (open_nvml (&nvml, fail) || check (&nvml, nvml.init (), "nvmlInit", fail)
        || check (&nvml, nvml.count (&count), "nvmlDeviceGetCount", fail))
        return -1;
    nvml.driver_version (system.driver, sizeof system.driver);
    nvml.cuda_version (&system.cuda_driver);
    answer->count = (int) count;
    int known = answer->count < most ? answer->count : most;
    for (int i = 0; i < known; i++) {
        struct node unlinked = { 0 };
        answer->gpus[i] = system;
        describe (&nvml, (unsigned int) i, &answer->gpus[i], i < NVML_MOST_LINKED ? &nodes[i] : &unlinked);
    }
    find_links (&nvml, nodes, known < NVML_MOST_LINKED ? known : NVML_MOST_LINKED, answer->gpus);
    return 0;
}

/* The driver takes up to a second to wake a GPU. */
static int
find_deadline (void)
{
    int deadline = PROBE_DEADLINE_MS;
    DIR *dir = opendir ("/proc/driver/nvidia/gpus");
    for (const struct dirent *entry; dir && (entry = readdir (dir));)
        deadline += *entry->d_name != '.' ? 1000 : 0;
    if (dir)
        closedir (dir);
    return deadline;
}

int
nvml_list (struct gpu *gpus, int most, struct fail *fail)
{
    struct probe probe = {
        .name = nvml_name,
        .deadline_ms = find_deadline (),
        .size = sizeof (struct answer) + (size_t) most * sizeof *gpus,
        .ask = ask,
        .user = &most,
    };
    AUTO_FREE struct answer *answer = malloc (probe.size);
    if (!answer)
        return fail_nomem (fail);
    if (probe_run (&probe, answer, fail))
        return -1;
    int known = answer->count < most ? answer->count : most;
    memcpy (gpus, answer->gpus, (size_t) known * sizeof *gpus);
    return answer->count;
}

struct nvml *
nvml_open (struct fail *fail)
{
    struct nvml *nvml = calloc (1, sizeof *nvml);
    if (!nvml) {
        fail_nomem (fail);
        return NULL;
    }
    if (!open_nvml (nvml, fail) && !check (nvml, nvml->init (), "nvmlInit", fail))
        return nvml;
    free (nvml);
    return NULL;
}

static void
measure (const struct nvml *nvml, nvml_device device, struct gpu_load *load)
{
    struct nvml_use use;
    unsigned int degrees;
    struct nvml_memory memory = { 0 };
    if (nvml->use && !nvml->use (device, &use))
        load->use = (int) use.gpu;
    if (nvml->temperature && !nvml->temperature (device, 0, &degrees))
        load->temperature = (int) degrees;
    if (!nvml->memory (device, &memory)) {
        load->memory = memory.total;
        load->memory_used = memory.used;
    }
    list_processes (nvml, device, (struct process_list){ &load->process_count, load->processes });
}

int
nvml_measure (const struct nvml *nvml, struct gpu_load *loads, int most)
{
    unsigned int count = 0;
    if (nvml->count (&count))
        return 0;
    int known = (int) count < most ? (int) count : most;
    for (int i = 0; i < known; i++) {
        nvml_device device;
        loads[i] = (struct gpu_load){ .use = -1, .temperature = -1, .process_count = -1 };
        if (!nvml->by_index ((unsigned int) i, &device))
            measure (nvml, device, &loads[i]);
    }
    return known;
}
