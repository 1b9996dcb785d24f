/* SPDX-License-Identifier: Apache-2.0 */
/* What the head and its agents write to each other: frames of a type and some values.  Both are the same release of the
 * same program, which the first frame makes sure of, so the values need no description of themselves. */
#ifndef HOSTS_NET_WIRE_H
#define HOSTS_NET_WIRE_H

#include "util/fail.h"
#include "util/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** What an agent writes first.  A shell's start-up files may have written something else before. */
#define WIRE_GREETING "\n\001accelerate agent\001\n"

enum {
    WIRE_FRAME_BYTES = 16 * 1024 * 1024, /* the longest */
    WIRE_OUTPUT_BYTES = 16 * 1024,       /* of output in one frame, at most */
    WIRE_WINDOW_BYTES = 256 * 1024,      /* of output that the head has not passed on yet, at most */
    WIRE_INPUT_BYTES = 64 * 1024,        /* of input that the agent has not passed on yet, at most */
};

enum wire_type {
    /* from the head */
    WIRE_JOB = 1, /* what to start: wire_job.h */
    WIRE_LISTEN,  /* number of processes; find a port for rank 0 and listen there */
    WIRE_REACH,   /* token, port, addresses: which can you reach? */
    WIRE_START_PROXIES, /* attempt, ranks: wait for an MPI proxy for each */
    WIRE_START,   /* address, port, machine, machines, first rank, ranks, world size, restarts; of the next host for
                   * copies of checkpoints in memory: name, port (0: there is none), addresses, key */
    WIRE_SIGNAL,  /* number; whether it is sent because the job has failed */
    WIRE_ACK,     /* bytes of output that were passed on */
    WIRE_HEARTBEAT, /* the head's clock, ns; the answer has the agent's, too */
    WIRE_CHECK,   /* enum check_what, and what belongs to it (agent/checks.h) */
    WIRE_SIZE,    /* rows and columns of the head's terminal; a WIRE_SIGNAL follows */
    WIRE_IN,      /* standard input of rank 0; nothing: its end */
    WIRE_UNREAD,  /* no process reads what ranks write to standard output */
    WIRE_SAMPLE,  /* enum jobseg_request, together: ask the ranks for that, and say what they do; whether their GPUs are
                   * of interest, too */
    WIRE_STACKS,  /* number of the question, local rank (-1: all): their stacks */

    /* between launchers that were started by hand: from machine 0's ... */
    WIRE_WELCOME, /* version, host name */
    WIRE_OUTCOME, /* machine, enum wire_end, exit status, report as text, as JSON: what the whole job has come to */
    WIRE_AGAIN,   /* all ranks start again */
    WIRE_JOIN,    /* to it: version, port of the job, machine, machines, world size, first rank, ranks, host name; in
                   * both directions, there are WIRE_NOTICE and those of a failure */

    /* from the agent */
    WIRE_HELLO,     /* version, host name */
    WIRE_READY,     /* how many processes this host would run: one for each GPU, or 1; for copies of checkpoints in
                     * memory: port (0: there will be none), addresses */
    WIRE_REFUSED,   /* exit status, message: nothing was started */
    WIRE_PROXIES_READY, /* all MPI proxies have come */
    WIRE_LISTENING, /* token, port, addresses */
    WIRE_REACHED,   /* for each address, whether it can be reached */
    WIRE_STARTED,   /* the port is free for rank 0, and the launcher runs */
    WIRE_OUT,       /* whole lines, or what is shown of a line that may stay unfinished */
    WIRE_ERR,       /* the same */
    WIRE_OUT_PART,  /* of a line whose rest is on its way: it must not be interrupted */
    WIRE_ERR_PART,  /* the same */
    WIRE_MPI_ENDED, /* the agent's clock, ns; whether a daemon has ended; its exit status, 0: not known; text */
    WIRE_FAILED,    /* the agent's clock, ns; rank: the first failure on this host, at once */
    WIRE_NOTICE,    /* text: why all ranks are to save and stop, as in "ended WHY"; it may come again */
    WIRE_END,       /* enum wire_end, exit status, report as text, as JSON: the launcher on this host has ended */
    WIRE_CHECKED,   /* the answer to WIRE_CHECK */
    WIRE_TAKEN,     /* bytes of WIRE_IN that were passed on */
    WIRE_SAMPLED,   /* what the ranks do (samples.h): the answer to WIRE_SAMPLE, and before the WIRE_END of an attempt
                     * that was watched */
    WIRE_STACKED,   /* number of the question; JSON, as stacks_finish() makes it, NULL if it is too long */

