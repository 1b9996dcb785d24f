/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks are: their stacks, or what the kernel says about processes that show none.
 *
 * It is taken in two steps, because the first must be quick and the second need not: the ranks' addresses and memory
 * maps are copied; a child process finds names and lines for them, with libdw, which reads whole files and may crash on
 * one that is damaged.  What ranks have written is checked: it may be anything. */
#ifndef LAUNCH_STACKS_STACKS_H
#define LAUNCH_STACKS_STACKS_H

#include "util/jobseg.h"
#include "util/strbuf.h"

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

enum {
    STACKS_WAIT_MS = 1000, /* for a rank to show its stack: microseconds, if it need not wait for a processor */
    STACKS_NAMES_WAIT_MS = 10000, /* for names and lines, which may be in gigabytes */
};

/** What the launcher gives to each rank, for Python: see python.c.  libaccel takes the highest free signal, which this
 * one is not unless the program uses that. */
#define STACKS_SIGNAL (SIGRTMAX - 1)
#define STACKS_FILE "accel-traceback"

/** A rank, when it was asked. */
struct stack_rank {
    struct jobseg_slot *slot;
    int rank;
    pid_t pid;         /* 0: not known */
    bool is_asked;     /* its answer is awaited */
    uint32_t number;   /* of the question */
    char doing[640];   /* as jobseg_describe() says it */
    int64_t elapsed_ns; /* as jobseg_elapsed_ns() */
    char reason[96];   /* why there is no stack; empty if there is one */
    char process[160]; /* what the kernel says: "sleeping in pipe_read, 3 threads"; empty: nothing */
    uint32_t count;
    uint64_t frames[JOBSEG_FRAMES]; /* addresses inside the calls, innermost first */
    char *maps;        /* /proc/PID/maps; NULL: not known */
    int file;          /* of its traceback, while that is awaited; -1 */
    bool has_file;     /* and no other process may use it */
    char *traceback;   /* what Python has written, instead of addresses; NULL */
};

/** All zero: none. */
struct stacks {
    struct stack_rank *ranks;
    int count;
};

/** Add local rank @p index of @p segment.  @param pid  of its process, if it is known without the slot; 0
 *  @return false without memory */
bool stacks_add (struct stacks *stacks, const struct jobseg *segment, int index, pid_t pid);

/** @return whether the program of @p pid shows where it is though it does not use libaccel */
bool stacks_has_python (pid_t pid);

/** Ask those that were added, and copy what they show within @p wait_ms.  A rank that is stopped, or that does not wait
 *  for our signal, is not sent any. */
void stacks_take (struct stacks *stacks, int wait_ms);

void stacks_release (struct stacks *stacks);

/** A child process that finds names. */
struct stack_names {
    pid_t pid; /* 0: none */
    int fd;    /* of its answer, not blocking */
    struct strbuf answer;
};

/** Start it.  @return 0, or -1: then stacks_finish() has addresses alone */
int stacks_start (const struct stacks *stacks, struct stack_names *names);

/** Read what it has said.  @return whether that is all */
bool stacks_read (struct stack_names *names);

/** End it, in whatever state it is.
 *
 * @return an array with an object for each rank: "rank", "pid", "doing", "seconds" (null: not known), "reason" (null:
 *         there is a stack), "process" and "stack", an array of frames, each with "function", "file", "line" (null:
 *         not known), "module" and "address", its place in the module (both null in Python).  NULL without memory
 */
json_t *stacks_finish (struct stack_names *names, const struct stacks *stacks);

/** The three in one, waiting for no longer than some seconds. */
json_t *stacks_resolve (const struct stacks *stacks);

/** Append the stacks of @p ranks (see stacks_finish()) as lines that begin with @p indent, equal ones together. */
void stacks_put (const json_t *ranks, const char *indent, struct strbuf *out);

/** The same with one line for all ranks of a place, "rank 3: computing after accel_backward at train.c:90 for 61 s, in
 *  load (data.c:33)"; after a few such lines, how many ranks are left. */
void stacks_put_places (const json_t *ranks, const char *indent, struct strbuf *out);

/** Append the innermost frame that is the program's own, "load (data.c:33)"; nothing if there is none. */
void stacks_put_own_frame (const json_t *rank, struct strbuf *out);

/** @return whether the stack of @p rank in @p ranks (see stacks_finish()) shows that it waits for a GPU */
bool stacks_show_gpu (const json_t *ranks, int rank);

/** Append "61 s", "5 min", "2 h 10 min". */
void stacks_put_seconds (double seconds, struct strbuf *out);

/** Append "2, 4-7".  @param ranks  [count], in their order */
void stacks_put_ranks (const int *ranks, size_t count, struct strbuf *out);

/* python.c, for those of this room. */
/** @return whether Python shows its tracebacks, in `file` */
bool stack_python_find (struct stack_rank *rank);
/** Ask it, as soon as no other process does.  @return whether its answer is there */
bool stack_python_copy (struct stack_rank *rank);
/** Nothing is awaited any more. */
void stack_python_end (struct stack_rank *rank);
/** @return frames as stacks_finish() has them; none if @p text is not a traceback */
json_t *stack_python_parse (const char *text);

/* symbols.c, for those of this room.  What libdw knows about the memory of a process; NULL everywhere: there is no
 * libdw. */
struct stack_symbols;
struct stack_symbols *stack_symbols_open (const char *maps);
/** @param[out] function, file  valid until it is closed; NULL: not known  @param[out] line  0: not known */
void stack_symbols_find (struct stack_symbols *symbols, uint64_t address, const char **function, const char **file,
                         int *line);
void stack_symbols_close (struct stack_symbols *symbols);

#endif
