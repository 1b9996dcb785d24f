/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "mpi": the ranks of this host and the memory that they share. */
#ifndef ENGINES_MPI_SHARED_MEMORY_H
#define ENGINES_MPI_SHARED_MEMORY_H

#include "engines/mpi/topology.h"

#include <accel/engine.h>

/** The ranks of this host and their memory: counters, stages, arenas.  Everything with the lock. */
struct host {
    int size, rank; /* of this host; 0: nothing is shared */
    struct topology *topology; /* of the job */
    bool is_forwarder;
    bool has_forwarders; /* every host: they continue whatever the program does */
    bool is_near;   /* all hosts are on one machine */
    unsigned char *memory, *arenas;
    int pid;        /* whose arena it is: a child of fork() has it, too, but leaves it as it is */
    struct counters *counters; /* [size] */
    unsigned char *outboxes; /* gates, counts, then [world_size, OUTBOX_SLOTS] messages; NULL: there are none */
    size_t outbox_head; /* bytes before the messages */
    size_t outbox_inline, slot_bytes; /* of a message: data at most, and all of it */
    int most; /* ranks of a host */
    size_t bytes, arena_bytes;
    int world_size;
    struct process {
        int rank, pid;
        int host;
        bool is_forwarder; /* there: others find what comes from other hosts in the outboxes */
        int fd; /* to see it end; -1: of another host */
        bool has_ended; /* there, as one of its ranks has said */
    } *processes; /* [world_size], by rank of MPI */
    struct extent {
        size_t offset, bytes;
    } *extents; /* of this rank's arena, in the order of addresses */
    size_t extent_count, extent_room;
    int fd;
};

/* ---- host.c ---- */

/** What a rank says of where it is. */
struct host_info {
    uint64_t machine; /* processes with the same number can open files of each other */
    uint64_t token;   /* in the memory */
    int32_t rank, size; /* on its host */
    int32_t pid, fd;
    int32_t has_threads, unused; /* whether the engine may have threads there */
};

/** Make the memory of this host, if this rank is the first one there.  @param[out] own  to be sent to all */
void host_prepare (const struct accel_engine_job *job, struct host_info *own);
/** Attach to it.  @param all  of all ranks  @param peers  their ranks of MPI
 *  @return whether this rank can reduce hierarchically; if any cannot, none does, and all call host_unshare() */
bool host_attach (const struct accel_engine_job *job, const struct host_info *all, const int *peers);
/** All ranks are attached. */
void host_settle (void);
/** @return the process of rank @p peer of MPI if it has ended, as far as this host knows; otherwise NULL */
const struct process *host_find_ended (int peer);
/** Rank @p rank of the job has ended on another host. */
void host_note_ended (int rank);
/** Without the memory, ranks are still seen to end. */
void host_unshare (void);
void host_close (void);

/* ---- arena.c ---- */

enum accel_status arena_alloc (void *transport, void **memory, size_t bytes, struct accel_error *err);
void arena_free (void *transport, void *memory);
/** @return where @p bytes at @p memory are in the arenas of this host, or FOREIGN */
uint64_t arena_offset (const void *memory, size_t bytes);
/** Whether this is the process that opened the job, and not a child of it. */
bool arena_is_own (void);
/** The same with the lock, and only in the arena.  @return where, or FOREIGN */
uint64_t arena_take (size_t bytes);
void arena_return (uint64_t at);
/** The job ends, and others may still read there. */
void arena_forget (uint64_t at);

#endif
