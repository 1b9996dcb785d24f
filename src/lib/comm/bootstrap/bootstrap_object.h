/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks find each other, before any engine connects them.
 *
 * The ranks of a host meet in the job segment: the launcher's, or one that local rank 0 makes and hands to the others.
 * Each takes its slot there, and waits until all are in the same generation.  Then engines are opened, and may exchange
 * small blobs through the slots: addresses, offsets.  Engines for several hosts meet by themselves; a rank then takes
 * its slot in its launcher's segment only to show what it does, and why it gave up. */
#ifndef LIB_COMM_BOOTSTRAP_OBJECT_H
#define LIB_COMM_BOOTSTRAP_OBJECT_H

#include "lib/comm/watch/watch_object.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { BOOTSTRAP_SLICE_MS = 50 }; /* sleep this long at most before looking whether the others live */

/** One rank's membership of its job. */
struct bootstrap {
    struct jobseg segment; /* the job's, not ours to close; no header: not a member */
    struct jobseg_slot *slot; /* taken by this rank; NULL: none */
    struct watch_source *source; /* owned; NULL: the ranks do not meet in a segment */
    int rank;
    int size;
    uint32_t generation;
    uint32_t timeout_ms;
    uint32_t round; /* exchanges so far */
    pid_t pid;      /* a fork of this process must not speak for it */
    bool member;    /* this process counts as one */
};

/**
 * Join the others: returns when all ranks of the job are here.  If the job has several hosts, it does not wait.
 *
 * @param job  its segment is made if it has none; it belongs to the caller, also on failure
 */
enum accel_status bootstrap_open (struct bootstrap *bootstrap, struct engine_job *job, struct accel_error *err);

/** The engine is open: this rank takes part from now on. */
void bootstrap_ready (struct bootstrap *bootstrap);

/**
 * Give every rank @p bytes (<= JOBSEG_BLOB) of each, in rank order; all ranks call it equally often, before
 * bootstrap_ready().  A rank that gives up instead is an error.
 *
 * @param[out] all  [size, bytes]
 */
enum accel_status bootstrap_exchange (struct bootstrap *bootstrap, const void *mine, void *all, size_t bytes,
                                      struct accel_error *err);

/** Note in the own slot that this rank will not come: JOBSEG_LEFT, or JOBSEG_FAILED with @p reason; the first failure
 *  stays. */
void bootstrap_leave (struct bootstrap *bootstrap, enum jobseg_state state, const char *reason);

/** Free; after bootstrap_leave(). */
void bootstrap_close (struct bootstrap *bootstrap);

/* ---- join.c ---- */
/** Take @p slot, in the state JOBSEG_JOINING.  @return false if another living process has it */
bool bootstrap_take_slot (struct bootstrap *bootstrap, struct jobseg_slot *slot, uint32_t generation);
/** Take the slot and wait for all.  @param listener  of the rendezvous, or -1 */
enum accel_status bootstrap_join (struct bootstrap *bootstrap, struct engine_job *job, int listener,
                                  struct accel_error *err);
/** ACCEL_ERR_PEER: a rank is gone.  The dead first, then those that gave up because of them. */
enum accel_status bootstrap_look (struct bootstrap *bootstrap, struct accel_error *err);

/* ---- rendezvous.c ---- */
/** Under a foreign launcher: get the segment of local rank 0, which makes it and a socket that hands it out. */
enum accel_status bootstrap_rendezvous (struct engine_job *job, int *listener, struct accel_error *err);
/** Local rank 0: pass the segment to ranks that ask now, waiting for @p wait_ms at most.
 *  @return ACCEL_OK, or an error where another process has come that is rank 0 too */
enum accel_status bootstrap_serve (const struct engine_job *job, int listener, int wait_ms, struct accel_error *err);

/* ---- names.c ---- */
/** An abstract name of a socket. */
struct bootstrap_address {
    struct sockaddr_un un;
    socklen_t length;
};

/** The name without the byte 0 with which it begins. */
static inline const char *
bootstrap_address_text (const struct bootstrap_address *address)
{
    return address->un.sun_path + 1;
}

/** The name that every rank of the job works out. */
void bootstrap_primary_address (const struct engine_job *job, struct bootstrap_address *address);
/** One that belongs to the primary one and that cannot be foreseen.  @return false without random numbers */
bool bootstrap_fallback_address (const struct bootstrap_address *primary, struct bootstrap_address *address);
/** The kernel's list of names.  @return NULL if it cannot be read */
FILE *bootstrap_open_addresses (void);
/** The next fallback name on the list, of any owner.  @return false at the end */
bool bootstrap_next_fallback (FILE *list, const struct bootstrap_address *primary, struct bootstrap_address *address);

#endif
