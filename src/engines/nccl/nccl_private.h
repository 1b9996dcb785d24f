/* SPDX-License-Identifier: Apache-2.0 */
/* Engine "nccl", the inside.  A module: of libaccel it includes accel/engine.h alone.
 *
 * NCCL is loaded when a job is opened (process.c).  Its communicators do not block: whatever is called continues until
 * ncclCommGetAsyncError() says otherwise, and nothing else may be called on the same communicator before.  So calls of
 * libaccel wait in a queue (communicator.c), from which the threads that are in the engine pass them on; if there is
 * none while NCCL connects ranks, a thread of the engine's does (progress_thread.c).
 *
 * Each communicator has a stream.  A call waits there for an event that is recorded on the program's stream when it
 * starts, and is over when the event after it has happened.  The program's stream waits for that, or the host, in
 * slices.  Meanwhile libaccel looks whether the other ranks are still there: nothing else can end a kernel of NCCL that
 * waits for a rank.
 *
 * A process has several communicators on its GPU, if there are groups.  A kernel of NCCL's occupies the GPU while it
 * waits for ranks, so two ranks that run the kernels of two communicators in different orders may wait for each other
 * for ever.  Therefore NCCL gets the calls of all communicators one by one, in the order in which they were started
 * (tickets), and each comes after the one before it also on the GPU, by an event between their streams.  Two
 * communicators that have only this rank in common are no exception: in a grid of processes, rows and columns can close
 * a circle of ranks that wait.
 *
 * All state is guarded by one lock, without which helpers are called. */
#ifndef ENGINES_NCCL_PRIVATE_H
#define ENGINES_NCCL_PRIVATE_H

#include <accel/engine.h>

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    SLICE_MS = 50,
    GRACE_MS = 300,  /* for kernels of this rank to end when other ranks have left */
    CAUSE_MS = 1000, /* to find the cause of an error of the network's */
    CLOSE_MS = 2000, /* for NCCL to end in good order */
    VERSION_LEAST = 21800, /* with ncclCommSplit() */
    VERSION_ORDERS = 22600, /* with NCCL_LAUNCH_ORDER_IMPLICIT */
};

/* ncclBfloat16, which headers before NCCL 2.24 have only after cuda_bf16.h, which is C++. */
#define BFLOAT16 ((ncclDataType_t) 9)

/** The types that NCCL reduces for us, with its own; others are only moved. */
#define REDUCED_TYPES(X)     \
    X (FLOAT32, ncclFloat32) \
    X (FLOAT64, ncclFloat64) \
    X (FLOAT16, ncclFloat16) \
    X (BFLOAT16, BFLOAT16)   \
    X (INT8, ncclInt8)       \
    X (UINT8, ncclUint8)     \
    X (INT32, ncclInt32)     \
    X (INT64, ncclInt64)     \
    X (BOOL, ncclUint8)

/* ---- process.c ---- */

#define NCCL_NEEDED(X)                                                                                          \
    X (GetVersion)                                                                                              \
    X (GetUniqueId)                                                                                             \
    X (GetErrorString)                                                                                          \
    X (CommInitRankConfig)                                                                                      \
    X (CommSplit)                                                                                               \
    X (CommFinalize)                                                                                            \
    X (CommDestroy)                                                                                             \
    X (CommAbort)                                                                                               \
    X (CommGetAsyncError)                                                                                       \
    X (GroupStart)                                                                                              \
    X (GroupEnd)                                                                                                \
    X (AllReduce)                                                                                               \
    X (Broadcast)                                                                                               \
    X (AllGather)                                                                                               \
    X (ReduceScatter)                                                                                           \
    X (Send)                                                                                                    \
    X (Recv)
/* Those that older releases lack. */
#define NCCL_OPTIONAL(X)                                                                                        \
    X (GetLastError)                                                                                            \
    X (CommRegister)                                                                                            \
    X (CommDeregister)                                                                                          \
    X (MemAlloc)                                                                                                \
    X (MemFree)

/** NCCL's functions without the prefix. */
struct nccl {
#define X(name) __typeof__ (nccl##name) *name;
    NCCL_NEEDED (X)
    NCCL_OPTIONAL (X)
#undef X
};
extern struct nccl nccl; /* written once */

/** Load NCCL once. */
enum accel_status library_open (const struct accel_engine_helpers *helpers, struct accel_error *err);

/** The GPU of this process.  @return false: there is none, and @p err says why */
bool gpu_choose (const struct accel_engine_job *job, struct accel_error *err);
/** A name of the GPU that no other of the host has. */
void gpu_name (char *bus, size_t size);

/** A thread's present device, before it was this process's GPU; and whether its calls end captures of the program's
 *  into CUDA graphs, which ours do not. */
struct device_guard {
    int before;
    cudaError_t own; /* the program's last error; if it had none, what our calls leave is taken away */
    enum cudaStreamCaptureMode capture_mode;
};
struct device_guard gpu_guard (void);
void gpu_restore (struct device_guard *guard);
/** The program's last error when this thread came here; and the words for "%s%s" at the end of an error of ours, which
 *  replaces it @{ */
cudaError_t gpu_own_error (void);
#define OWN_WORDS                                                                      \
    gpu_own_error () ? "; before, the program's own CUDA work failed: " : "",           \
        gpu_own_error () ? cudaGetErrorString (gpu_own_error ()) : ""
