/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the stand-in for the CUDA runtime: memory.c (where device memory is, and who may use it), order.c (what
 * events and waits order), queue.c (streams, which run late), calls.c (the functions of the interface) and launch.c
 * (kernels), costs.c (what they cost on the clocks).  README.md says what it checks.
 *
 * All state is guarded by one lock; report() ends the program. */
#ifndef TESTS_STANDIN_STANDIN_H
#define TESTS_STANDIN_STANDIN_H

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST_STREAMS = 64, MOST_DEVICES = 8, SITE_DEPTH = 6 };

/** Where the program was when it made a call. */
struct site {
    void *at[SITE_DEPTH];
    int depth;
};
void site_note (struct site *site);

extern pthread_mutex_t standin_lock;

/** Print what the program did wrong, and where; @p others are calls that it concerns.  Does not return. */
__attribute__ ((noreturn, format (printf, 3, 4))) void report (const struct site *first, const struct site *second,
                                                              const char *format, ...);

/* ---- order.c: vector clocks ---- */

typedef uint64_t clock_row[MOST_STREAMS];

void clock_join (clock_row into, const clock_row from);

/** What the host has waited for: all that it queues comes after that. */
extern clock_row host_clock;

/** A use of a block of memory, from byte @p begin to @p end: the @p time on the clock of stream @p slot. */
struct use {
    size_t begin, end;
    bool writes;
    int slot;
    uint64_t time;
    struct site site;
};

/* ---- memory.c ---- */

struct block {
    struct block *next;
    char *seen; /* the address that the program has, at which there is nothing */
    char *real; /* freed: NULL */
    size_t bytes;
    int device;
    bool is_managed; /* of cudaMallocManaged(): the host may touch it, too */
    bool is_pooled; /* of cudaMallocFromPoolAsync() */
    bool is_ended;  /* of such: cudaFreeAsync() has been called, and what was queued before may still use it */
    struct site made, freed;
    struct use *uses; /* [use_count] */
    uint64_t launch; /* the latest one that uses it: it counts once for each */
    size_t use_count, use_room;
};

/** @return the block of an address of the device, of freed memory, too; NULL: not on a device */
struct block *block_of (const void *address);
struct block *block_make (size_t bytes, int device);
void block_free (struct block *block);
/** One that the host may touch; and its end. @{ */
struct block *block_manage (size_t bytes, int device);
void block_forget (struct block *block);
/** @} */

/** Pinned memory of the host. */
bool pinned_make (void **memory, size_t bytes);
bool pinned_free (void *memory);
bool pinned_has (const void *address, size_t bytes);

/** Where @p bytes at an address of the device really are; ends the program if there is no such memory. */
void *real_of (const void *address, size_t bytes);

/* ---- queue.c ---- */

struct CUstream_st {
    struct CUstream_st *next;
    bool is_destroyed;
    int slot, device;
    struct operation *head, **tail;
    clock_row clock;
    int64_t time_ns; /* when what it has done so far was over */
    struct site destroyed;
};
enum {
    EVENT_TIMES = 1024, /* as many records of one event may be pending */
    EVENT_LOOKERS = 16, /* threads that are told apart */
};
struct CUevent_st {
    struct CUevent_st *next;
    int device;
    uint64_t recorded;          /* tickets, which streams may do in another order */
    uint64_t done[EVENT_TIMES]; /* the latest ones */
    int64_t times_ns[EVENT_TIMES]; /* when */
    unsigned char looks[EVENT_LOOKERS]; /* of threads, since it was recorded, before its time */
    clock_row clock;
    struct site destroyed;
};

/** How far an operation came that other processes take part in. */
enum standin_progress { STANDIN_STALLED, STANDIN_MOVED, STANDIN_OVER };

enum operation_kind {
    OPERATION_KERNEL,
    OPERATION_COPY,
    OPERATION_SET,
    OPERATION_RECORD,
    OPERATION_WAIT,
    OPERATION_POLL, /* again and again, until it is over */
    OPERATION_SPEND, /* only time */
    OPERATION_FREE,
};
struct operation {
    struct operation *next;
    enum operation_kind kind;
    const char *name;
    dim3 grid, block;
    void (*run) (void *);
    enum standin_progress (*poll) (void *);
    void *closure, *to;
    size_t closure_bytes;
    const void *from;
    size_t bytes;
    int byte;
    struct block *freed;
    struct CUevent_st *event;
    uint64_t ticket;
    int64_t issued_ns, cost_ns;
};

/** @return the stream of a call; the null stream if @p stream is NULL, the thread's own if it is cudaStreamPerThread,
 *  and never one that was destroyed */
struct CUstream_st *stream_of (cudaStream_t stream);
struct CUstream_st *stream_make (int device);
void stream_destroy (struct CUstream_st *stream);

/** Add to the end of a stream, and to its clock. */
struct operation *stream_add (struct CUstream_st *stream, enum operation_kind kind);
/** What was added is complete: the stream's thread may run it. */
void stream_go (void);

/** Check that whatever was done to these bytes before comes before what is added next to @p stream.
 *  @param address  NULL: all of the block
 *  @param device   the one that the block has to be of */
