/* SPDX-License-Identifier: Apache-2.0 */
/* The one contract between command and library, second half: the job segment, shared memory of one job on one host.
 *
 * The launcher (or, under a foreign launcher, the library) makes it as a memfd: it has no name in /dev/shm, so nothing
 * can be left behind.  Ranks open it as /proc/PID/fd/N of its maker.  No process can shrink it, and only once does it
 * grow: seals see to that.  It begins with a header and one slot per local
 * rank, through which ranks meet and see each other; after them lies room that the shm engine sizes and lays out for
 * itself (data_offset).
 *
 * The head of a job on several hosts makes one, too, with a slot for each rank of all hosts.  No rank opens it: the
 * head copies into it what the hosts say, for those who watch the job.
 *
 * A rank writes its own slot only; the launcher writes the exit fields when it has reaped the rank.  Everything that
 * another process reads is atomic.  Readers may be processes of other builds: version and sizes are in the header. */
#ifndef UTIL_JOBSEG_H
#define UTIL_JOBSEG_H

#include "util/fail.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define JOBSEG_MAGIC UINT64_C (0x314c454343414a53)
enum {
    JOBSEG_VERSION = 7,
    JOBSEG_LEDGER = 64,    /* latest collectives kept per rank; a power of two */
    JOBSEG_FILES = 32,     /* source files named per rank */
    JOBSEG_FILE_NAME = 64, /* bytes of a file's name, the end of a longer one */
    JOBSEG_BLOB = 256,     /* bytes that a rank tells the others in an exchange, while it opens */
    JOBSEG_MAX_DIMS = 8,   /* of a tensor */
    JOBSEG_VALUES = 8,     /* numbers that the program logged last, per rank */
    JOBSEG_VALUE_NAME = 24, /* bytes of such a number's name, cut off where it is longer */
    JOBSEG_FRAMES = 64,    /* of a rank's stack */
    JOBSEG_HOST_NAME = 64, /* bytes of a host's name, cut off */
    JOBSEG_DOING = 384,    /* bytes of what a rank is doing, in words */
    JOBSEG_MAX_LOCAL = 4096,
};