/** @} */
/** cudaEventQuery(), which leaves the program's last error as it is. */
cudaError_t gpu_event_query (cudaEvent_t event);
#define DEVICE_GUARD __attribute__ ((cleanup (gpu_restore), unused)) struct device_guard guard = gpu_guard ()

/* ---- communicator.c ---- */

/** A call, or a split. */
struct operation {
    uint64_t ticket; /* the order of starts, on all communicators */
    bool joins; /* the next one is posted together with it */
    struct operation *next; /* in the order of starts */
    struct communicator *comm;
    const struct accel_engine_call *call; /* NULL: split */
    struct communicator *child; /* of a split; NULL: this rank is in no group */
    int color, key;
    cudaEvent_t ready, done;
    enum operation_state { OPERATION_WAITS, OPERATION_IS_POSTED, OPERATION_RUNS, OPERATION_IS_OVER } state;
    int64_t since_ms, looked_ms; /* since when a thread waits for it; 0: none does yet */
};

/** Memory that NCCL knows. */
struct buffer {
    struct buffer *next;
    void *memory, *handle;
    bool is_from_nccl; /* from ncclMemAlloc() */
};

/** A communicator of libaccel, and NCCL's. */
struct communicator {
    struct communicator *next;
    struct communicator *origin; /* of a group: what it was split from */
    struct communicator *parent; /* the same while it is not born */
    bool is_joined;
    ncclComm_t nccl_comm; /* NULL: not yet, or no more */
    int size, rank;
    int64_t group_id;
    atomic_uint timeout_ms;
    const struct accel_engine_helpers *helpers;
    cudaStream_t stream;
    bool is_nccl_busy; /* NCCL is at work on its last call */
    bool is_looked_at; /* a thread, without the lock, has libaccel look for a call of it */
    bool is_coalescing;
    struct operation *group; /* the first of those between coalesce_begin() and coalesce_end(), which wait */
    struct operation *operations;
    struct operation *spare; /* most with events */
    struct buffer *buffers;
    enum accel_status status; /* why nothing is done any more */
    bool is_network_error;    /* some other rank may be the reason */
    char why[ACCEL_ERROR_TEXT_SIZE];
};

/** All that the engine remembers between calls.  There is one, because a process has one GPU and loads NCCL once. */
struct nccl_engine {
    pthread_mutex_t lock; /* of all communicators */
    struct communicator *comms;
    uint64_t tickets; /* given out */
    bool orders_launches; /* NCCL itself does, on the GPU */
    struct {
        const struct communicator *comm; /* NULL: none */
        cudaEvent_t done;
    } last; /* of what NCCL has queued */
    ncclComm_t none; /* where NCCL writes the communicator of a rank that is in no group of a split */
    void *library;   /* it stays loaded */
    bool watches_forks;
    int gpu;         /* of this process; -1: not chosen yet */
    int (*context_state) (int device, unsigned *flags, int *active); /* cuDevicePrimaryCtxGetState(); NULL: none */
    int (*event_query) (cudaEvent_t event); /* cuEventQuery(), likewise */
    struct {
        pthread_t thread;
        pthread_cond_t wake;
        bool is_there; /* `thread` is to go on */
    } progress; /* see progress_thread.c */
};
extern struct nccl_engine engine;

/** Whose size is to be set.  @param[out] comm  NULL on failure */
enum accel_status comm_create (struct communicator **comm, const struct accel_engine_helpers *helpers, int rank,
                               uint32_t timeout_ms, struct accel_error *err);
void comm_destroy (struct communicator *comm);

/* All with the lock, on the GPU. */

/** Pass on what can be, of all communicators.  @return whether nothing of @p comm is left to pass on */
bool comm_progress (struct communicator *comm);
/** The first failure: nothing is done any more. */
__attribute__ ((format (printf, 3, 4))) void comm_fail (struct communicator *comm, enum accel_status status,
                                                        const char *format, ...);
/** comm_fail() with NCCL's words, unless it succeeded or still runs. */
void comm_check (struct communicator *comm, ncclResult_t result, const char *call);
/** @return whether all is well */
bool comm_check_cuda (struct communicator *comm, cudaError_t error, const char *call);
/** Wait until NCCL has finished its last call, for @p ms at most; lets go of the lock.  @return whether it has */
bool comm_await_nccl (struct communicator *comm, int64_t ms);

/** Before a call of @p comm goes away: wait until no thread looks for it; lets go of the lock. */
void comm_await_look (const struct communicator *comm);

/** @return NULL without memory, or after a failure */
struct operation *operation_create (struct communicator *comm, const struct accel_engine_call *call);
void operation_destroy (struct operation *operation);
/** What was started from here to comm_coalesce_end() is posted together.  @{ */
void comm_coalesce_begin (struct communicator *comm);
void comm_coalesce_end (struct communicator *comm);
/** @} */
/** @return whether it is over, successfully or not */
bool operation_is_over (struct operation *operation);

/* ---- post.c ---- */

/** Give an operation, and those that it joins, to NCCL, which queues them on the communicator's stream.
 *  @param[out] name  of NCCL's function */
ncclResult_t operation_post (const struct operation *operation, const char **name);

/* ---- progress_thread.c ---- */

/** With the lock: have communicators pumped until nothing is left to do. */
void progress_thread_wake (void);
/** Without it: the last communicator has been closed. */
void progress_thread_end (void);

int64_t now_ms (void);

#endif