    /* from the launcher below an agent, to it alone */
    WIRE_ALIVE,   /* its process; in how many ms it will write again, at most */

    /* from host to host, which copy checkpoints in memory (agent/copies.c) */
    WIRE_COPY_HELLO, /* 0: proves that the key is known, as the first round may be long in coming */
    WIRE_COPY_ROUND, /* number of the save, number of the one before */
    WIRE_COPY_SHARE, /* local rank, parts of struct memtier_entry */
    WIRE_COPY_PART,  /* bytes of it */
    WIRE_COPY_SHARE_END, /* whether it is whole */
    WIRE_COPY_DONE,  /* number of the save, whether the copies of all hosts so far are whole, whether one of them lacks
                      * what all ranks have in common */

    /* from an MPI proxy */
    WIRE_MPI_PROXY, /* attempt, rank of MPI, its parent process, variables */
    WIRE_TYPE_COUNT
};

/** How a host's part of a job ended. */
enum wire_end {
    WIRE_END_DONE,   /* all ranks exited with status 0 */
    WIRE_END_FAILED, /* a rank failed */
    WIRE_END_STOPPED, /* a signal came first */
    WIRE_END_ERROR,  /* it could not be started */
    WIRE_END_ASKED,  /* one of the ranks was asked to stop, and all did: they may start again */
};

/** Begin a frame at the end of @p out.  @return for wire_end() */
size_t wire_begin (struct strbuf *out, enum wire_type type);
void wire_end (struct strbuf *out, size_t begin);
void wire_put_number (struct strbuf *out, int64_t value);
/** NULL is written as such. */
void wire_put_text (struct strbuf *out, const char *text);
void wire_put_list (struct strbuf *out, const struct strlist *list);

/** A frame of numbers; of none, 0. */
#define wire_put_frame(out, type, ...) \
    wire_put_numbers (out, type, (const int64_t[]){ __VA_ARGS__ }, \
                      sizeof ((const int64_t[]){ __VA_ARGS__ }) / sizeof (int64_t))
void wire_put_numbers (struct strbuf *out, enum wire_type type, const int64_t *numbers, size_t count);

/** A frame WIRE_END.  @param report, json  may be NULL */
void wire_put_end (struct strbuf *out, enum wire_end end, int status, const char *report, const char *json);

/** Numbers of @p count bytes in little endian order, because hosts may differ. */
void wire_put_little (void *bytes, size_t count, uint64_t value);
uint64_t wire_get_little (const void *bytes, size_t count);

/** The values of a frame.  After a missing value, `failed` is set and all others are 0 or NULL. */
struct wire_frame {
    enum wire_type type;
    const char *at;
    size_t left;
    bool failed;
};

int64_t wire_number (struct wire_frame *frame);
/** @return valid as long as the frame's bytes; NULL if NULL was written */
const char *wire_text (struct wire_frame *frame);
/** Append to @p list. */
void wire_list (struct wire_frame *frame, struct strlist *list);

/**
 * The first frame of @p bytes.
 *
 * @param[out] used  how many bytes it has
 * @return 1; 0 if there is no whole one yet; -1 if it cannot be one
 */
int wire_next (const char *bytes, size_t length, struct wire_frame *frame, size_t *used);

/** Both directions of a connection: bytes to be written without waiting, and frames as they come in. */
struct pipe_end {
    int in, out;           /* not blocking; -1: closed */
    struct strbuf to_write; /* frames are appended here */
    size_t written;        /* of it */
    struct strbuf input;
    size_t taken;          /* of it */
    int64_t heard_ms;      /* when something last came in */
};

/** pipe(), close-on-exec.  @return 0, or -1 with @p fail set */
int pipe_make (int ends[2], struct fail *fail);

/** Take over two descriptors. */
void pipe_init (struct pipe_end *pipe, int in, int out);

/** Write what can be written now.  @return false if the other side has closed */
bool pipe_flush (struct pipe_end *pipe);
bool pipe_has_output (const struct pipe_end *pipe);

/** Read what is there, no endless flow at once.  @return false at its end */
bool pipe_fill (struct pipe_end *pipe);

/** The next frame that has come in; valid until the next pipe_fill().  @return as wire_next() */
int pipe_next (struct pipe_end *pipe, struct wire_frame *frame);

void pipe_close (struct pipe_end *pipe);

#endif