void stream_reaches (struct CUstream_st *stream, struct block *block, const void *address, size_t bytes, bool writes,
                     int device, const char *what);
/** The same of the stream's device. */
void stream_uses (struct CUstream_st *stream, struct block *block, const void *address, size_t bytes, bool writes,
                  const char *what);

/** Whether the event has happened that has this ticket. */
bool event_is_done (const struct CUevent_st *event, uint64_t ticket);

/** Wait until the stream is empty, or until the event has happened; NULL for both: until all streams are empty. */
void queue_wait (struct CUstream_st *stream, struct CUevent_st *event);

/* Time that passes on none of the machine's clocks.  Each thread of the host has its own, which moves when it waits for
 * a stream or an event, and by standin_host_ns().  An operation begins when the one before it on its stream is over,
 * and not before it was issued.  It takes what standin_spend() was given, or STANDIN_COSTS says: without, no time. */
extern _Thread_local int64_t host_ns;
/** This thread has seen @p event. */
void host_reach (const struct CUevent_st *event);
/** @return whether a thread that looks at an event that has happened sees it.  A thread that is slow on the machine is
 *  not on its clock: there, the event has not happened yet, unless it looks often, so it waits. */
bool host_sees (struct CUevent_st *event);

/* ---- costs.c ---- */

/** In ns, or bytes in each ns, which are GB/s.  README.md has the words. */
enum cost {
    COST_LAUNCH, /* of the host */
    COST_KERNEL,
    COST_MEMORY, /* bytes of allocations that a kernel uses, of fills, and of copies within a GPU */
    COST_COPY,   /* each, also fills */
    COST_HOST,   /* bytes of copies from or to the host */
    COST_PEER,   /* ... between GPUs */
    COST_COLLECTIVE,
    COST_NETWORK, /* bytes of collectives */
    COST_COUNT,
};
/** What a copy or a fill takes. */
int64_t copy_ns (enum cost rate, size_t bytes);
/** The thread queues something for a device, which takes its time. */
void standin_launch (void);
/** What a collective or a kernel takes.  @{ */
int64_t standin_collective_ns (size_t bytes);
int64_t standin_kernel_ns (const char *kernel, size_t bytes);
/** @} */

/* ---- graph.c ---- */

/** The stream that is being captured into a graph; NULL: none. */
extern struct CUstream_st *captured;
/** Keep what is queued on it.  @return @p operation */
struct operation *graph_add (struct operation *operation);

/* ---- calls.c ---- */

/** @return the error that this call of @p name is to have, as STANDIN_FAIL says; 0: none */
cudaError_t call_injected (const char *name);
/** Keep an error for cudaGetLastError().  @return it */
cudaError_t call_fail (cudaError_t error);

/** For the stand-in for NCCL.  @{ */
/** Check that @p bytes at @p address are on the stream's device, and that the use is ordered.
 *  @return where they are */
void *standin_range (const char *call, const void *address, size_t bytes, bool writes, cudaStream_t handle);
/** Add what @p poll does with @p closure to a stream.  It may be called by another thread, without locks. */
void standin_poll (const char *call, cudaStream_t handle, enum standin_progress (*poll) (void *), void *closure,
                   int64_t issued_ns);
/** Within @p poll: when it began, if everything had come by then; and when it was over.  @{ */
int64_t standin_began_ns (void);
void standin_ended_ns (int64_t ns);
/** @} */
/** Note what is on a stream; whether what is added next comes after that.  @{ */
void standin_mark (cudaStream_t handle, struct use *mark);
bool standin_follows (cudaStream_t handle, const struct use *mark);
/** @} */
int standin_injected (const char *name);
/** The thread's device, and its name on the bus unless that is NULL; never fails. */
void standin_device (int *device, char *bus, size_t size);
__attribute__ ((noreturn, format (printf, 3, 4))) void standin_report (const struct site *first,
                                                                      const struct site *second, const char *format,
                                                                      ...);
/** @} */

/** For tests: the driver's cuDevicePrimaryCtxGetState().
 *  @param[out] active  whether there is a context on @p device */
int standin_context_state (int device, unsigned *flags, int *active);

/** For tests: the driver's cuPointerGetAttributes(), for those that the module asks for. */
int standin_pointer_attributes (unsigned count, const int *attributes, void **values, unsigned long long address);

/** For tests of CUDA graphs: begin or end a capture of a stream, in the strictest mode. */
void standin_capture (cudaStream_t stream, bool begins);

/** For tests of time: let this thread compute for @p more ns.  @return its time */
int64_t standin_host_ns (int64_t more);
/** Queue what takes @p ns on a stream, such as a kernel. */
void standin_spend (cudaStream_t handle, int64_t ns);

/** For tests: how often a program has done what takes time, whatever the amount. */
struct standin_counts {
    unsigned long launches, copies, fills, waits; /* of the host, which it waits for a stream, an event or a device */
    unsigned long allocations;
    unsigned long resources; /* streams, events and memory that exist now */
};
extern struct standin_counts call_counts;
void standin_count (struct standin_counts *counts);

/** The device of the calling thread. */
extern _Thread_local int present_device;

#endif
