/* SPDX-License-Identifier: Apache-2.0 */
/* What a backend is: a table of functions with an ABI number and a size.  comm.c has checked every argument, written
 * the ledger and dealt with a broken communicator before it calls one. */
#ifndef LIB_BACKENDS_BACKEND_H
#define LIB_BACKENDS_BACKEND_H

#include "lib/comm/comm_private.h"
#include "lib/state/identity.h"
#include "util/jobseg.h"

enum { BACKEND_ABI = 1 };

/** The processes to connect. */
struct backend_job {
    struct identity identity;
    const char *backend; /* the only one to try, or NULL */
    uint32_t timeout_ms;
    struct jobseg segment; /* our launcher's; a backend that connects processes makes one where there is none */
};

/** What is moved.  Backends compare the kinds of all ranks, never the fields that a kind does not use. */
enum backend_kind {
    BACKEND_BARRIER,
    BACKEND_ALL_REDUCE,
    BACKEND_ALL_GATHER,
    BACKEND_BROADCAST,
    BACKEND_REDUCE_SCATTER,
    BACKEND_ALL_TO_ALL,
    BACKEND_SEND, /* these two take two ranks: root is the other one */
    BACKEND_RECV,
};

/** One collective, complete. */
struct backend_call {
    const struct comm_site *site;
    const void *send; /* of a broadcast and of BACKEND_RECV: NULL */
    void *recv;       /* of a broadcast: the buffer; of BACKEND_SEND: NULL */
    size_t count;
    size_t element_bytes;
    enum backend_kind kind;
    enum accel_dtype dtype;
    enum accel_op op;
    int root; /* -1: none */
    uint32_t form; /* comm_form_hash() of the site's; to be compared as the fields above are, but for pairs */
};

struct backend {
    uint32_t abi;  /* BACKEND_ABI */
    uint32_t size; /* sizeof (struct backend) */
    const char *name;

    /** Say whether it could connect @p job, and if not, why. */
    enum accel_status (*probe) (const struct backend_job *job, struct accel_error *err);

    /** Connect; waits for all.  @param[out] transport  handed to all the others */
    enum accel_status (*open) (void **transport, struct backend_job *job, struct accel_error *err);

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
    enum accel_status (*run) (void *transport, const struct backend_call *call, struct accel_error *err);
};

/** Backends in the order of preference, ended by NULL. */
extern const struct backend *const backends[];

#endif
