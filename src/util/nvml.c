/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs through NVML; see nvml.h.  The names, types and values below are of NVML's documented, versioned interface. */
#include <config.h>

#include "util/nvml.h"

#include "util/cleanup.h"
#include "util/probe.h"

#include <string.h>

static const char nvml_name[] = "libnvidia-ml.so.1";

/* nvmlMemory_t */
struct nvml_memory {
    unsigned long long total, free, used;
};

typedef void *nvml_device;

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
};

struct answer {
    int count;
    struct gpu gpus[];
};

static int
check (const struct nvml *nvml, int result, const char *call, struct fail *fail)
{
    return result ? fail_set (fail, FAIL_GENERAL, "%s: %s: %s", nvml_name, call, nvml->error_string (result)) : 0;
}

/* A GPU that has fallen off the bus, or gives no name, is still counted: its number must not shift the others'. */
static void
describe (const struct nvml *nvml, unsigned int index, struct gpu *gpu)
{
    nvml_device device;
    struct nvml_memory memory = { 0 };
    gpu->index = (int) index;
    snprintf (gpu->name, sizeof gpu->name, "unknown");
    if (nvml->by_index (index, &device))
        return;
    nvml->name (device, gpu->name, sizeof gpu->name);
    nvml->uuid (device, gpu->uuid, sizeof gpu->uuid);
    if (!nvml->memory (device, &memory))
        gpu->memory = memory.total;
}

static int
ask (void *into, const void *user, struct fail *fail)
{
    static const char *const names[] = { nvml_name, NULL };
    struct answer *answer = into;
    struct nvml nvml;
    const struct probe_symbol symbols[] = {
        { "nvmlInit_v2", &nvml.init },
        { "nvmlErrorString", &nvml.error_string },
        { "nvmlSystemGetDriverVersion", &nvml.driver_version },
        { "nvmlSystemGetCudaDriverVersion", &nvml.cuda_version },
        { "nvmlDeviceGetCount_v2", &nvml.count },
        { "nvmlDeviceGetHandleByIndex_v2", &nvml.by_index },
        { "nvmlDeviceGetName", &nvml.name },
        { "nvmlDeviceGetUUID", &nvml.uuid },
        { "nvmlDeviceGetMemoryInfo", &nvml.memory },
        { NULL, NULL },
    };
    unsigned int count = 0;
    struct gpu system = { 0 };
    if (probe_open_library (names, symbols, fail) || check (&nvml, nvml.init (), "nvmlInit", fail)
        || check (&nvml, nvml.count (&count), "nvmlDeviceGetCount", fail))
        return -1;
    nvml.driver_version (system.driver, sizeof system.driver);
    nvml.cuda_version (&system.cuda_driver);
    answer->count = (int) count;
    for (unsigned int i = 0; i < count && (int) i < *(const int *) user; i++) {
        answer->gpus[i] = system;
        describe (&nvml, i, &answer->gpus[i]);
    }
    return 0;
}

int
nvml_list (struct gpu *gpus, int most, struct fail *fail)
{
    struct probe probe = {
        .name = nvml_name,
        .deadline_ms = PROBE_DEADLINE_MS,
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
