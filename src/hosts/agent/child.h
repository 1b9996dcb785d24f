/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher that an agent has started: its output, what it says about its ranks, and its end. */
#ifndef HOSTS_AGENT_CHILD_H
#define HOSTS_AGENT_CHILD_H

#include "hosts/agent/host_job.h"
#include "hosts/agent/watch.h"
#include "hosts/job_spec.h"
#include "hosts/net/wire.h"

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

enum { AGENT_CHILD_STREAMS = 2, AGENT_CHILD_FDS = AGENT_CHILD_STREAMS + 4 };

/** Output on its way to the head, in whole lines as far as possible. */
struct agent_stream {
    int fd; /* -1: none, or at its end */
    enum wire_type type, part_type;
    bool is_terminal;
    bool has_begun; /* what was passed on last does not end a line */
    char *text; /* [WIRE_OUTPUT_BYTES] */
    size_t length;
    int64_t since_ms; /* when the first bytes of its unfinished line came */
};

struct agent_child {
    pid_t pid; /* 0: none, or its end has been reported */
    int pidfd;
    int wait_status;
    bool has_ended;
    pid_t worker;     /* the process below it that supervises the ranks; 0: not known yet */
    int64_t alive_ms; /* until when it must have given a sign of life */
    int64_t heard_ms;  /* when it has given the last one */
    int64_t silent_ms; /* how long it had been silent when we gave it up; 0: we have not */
    pid_t stopped;     /* then: which of its processes was stopped; 0: none */
    int late_reads; /* of output, after that */
    struct agent_stream streams[AGENT_CHILD_STREAMS];
    int in;               /* its standard input; -1: none, or at its end */
    struct strbuf input;  /* for it */
    size_t fed;           /* bytes of that which it has got */
    bool input_has_ended; /* nothing is to follow */
    struct pipe_end said; /* frames of the launcher */
    struct strbuf end;    /* its WIRE_END, which follows the last output */
    int64_t unread; /* bytes that the head has not passed on yet */
    bool lacks_reader; /* no process reads its standard output */
    struct agent_watch watch;
};

void agent_child_init (struct agent_child *child);

/** Start the launcher of @p host_job.  @return 0, or -1 with @p fail set */
int agent_child_start (struct agent_child *child, const struct job_spec *spec, const struct host_job *host_job,
                       host_job_run *run, const sigset_t *mask, struct fail *fail);

/** Take what the launcher has said, as agent_child_take() does.  @return whether its ranks may still need something */
bool agent_child_is_busy (struct agent_child *child, struct strbuf *out);

/** Send @p signal to the launcher, if it still runs. */
void agent_child_kill (const struct agent_child *child, int signal);

/** The same if the job has failed: its ranks end at once, and need not save what they have. */
void agent_child_fail (const struct agent_child *child, int signal);

/** The head's terminal has another size. */
void agent_child_resize (const struct agent_child *child, const struct job_spec *spec);

/** Standard input for it; @p length 0: its end. */
void agent_child_feed (struct agent_child *child, const char *bytes, size_t length);

/** No process reads standard output: ranks have to notice when they write, also those that are started again. */
void agent_child_lose_reader (struct agent_child *child);

/** What to wait for.  @param is_lost  no process reads the output */
void agent_child_poll (const struct agent_child *child, struct pollfd fds[AGENT_CHILD_FDS], bool is_lost);

/** We have slept for @p ms longer than we wanted, and so may have the launcher: be as patient. */
void agent_child_forgive (struct agent_child *child, int64_t ms);

/** Kill the launcher and all processes below it, and wait for that, for a limited time. */
void agent_child_kill_all (struct agent_child *child);

/** When it has something to do although nothing has happened; INT64_MAX: never. */
int64_t agent_child_deadline (const struct agent_child *child);

/** Append what has happened to @p out, as frames; NULL: it is not needed. */
void agent_child_take (struct agent_child *child, const struct pollfd fds[AGENT_CHILD_FDS], struct strbuf *out);

#endif
