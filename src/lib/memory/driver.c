/* SPDX-License-Identifier: Apache-2.0 */
/* Questions to the driver of GPUs; see driver.h. */
#include <config.h>

#include "lib/memory/driver.h"

#include <dlfcn.h>
#include <link.h>

typedef int pointer_attributes (unsigned count, const int *attributes, void **values, unsigned long long address);

/* The driver's cuPointerGetAttributes(), which stays loaded; NULL: there is none among the first `searched` libraries
 * that this process has loaded. */
static pointer_attributes *ask;
static unsigned long long searched;

static int
count_loaded (struct dl_phdr_info *info, size_t size, void *loaded)
{
    (void) size;
    *(unsigned long long *) loaded = info->dlpi_adds;
    return 1;
}

/* CUDA's runtime loads the driver when it is first used.  To search for it takes thousands of ns, to learn that nothing
 * was loaded since the last search takes few. */
static pointer_attributes *
find (void)
{
    pointer_attributes *found = __atomic_load_n (&ask, __ATOMIC_ACQUIRE);
    unsigned long long loaded = 0;
    if (found)
        return found;
    dl_iterate_phdr (count_loaded, &loaded);
    if (loaded == __atomic_load_n (&searched, __ATOMIC_ACQUIRE))
        return NULL;
    void *driver = dlopen ("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver)
        *(void **) &found = dlsym (driver, "cuPointerGetAttributes");
    __atomic_store_n (&ask, found, __ATOMIC_RELEASE);
    __atomic_store_n (&searched, loaded, __ATOMIC_RELEASE);
    return found;
}

bool
driver_owns (const void *address, DLDevice *device)
{
    /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE, _IS_MANAGED and _DEVICE_ORDINAL; CU_MEMORYTYPE_DEVICE */
    static const int attributes[] = { 2, 8, 9 };
    enum { ON_DEVICE = 2 };
    unsigned type = 0, managed = 0;
    int ordinal = 0;
    void *values[] = { &type, &managed, &ordinal };
    pointer_attributes *found = address ? find () : NULL;
    if (!found || found (3, attributes, values, (uintptr_t) address))
        return false;
    *device = (DLDevice){ .device_type = kDLCUDA, .device_id = ordinal };
    return type == ON_DEVICE && !managed;
}
