/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the code for GPUs; see device.h. */
#include <config.h>

#include "lib/memory/device.h"

#include "lib/base/error.h"
#include "lib/memory/memory.h"
#include "util/engine_files.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* circle: device registry: looking for the table of a GPU loads its code, which registers it */

static const struct device_module *module; /* NULL: none */
static struct accel_error refusal;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct device_helpers helpers = { .fail = accel_fail };

/* Whether any GPU can be used: each rank chooses its own later.  Else the error is that of the first,
 * which is repeated after the last. */
static enum accel_status
check_any (const struct device_module *found, struct accel_error *err)
{
    enum accel_status status;
    int count = 0, device;
    do {
        device = -1;
        status = found->choose (&helpers, count, &device, err);
    } while (status && device == count++);
    return status;
}

static enum accel_status
load (const struct engine_file *file, struct accel_error *err)
{
    if (file->refusal)
        return accel_fail (err, ACCEL_ERR_SYSTEM, "the code for GPUs is not loaded: %s", file->refusal);
    void *library = dlopen (file->path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return accel_fail (err, ACCEL_ERR_SYSTEM, "the code for GPUs cannot be loaded: %s", dlerror ());
    const struct device_module *found = dlsym (library, DEVICE_SYMBOL);
    if (!found || strcmp (found->release, PACKAGE_VERSION) || found->memory_size != sizeof (struct memory)) {
        dlclose (library);
        return accel_fail (err, ACCEL_ERR_SYSTEM, "%s is from a different release than libaccel %s", file->path,
                           PACKAGE_VERSION);
    }
    struct accel_error why;
    if (check_any (found, &why)) /* without a GPU, the code is useless */
        return accel_fail (err, why.code, "%s", why.text);
    module = found;
    return ACCEL_OK;
}

static void
find (void)
{
    AUTO_ENGINE_FILES struct engine_files files = { 0 };
    size_t cuda = 0;
    engine_files_find_devices (&files);
    while (cuda < files.count && strcmp (files.items[cuda].name, "cuda"))
        cuda++;
    if (files.failed)
        accel_fail (&refusal, ACCEL_ERR_NOMEM, "out of memory");
    else if (cuda == files.count)
        accel_fail (&refusal, ACCEL_ERR_UNSUPPORTED, "accel_device_cuda.so is not installed");
    else if (!load (&files.items[cuda], &refusal))
        memory_register (kDLCUDA, module->memory);
}

const struct memory *
device_memory (void)
{
    pthread_once (&once, find);
    return module ? module->memory : NULL;
}

const char *
device_refusal (void)
{
    return refusal.text;
}

DLDevice
device_choose (int local_rank, bool cpu, char why[ACCEL_ERROR_TEXT_SIZE])
{
    DLDevice device = { .device_type = kDLCPU };
    struct accel_error err = { 0 };
    int chosen;
    *why = 0;
    if (cpu)
        return device;
    if (!device_memory ())
        err = refusal;
    else if (!module->choose (&helpers, local_rank, &chosen, &err))
        device = (DLDevice){ .device_type = kDLCUDA, .device_id = chosen };
    if (err.code == ACCEL_ERR_SYSTEM)
        strcpy (why, err.text);
    return device;
}