/** Public calls that communicate, as the ledger names them: enum name, the function a program calls. */
#define JOBSEG_CALL_MAP(X) \
    X (NONE, "nothing") \
    X (OPEN, "accel_open") \
    X (BARRIER, "accel_comm_barrier") \
    X (ALL_REDUCE, "accel_comm_all_reduce") \
    X (ALL_GATHER, "accel_comm_all_gather") \
    X (BROADCAST_BUFFER, "accel_comm_broadcast") \
    X (REDUCE_SCATTER, "accel_comm_reduce_scatter") \
    X (WAIT_FOR_EVERYONE, "accel_wait_for_everyone") \
    X (GATHER, "accel_gather") \
    X (GATHER_FOR_METRICS, "accel_gather_for_metrics") \
    X (REDUCE, "accel_reduce") \
    X (BROADCAST, "accel_broadcast") \
    X (MAIN_PROCESS_FIRST, "accel_main_process_first") \
    X (GATHER_OBJECT, "accel_gather_object") \
    X (BROADCAST_OBJECT_LIST, "accel_broadcast_object_list") \
    X (PAD_ACROSS_PROCESSES, "accel_pad_across_processes") \
    X (TREE_GATHER, "accel_tree_gather") \
    X (TREE_REDUCE, "accel_tree_reduce") \
    X (TREE_BROADCAST, "accel_tree_broadcast") \
    X (ALL_TO_ALL, "accel_comm_all_to_all") \
    X (SEND, "accel_comm_send") \
    X (RECV, "accel_comm_recv") \
    X (SPLIT, "accel_comm_split") \
    X (MESH_CREATE, "accel_mesh_create") \
    X (TREE_PAD_ACROSS_PROCESSES, "accel_tree_pad_across_processes") \
    X (LOCAL_MAIN_PROCESS_FIRST, "accel_local_main_process_first") \
    X (CHECK_TRIGGER, "accel_check_trigger") \
    X (PREPARE, "accel_prepare") \
    X (BACKWARD, "accel_backward") \
    X (SYNCHRONIZE_RNG_STATE, "accel_synchronize_rng_state") \
    X (LOADER_NEXT, "accel_loader_next") \
    X (FIND_EXECUTABLE_BATCH_SIZE, "accel_find_executable_batch_size") \
    X (LOG_IN_ORDER, "accel_logger_log_in_order") \
    X (PROFILE_START, "accel_profile_start") \
    X (PROFILE_STOP, "accel_profile_stop") \
    X (JOIN_END, "accel_join_end") \
    X (LOCAL_SGD_STEP, "accel_local_sgd_step") \
    X (LOCAL_SGD_END, "accel_local_sgd_end") \
    X (END_TRAINING, "accel_end_training") \
    X (TREE_GATHER_FOR_METRICS, "accel_tree_gather_for_metrics") \
    X (UNSCALE_GRADIENTS, "accel_unscale_gradients") \
    X (CLIP_GRAD_NORM, "accel_clip_grad_norm") \
    X (CLIP_GRAD_VALUE, "accel_clip_grad_value") \
    X (TENSOR_REDUCE_SCATTER, "accel_reduce_scatter") \
    X (TENSOR_ALL_TO_ALL, "accel_all_to_all") \
    X (TENSOR_SEND, "accel_send") \
    X (TENSOR_RECV, "accel_recv") \
    X (OPTIMIZER_STEP, "accel_optimizer_step") \
    X (AVERAGE_GRADIENTS, "accel_average_gradients") \
    X (TREE_SEND, "accel_tree_send") \
    X (TREE_RECV, "accel_tree_recv") \
    X (SEND_OBJECT_LIST, "accel_send_object_list") \
    X (RECV_OBJECT_LIST, "accel_recv_object_list") \
    X (ALL_TO_ALL_OBJECT, "accel_all_to_all_object") \
    X (REDUCE_NUMBER, "accel_reduce_number") \
    X (BARRIER_START, "accel_comm_barrier_start") \
    X (ALL_REDUCE_START, "accel_comm_all_reduce_start") \
    X (ALL_GATHER_START, "accel_comm_all_gather_start") \
    X (BROADCAST_BUFFER_START, "accel_comm_broadcast_start") \
    X (REDUCE_SCATTER_START, "accel_comm_reduce_scatter_start") \
    X (ALL_TO_ALL_START, "accel_comm_all_to_all_start") \
    X (SAVE_STATE, "accel_save_state") \
    X (LOAD_STATE, "accel_load_state") \
    X (SAVE_MODEL, "accel_save_model") \
    X (LOAD_MODEL, "accel_load_model") \
    X (SAVE_STATE_START, "accel_save_state_start") \
    X (SAVE_STATE_WAIT, "accel_save_state_wait") \
    X (SAVE_STATE_TEST, "accel_save_state_test") \
    X (OUTLIER_LOSS, "accel_outlier_loss") \
    X (SHOULD_SAVE, "accel_should_save") \
    X (SHOULD_STOP, "accel_should_stop") \
    X (LAYER_BEGIN, "accel_layer_begin") \
    X (SUMMON_FULL_PARAMS, "accel_summon_full_params") \
    X (PARALLEL_GATHER, "accel_parallel_gather") \
    X (PARALLEL_CROSS_ENTROPY, "accel_parallel_cross_entropy") \
    X (PARALLEL_EMBEDDING, "accel_parallel_embedding") \
    X (PARALLEL_EMBEDDING_BACKWARD, "accel_parallel_embedding_backward")

enum jobseg_call {
#define X(name, text) JOBSEG_CALL_##name,
    JOBSEG_CALL_MAP (X)
#undef X
    JOBSEG_CALL_COUNT
};

/** @return the public name of @p call, "?" for an invalid number. */
const char *jobseg_call_name (unsigned call);

/** @return what ranks compare: a collective that one rank starts matches that call of ranks that block in it. */
static inline unsigned
jobseg_call_that_blocks (unsigned call)
{
    switch (call) {
    case JOBSEG_CALL_BARRIER_START: return JOBSEG_CALL_BARRIER;
    case JOBSEG_CALL_ALL_REDUCE_START: return JOBSEG_CALL_ALL_REDUCE;
    case JOBSEG_CALL_ALL_GATHER_START: return JOBSEG_CALL_ALL_GATHER;
    case JOBSEG_CALL_BROADCAST_BUFFER_START: return JOBSEG_CALL_BROADCAST_BUFFER;
    case JOBSEG_CALL_REDUCE_SCATTER_START: return JOBSEG_CALL_REDUCE_SCATTER;
    case JOBSEG_CALL_ALL_TO_ALL_START: return JOBSEG_CALL_ALL_TO_ALL;
    default: return call;
    }
}

/** What a rank is doing with the library. */
enum jobseg_state {
    JOBSEG_EMPTY,   /* has not called accel_open() */
    JOBSEG_JOINING, /* in accel_open() */
    JOBSEG_READY,   /* a member */
    JOBSEG_LEFT,    /* has called accel_close() */
    JOBSEG_FAILED,  /* gave up the communicator; `reason` says why */
};

