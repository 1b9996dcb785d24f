/* SPDX-License-Identifier: Apache-2.0 */
/* Loading an engine from a shared library: accel/engine.h says what a module must be. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/engines/engine.h"
#include "util/engine_files.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The table of version 1 ends with run(); what comes after it is optional. */
enum { FIRST_SIZE = offsetof (struct accel_engine, run) + sizeof (((struct accel_engine *) NULL)->run) };

/* A module that is loaded.  It stays so: its threads may outlive a job. */
struct module {
    struct module *next;
    const void *symbol; /* the module's own table */
    struct accel_engine engine; /* our copy of it */
};

/* Of the process, because so are the tables and threads of a library that is loaded. */
static struct module *modules;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The first function that a table should have and lacks; NULL: none. */
static const char *
find_missing (const struct accel_engine *engine)
{
#define MISSES(member)   \
    if (!engine->member) \
        return #member;
    MISSES (kinds)
    MISSES (devices)
    MISSES (open)
    MISSES (close)
    MISSES (make_group)
    MISSES (join_group)
    MISSES (run)
    if (engine->start) {
        MISSES (test)
        MISSES (wait)
        MISSES (awaits)
        MISSES (give_up)
    }
#undef MISSES
    if (!engine->coalesce_begin != !engine->coalesce_end)
        return "one of coalesce_begin and coalesce_end";
    return !engine->alloc == !engine->free ? NULL : "one of alloc and free";
}

/* Nothing is read past the table's own size, and nothing but the first two members if it is from another ABI. */
static enum accel_status
check (const struct accel_engine *theirs, const char *name, struct accel_engine *ours, struct accel_error *err)
{
    if (theirs->abi != ACCEL_ENGINE_ABI)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "was built for version %u of the engine interface, not %d",
                           theirs->abi, ACCEL_ENGINE_ABI);
    if (theirs->size < FIRST_SIZE)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "has a table of %u bytes, but it must have at least %d",
                           theirs->size, FIRST_SIZE);
    *ours = (struct accel_engine){ 0 };
    memcpy (ours, theirs, theirs->size < sizeof *ours ? theirs->size : sizeof *ours);
    if (!ours->name || strcmp (ours->name, name))
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "says that it is engine '%.40s'", ours->name ? ours->name : "");
    const char *missing = find_missing (ours);
    return missing ? accel_fail (err, ACCEL_ERR_UNSUPPORTED, "lacks %s", missing) : ACCEL_OK;
}

static enum accel_status
keep (const struct accel_engine **engine, const struct accel_engine *symbol, const char *name, struct accel_error *err)
{
    for (const struct module *module = modules; module; module = module->next)
        if (module->symbol == symbol) {
            *engine = &module->engine;
            return ACCEL_OK;
        }
    struct module *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot be loaded: out of memory");
    enum accel_status status = check (symbol, name, &made->engine, err);
    if (status) {
        free (made);
        return status;
    }
    made->symbol = symbol;
    made->next = modules;
    modules = made;
    *engine = &made->engine;
    return ACCEL_OK;
}

static enum accel_status
load (const struct accel_engine **engine, const struct engine_file *file, struct accel_error *err)
{
    void *handle = dlopen (file->path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "cannot be loaded: %s", dlerror ());
    const void *symbol = dlsym (handle, ACCEL_ENGINE_SYMBOL);
    enum accel_status status
        = symbol ? keep (engine, symbol, file->name, err)
                 : accel_fail (err, ACCEL_ERR_UNSUPPORTED, "does not define %s", ACCEL_ENGINE_SYMBOL);
    if (status) {
        dlclose (handle);
        return accel_fail_in (err, status, "(%s)", file->path);
    }
    return ACCEL_OK;
}

enum accel_status
engine_load (const struct accel_engine **engine, const struct engine_file *file, struct accel_error *err)
{
    if (file->refusal)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "is not loaded: %s", file->refusal);
    pthread_mutex_lock (&lock);
    enum accel_status status = load (engine, file, err);
    pthread_mutex_unlock (&lock);
    return status;
}
