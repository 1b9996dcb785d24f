/* SPDX-License-Identifier: Apache-2.0 */
/* Engines as the library sees them: accel/engine.h, and what only those that are built in get.  The waist (comm.c) has
 * checked every argument, written the ledger and dealt with a broken communicator before it calls one. */
#ifndef LIB_ENGINES_ENGINE_H
#define LIB_ENGINES_ENGINE_H

#include <accel/engine.h>

#include "lib/base/site.h"
#include "util/engine_files.h"
#include "util/jobseg.h"

/** The processes to connect.  All engines get `base`; those that are built in find the rest around it. */
struct engine_job {
    struct accel_engine_job base;
    const char *engines; /* those to try, by kind of memory: "shm", or "cpu:shm,cuda:nccl"; NULL: any */
    struct jobseg segment; /* the job's on this host; none: a process alone, or several hosts, without our launcher */
    uint32_t generation;   /* the round of opening that all ranks are in */
};

static inline struct engine_job *
engine_job_of (struct accel_engine_job *base)
{
    return (struct engine_job *) (void *) base;
}

static inline const struct comm_site *
engine_site (const struct accel_engine_call *call)
{
    return call->site;
}

/** What the processor reads and writes, as tensor_device_is_host() says. */
#define ENGINE_HOST_DEVICES \
    (ACCEL_ENGINE_BIT (kDLCPU) | ACCEL_ENGINE_BIT (kDLCUDAHost) | ACCEL_ENGINE_BIT (kDLROCMHost))

/** The engines that are built in: engine_NAME. */
#define X(name) extern const struct accel_engine engine_##name;
ENGINE_BUILT_IN_MAP (X)
#undef X

/** Load the module
 @p file once; it stays loaded.  @param[out] engine  its table, whose unknown members are left out
 *  and whose missing ones are zero */
enum accel_status engine_load (const struct accel_engine **engine, const struct engine_file *file,
                               struct accel_error *err);

/** @return whether @p names, which may be NULL, has one for memory of @p kind ("cpu"); it goes to @p name. */
bool engine_named (const char *names, const char *kind, char name[ENGINE_NAME_MOST + 1]);

/** Whether @p names is a name, or a list of names for kinds of memory that this build has code for. */
enum accel_status engine_check_names (const char *names, struct accel_error *err);

/** Choose the engine for @p memory that @p job->engines names, or the first that can connect @p job and serves it: of
 *  those that are built in, then of the modules.  Fails with the reason of each that was tried. */
enum accel_status engine_choose (const struct accel_engine **engine, const struct engine_job *job, DLDeviceType memory,
                                 struct accel_error *err);

#endif