/** How the latest call about checkpoints ended that failed on all ranks. */
enum jobseg_failure {
    JOBSEG_FAILURE = 1,
    JOBSEG_FAILURE_OWN = 2,  /* this rank was the cause */
    JOBSEG_FAILURE_LOST = 4, /* it was a save in the background, whose failure no call can return any more */
};

/** One collective in a rank's ledger.  Communicator, kind and number say which records of other ranks belong to the
 * same call: collectives of a communicator are numbered from 1, and so are the messages from one rank to another. */
struct jobseg_record {
    uint64_t sequence; /* 1, 2, 3 ... per rank */
    uint64_t comm;     /* the communicator, the same on all its ranks; 0: the world */
    uint64_t count;    /* elements */
    uint64_t looked_ns; /* CLOCK_MONOTONIC when the rank last found that this call still has to wait; 0: never */
    uint32_t generation; /* of the program that called; earlier ones of the same rank are still there */
    uint32_t number;   /* 0: no other rank takes part in this call */
    uint32_t line;
    uint32_t form;  /* a hash of a tensor's shape and of what else ranks must agree on; 0: nothing */
    uint16_t file;  /* index in the slot's `files` */
    int16_t root;   /* of a message: the other rank, in the communicator; -1: none */
    uint8_t kind;   /* enum engine_kind */
    uint8_t call;   /* enum jobseg_call */
    uint8_t dtype;  /* enum accel_dtype */
    uint8_t op;     /* enum accel_op */
    uint8_t done;   /* 0: the rank is still in it */
    uint8_t device; /* DLDeviceType of the buffers; 0: the host */
};

/** What was hashed for a record's `form`, so that messages can show it. */
struct jobseg_form {
    int64_t shape[JOBSEG_MAX_DIMS];
    double value;
    uint8_t ndim;
    uint8_t argument; /* enum comm_argument */
};

/** What is asked of a job's ranks, together. */
enum jobseg_request {
    JOBSEG_SAVE = 1,
    JOBSEG_STOP = 2,
    JOBSEG_END = 4, /* of the header: the job has failed, so SIGTERM ends ranks at once */
};

/** What a rank shows of its training, for those who watch.  `version` is odd while the rank writes names and values. */
struct jobseg_progress {
    _Atomic uint64_t step;      /* optimizer steps so far, or what the program logged as its step */
    _Atomic uint64_t step_ns;   /* CLOCK_MONOTONIC at the latest change of `step`; 0: none yet */
    _Atomic uint64_t first_step; /* the first one that was shown, and when: steps since then make a rate */
    _Atomic uint64_t first_ns;
    _Atomic uint64_t waited_ns; /* in calls that communicate, together */
    _Atomic uint32_t version;
    uint32_t value_count;
    struct {
        char name[JOBSEG_VALUE_NAME];
        double value;
    } values[JOBSEG_VALUES]; /* of accel_log(), the latest of each name; the first names */
};

/** A rank's stack, which it writes itself when a signal asks for it. */
struct jobseg_stack {
    _Atomic uint32_t asked; /* how often */
    _Atomic uint32_t given; /* the latest `asked` that has been answered */
    _Atomic uint32_t signal; /* which signal asks; 0: this rank cannot */
    _Atomic int32_t thread; /* which of the process's threads is asked, unless the one who asks chooses another */
    uint32_t count;
    uint64_t frames[JOBSEG_FRAMES]; /* addresses in the rank's memory, innermost first */
};

/** What becomes of a host, as its head sees it. */
enum jobseg_host {
    JOBSEG_HOST_RUNS,
    JOBSEG_HOST_ENDED, /* its ranks have */
    JOBSEG_HOST_LOST,
};

/** What a GPU does, as struct gpu_load says it. */
struct jobseg_gpu {
    int32_t number;       /* 1 + its index on its host; 0: none, or that is not known */
    int32_t use, temperature;
    uint64_t memory_used; /* bytes; 0: unknown */
};

/** In the segment of a head: what only a rank's host knows.  `version` is odd while the head writes. */
struct jobseg_told {
    _Atomic uint32_t version;
    _Atomic uint32_t host_state; /* enum jobseg_host */
    _Atomic uint64_t count; /* answers of the host so far */
    _Atomic uint64_t ns;    /* CLOCK_MONOTONIC of the head when the host has answered last; 0: it has not */
    uint64_t cpu_ns;        /* of the rank's process */
    uint64_t memory;        /* bytes that are resident */
    struct jobseg_gpu gpu;  /* that it uses */
    uint8_t process_state;  /* as in /proc; 0: not known */
    uint8_t is_remote;      /* the host is not the head's */
    char host[JOBSEG_HOST_NAME]; /* as the user named it */
    char doing[JOBSEG_DOING];
};

