/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine is: a table of functions with an ABI number and a size.  comm.c has checked every argument, written
 * the ledger and dealt with a broken communicator before it calls one. */
#ifndef LIB_ENGINES_ENGINE_H
#define LIB_ENGINES_ENGINE_H

#include <accel/comm.h>

#include "lib/base/identity.h"
#include "lib/base/site.h"
#include "util/jobseg.h"

enum { ENGINE_ABI = 1 };

/** The processes to connect. */
struct engine_job {
    struct identity identity;
    const char *engine; /* the only one to try, or NULL */
    uint32_t timeout_ms;
    struct jobseg segment; /* our launcher's; an engine that connects processes makes one where there is none */
};

/** What is moved.  Engines compare the kinds of all ranks, never the fields that a kind does not use. */
enum engine_kind {
    ENGINE_BARRIER,
    ENGINE_ALL_REDUCE,
    ENGINE_ALL_GATHER,
    ENGINE_BROADCAST,
    ENGINE_REDUCE_SCATTER,
    ENGINE_ALL_TO_ALL,
    ENGINE_SEND, /* these two take two ranks: root is the other one */
    ENGINE_RECV,
};

/** One collective, complete. */
struct engine_call {
    const struct comm_site *site;
    uint64_t sequence; /* of the ledger's record; 0: there is none */
    const void *send; /* of a broadcast and of ENGINE_RECV: NULL */
    void *recv;       /* of a broadcast: the buffer; of ENGINE_SEND: NULL */
    size_t count;
    size_t element_bytes;
    enum engine_kind kind;
    enum accel_dtype dtype;
    enum accel_op op;
    int root; /* -1: none */
    uint32_t form; /* comm_form_hash() of the site's; to be compared as the fields above are, but for pairs */
};

struct engine {
    uint32_t abi;  /* ENGINE_ABI */
    uint32_t size; /* sizeof (struct engine) */
    const char *name;

    /** Say whether it could connect @p job, and if not, why. */
    enum accel_status (*probe) (const struct engine_job *job, struct accel_error *err);

    /** Connect; waits for all.  @param[out] transport  handed to all the others */
    enum accel_status (*open) (void **transport, struct engine_job *job, struct accel_error *err);

    /** Leave; waits for nobody. */
    void (*close) (void *transport);

    /** Tell whoever waits for this rank that it will not come. */
    void (*give_up) (void *transport, const char *reason);

    /** Zeroed memory, aligned to 64 bytes, that makes collectives fast. */
    enum accel_status (*alloc) (void *transport, void **memory, size_t bytes, struct accel_error *err);
    void (*free) (void *transport, void *memory);

    /** Find memory where a group of @p size ranks will meet.  @param[out] place  >= 0; what join_group() is given */
    enum accel_status (*make_group) (void *transport, int size, int64_t *place, struct accel_error *err);

    /** Be rank @p rank of a group, rank i of which is @p ranks[i] here; waits for nobody.  @param[out] group  like
     *  the transport of open(), and to be closed before @p transport */
    enum accel_status (*join_group) (void *transport, const int *ranks, int size, int rank, int64_t place, void **group,
                                     struct accel_error *err);

    /** Run one collective. */
    enum accel_status (*run) (void *transport, const struct engine_call *call, struct accel_error *err);
};

/** Engines in the order of preference, ended by NULL. */
extern const struct engine *const engines[];

#endif
