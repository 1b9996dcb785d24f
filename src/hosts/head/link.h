/* SPDX-License-Identifier: Apache-2.0 */
/* The head's connection to one agent: the process that carries it, what goes through it, and what is known of the
 * host. */
#ifndef HOSTS_HEAD_LINK_H
#define HOSTS_HEAD_LINK_H

#include "hosts/head/labels.h"
#include "hosts/list/hosts.h"
#include "hosts/net/wire.h"
#include "launch/output/sink.h"
#include "util/jobseg.h"

#include <sys/types.h>

enum link_state {
    LINK_CONNECTING, /* the agent has not greeted yet */
    LINK_GREETED,    /* and has got the job */
    LINK_READY,      /* and knows how many processes it would run */
    LINK_LISTENING,  /* the host of rank 0: has a port */
    LINK_REACHED,    /* the others: know which addresses they reach */
    LINK_RUNNING,    /* has been told to start its ranks */
    LINK_ENDED,      /* its launcher has ended */
    LINK_LOST,       /* nothing more will be heard of it; `why` says why */
};

enum { LINK_STREAMS = LABELS_STREAMS };

/** Frames of output that the readers of the head have not taken yet, in their order. */
struct link_output {
    struct strbuf bytes; /* of each: its kind, one byte; the length, 4 bytes; the text */
    size_t taken;
    size_t begun; /* of the text of the first frame that is left: passed on */
    struct labels_line lines[LINK_STREAMS];
};

struct link {
    const char *name; /* as the user named the host */
    char *host;       /* as it names itself; NULL until it has greeted */
    char *version;    /* of its agent, also if it is not ours; NULL until it has greeted */
    enum link_state state;
    pid_t pid;        /* of ssh, srun or the agent; 0: none */
    int wait_status;  /* of the last one */
    bool batch;       /* ssh must not ask */
    bool has_greeting;
    bool has_job;     /* it has been sent */
    int64_t attempt_ready; /* of mpirun, whose MPI proxies of all ranks of the host are there */
    bool has_started; /* its launcher runs */
    struct pipe_end pipe;
    int err;              /* what ssh says; -1: none */
    struct strbuf said;   /* of it, not printed yet */
    struct link_output output;
    int64_t acknowledged, passed_on; /* bytes of output */
    int64_t input_taken; /* bytes of input that the agent has passed on */

    int64_t ranks_found; /* of LINK_READY */
    int copies_port;     /* the same: where the host before it connects; 0: nowhere */
    struct strlist copies_addresses;
    int answers_due;     /* to WIRE_LISTEN and WIRE_REACH; all but the last belong to an earlier start of the ranks */
    int port;            /* of LINK_LISTENING */
    char *token;
    struct strlist addresses;
    bool *reached;       /* of LINK_REACHED, one for each address of the first host */
    size_t reached_count;

    int64_t round_trip_ns; /* of the quickest heartbeat; 0: none yet */
    int64_t offset_ns;     /* the agent's clock less ours, by that heartbeat */
    bool end_requested; /* to end its ranks */
    int64_t failed_ns; /* our clock; when a rank failed there, or the host was lost; 0: neither */
    int failed_rank;  /* -1: none */
    char *notice;     /* why all ranks are to save and stop, as in "ended WHY"; NULL: there is no reason */
    enum wire_end end; /* of LINK_ENDED */
    int status;
    char *report, *json;
    char why[512];    /* of LINK_LOST */

    /* The first process of MPI there that ended although ranks needed it. */
    int64_t mpi_ns;   /* our clock; 0: none has */
    bool mpi_is_daemon;
    int mpi_status;   /* 0: not known */
    char *mpi_why;

    /* What to do with WIRE_CHECKED; NULL: refuse it. */
    void (*take_checked) (struct link *link, struct wire_frame *frame);

    /* The same for WIRE_SAMPLED and WIRE_STACKED, where they go, and which ranks are there. */
    void (*take_sampled) (struct link *link, struct wire_frame *frame);
    void (*take_stacked) (struct link *link, struct wire_frame *frame);
    const struct jobseg *watched;
    int answers;
    int first_rank, ranks;
    bool is_sampled; /* no answer is due */
    uint32_t stacks_due; /* number of the question for stacks that waits for an answer; 0: none does */
    enum jobseg_host shown;
};

/** A link that does not run yet. */
void link_init (struct link *link, const char *name);

/** Start the process that carries the connection.  @return 0, or -1 with @p fail set */
int link_start (struct link *link, const struct hosts *hosts, struct fail *fail);

/** Take what has come in on `pipe.in`, and act on it as far as it concerns only this host. */
void link_read (struct link *link);

enum { LINK_LAST_READS = 16 }; /* of what SSH or mpirun has left behind; a process of theirs may keep the pipe open */

/** Collect the end of the process that carries the connection, if it has ended: then nothing more will be heard. */
void link_reap (struct link *link);

/** Take what ssh says. */
void link_read_err (struct link *link);

/** Nothing more will be heard of the host; @p why, printf-like, unless a reason is known already. */
void link_lose (struct link *link, const char *why, ...) __attribute__ ((format (printf, 2, 3)));

/** Whether there is output that a sink has not taken. */
bool link_has_output (const struct link *link);

/** Pass output on to @p sinks, as much as they take, and acknowledge it.
 *  @param labels  where lines are marked  @return whether all was accepted */
bool link_pass_on (struct link *link, struct output_sink *const sinks[LINK_STREAMS], struct labels *labels);

/** Send a heartbeat with our clock. */
void link_heartbeat (struct link *link);

/** Links of several hosts, in the order of the hosts, each a member of a larger struct or an element of an array. */
struct links {
    struct link *first;
    size_t stride; /* bytes from one to the next */
    int count;
};

static inline struct link *
links_at (const struct links *links, int i)
{
    return (void *) ((char *) links->first + (size_t) i * links->stride);
}

/** Ask the first host where rank 0 can listen, for a job of @p processes. */
void link_ask_for_port (struct link *link, int64_t processes);

/** Send all but the first where that one listens. */
void links_ask_who_reaches (const struct links *links);

/** @return the first address of the first host that all others reach, as far as they have answered; NULL: there is none
 *  @param[out] worst  then: a host that does not reach the one that most others reach */
const char *links_find_address (const struct links *links, const struct link **worst);

/** Close all, and wait for the processes that carry them: agents end when their connection does, and with them those.
 *  @param signal_fd  for SIGCHLD; -1: none */
void links_close (const struct links *links, int signal_fd);

/** End the process that carries the connection, at once, and release the link. */
void link_end (struct link *link);

void link_release (struct link *link);

#endif