struct jobseg_slot {
    _Atomic uint32_t state;      /* enum jobseg_state */
    _Atomic uint32_t generation; /* the round of opening that this rank is in; all must agree to join */
    _Atomic int32_t pid;         /* of the process that opened */
    _Atomic uint32_t exited;     /* launcher: 1 once the rank's process is reaped */
    _Atomic int32_t wait_status; /* launcher: as waitpid() reports it */
    _Atomic uint32_t file_count;
    _Atomic uint32_t pid_space;    /* inode of the pid namespace that `pid` belongs to; 0: unknown */
    _Atomic uint32_t failed_generation; /* what `reason` is about; it stays when the rank opens again.  0: none */
    _Atomic uint64_t heartbeat_ns; /* CLOCK_MONOTONIC at the latest sign of life */
    _Atomic uint64_t begun_ns;     /* the same when the latest call began.  Not in its record, which is a cache line */
    _Atomic uint64_t ledger_count; /* records ever written; the newest is ledger[(count - 1) % JOBSEG_LEDGER] */
    _Atomic uint64_t exchanged;    /* generation << 32 | round of the latest exchange */
    _Atomic uint32_t exchange_bell; /* a futex */
    char reason[256];              /* of JOBSEG_FAILED; written before failed_generation, and that before the state */
    char failure_text[512];
    _Atomic uint32_t failure;      /* enum jobseg_failure, together; written after its text; 0: none */
    _Atomic uint64_t failure_count; /* `ledger_count` then: what ends after other calls, ends for another reason */
    char files[JOBSEG_FILES][JOBSEG_FILE_NAME];
    struct jobseg_record ledger[JOBSEG_LEDGER];
    unsigned char blobs[2][JOBSEG_BLOB];     /* of the latest two exchanges, by the parity of the round */
    struct jobseg_form forms[JOBSEG_LEDGER]; /* of the records whose `form` is not 0 */
    struct jobseg_progress progress;
    struct jobseg_stack stack;
    _Atomic uint32_t request;    /* enum jobseg_request, together: what this rank alone has been asked for */
    _Atomic uint32_t respects;   /* the same: what its program asks after */
    _Atomic uint64_t saved_step; /* 1 + the step of the latest complete checkpoint; 0: none */
    _Atomic uint64_t memory_step; /* the same, of the latest in memory */
    _Atomic uint64_t votes;      /* on requests: see jobseg_vote() */
    _Atomic uint32_t agreed;     /* enum jobseg_request, together: what all ranks have agreed that it was asked for */
    _Atomic uint32_t saves;      /* complete checkpoints so far; written after `saved_step` and `saved_path` */
    _Atomic uint32_t asked_saves; /* `saves` when the ranks last agreed that they were asked to save */
    char saved_path[256];        /* of the latest, its end if it is longer */
    struct jobseg_told told;     /* in the segment of a head */
} __attribute__ ((aligned (128)));

struct jobseg_header {
    uint64_t magic;
    uint32_t version;
    uint32_t slot_bytes;
    uint32_t world_size;
    uint32_t local_world_size;
    uint32_t first_rank; /* global rank of local rank 0; a host's ranks are consecutive */
    uint32_t slots_offset;
    char job_id[40];               /* a dot and the number of the restart follow the job's id after a restart */
    _Atomic uint32_t ready_generation; /* the generation that all have joined; a futex */
    _Atomic uint32_t request;      /* enum jobseg_request, together: what the whole job has been asked for */
    int32_t launcher_pid;          /* of the guardian or head, which signals are for; 0: of a foreign launcher */
    uint32_t restarts;             /* of the job so far */
    uint32_t hosts;                /* of the job, if its head has made this segment; 0: its ranks use it */
    int32_t bell;                  /* then: a descriptor of the head, a pipe; each byte asks for what ranks do now */
    int32_t answers;               /* and a file, in which hosts show stacks: struct places_answer */
    _Atomic uint32_t stacks_asked; /* how often these were asked for */
    _Atomic int32_t stacks_only;   /* of which rank; -1: of all */
    int64_t started_s;             /* seconds since the epoch */
    char program[128];             /* its name and arguments, cut off */
    uint64_t data_offset;          /* first byte after the slots, a multiple of the page size */
    _Atomic uint64_t arena_bytes;  /* the shm engine's: of each rank's arena */
    _Atomic uint64_t arena_offset; /* the shm engine's: of rank 0's arena in the file */
};

/** A mapping of header and slots. */
struct jobseg {
    int fd; /* -1: none */
    size_t mapped_bytes;
    struct jobseg_header *header; /* NULL: not attached */
};

#define JOBSEG_NONE { .fd = -1 }

/** Make a segment.  @param job_id  at most 39 characters  @return 0 or -1 */
int jobseg_create (struct jobseg *segment, int world_size, int local_world_size, int first_rank, const char *job_id,
                   struct fail *fail);

/** Map the segment at @p path, after checking that it is one of this version.  @return 0 or -1 */
int jobseg_attach (struct jobseg *segment, const char *path, struct fail *fail);

/** The same with an open descriptor, which the segment then owns also on failure. */
int jobseg_attach_fd (struct jobseg *segment, int fd, struct fail *fail);

/** Give the segment its final size: from now on no process can change it.  @return 0, or -1 with errno */
int jobseg_grow (const struct jobseg *segment, size_t bytes);

/** Unmap and close; the segment itself lives as long as a process holds it.  Accepts JOBSEG_NONE. */
void jobseg_detach (struct jobseg *segment);

/** @return the slot of @p local_rank, 0 <= local_rank < header->local_world_size. */
struct jobseg_slot *jobseg_slot (const struct jobseg *segment, int local_rank);

/** Launcher: note that the rank's process is gone. */
void jobseg_mark_exit (struct jobseg *segment, int local_rank, int wait_status);

/** Copy the newest record of @p slot.  @return false if its program has none */
bool jobseg_latest (const struct jobseg_slot *slot, struct jobseg_record *record);

/**
 * Between reading what another process may overwrite and asking whether it has.  ThreadSanitizer does not know fences,
 * and GCC warns of that; it sees one process, so nothing that ranks share is judged by it anyway.
 */
static inline void
jobseg_fence_reads (void)
{
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
    atomic_thread_fence (memory_order_seq_cst);
#ifdef __SANITIZE_THREAD__
#pragma GCC diagnostic pop
#endif
}

/** Between saying that something is being written, and writing it: on ARM a store may overtake one that releases. */
static inline void
jobseg_fence_writes (void)
{
    jobseg_fence_reads (); /* orders stores, too */
}

/** @return the name of @p record's file, "?" if it was not kept; valid as long as the mapping. */
const char *jobseg_file (const struct jobseg_slot *slot, const struct jobseg_record *record);

/**
 * Say in words what a rank is doing: "in accel_gather at train.c:88", "computing after accel_backward at train.c:90",
 * "stopped by a signal after accel_backward at train.c:90", "not in accel_open() yet", "has left (accel_close)".
 */
void jobseg_describe (const struct jobseg_slot *slot, char *text, size_t size);

/** @return for how many nanoseconds that has been so; -1 if it is not known */
int64_t jobseg_elapsed_ns (const struct jobseg_slot *slot);

/** Say in words how a call about checkpoints failed: "failed in accel_save_state at train.c:88: ...". */
void jobseg_describe_failure (const struct jobseg_slot *slot, char *text, size_t size);

/** Say in words how a process ended: "exited with status 7", "was killed by signal 9 (SIGKILL)". */
void jobseg_describe_exit (int wait_status, char *text, size_t size);

/** Read "rank 3" at the beginning of @p text.  @param[out] rest  what follows; may be NULL  @return 3; -1 if it is not
 * there */
int jobseg_read_rank (const char *text, const char **rest);

/** The rank whose end made another one give up.
 *
 * @param doing  of the other one, as jobseg_describe() says it: "gave up: rank 2 gave up: rank 0 ended (process 7) ..."
 * @return 0, in this example; -1 if it did not give up because a rank had ended */
int jobseg_lost_rank (const char *doing);

/** The time of heartbeats: CLOCK_MONOTONIC to a few milliseconds, in a few nanoseconds. */
static inline uint64_t
jobseg_now_ns (void)
{
    struct timespec now;
    clock_gettime (CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t) now.tv_sec * 1000000000u + (uint64_t) now.tv_nsec;
}

/** A sign of life of the rank whose slot this is.  A few nanoseconds.  @return its time */
static inline uint64_t
jobseg_beat (struct jobseg_slot *slot)
{
    uint64_t now_ns = jobseg_now_ns ();
    atomic_store_explicit (&slot->heartbeat_ns, now_ns, memory_order_relaxed);
    return now_ns;
}

#endif
