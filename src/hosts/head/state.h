/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the head; head.c has its loop, startup.c what comes before the ranks start, standby.c an mpirun that
 * waits for a restart, outcome.c the end, input.c what rank 0 reads. */
#ifndef HOSTS_HEAD_STATE_H
#define HOSTS_HEAD_STATE_H

#include "hosts/head/link.h"
#include "hosts/head/watch.h"
#include "hosts/job_spec.h"
#include "hosts/mpi/mpi.h"
#include "hosts/net/address.h"
#include "hosts/root_cause.h"
#include "launch/job/status.h"
#include "launch/report/report.h"
#include "util/io.h"

/** Standard input of the head, which rank 0 reads on the first host. */
struct input {
    int fd;           /* -1: rank 0 gets none */
    bool is_terminal;
    bool has_ended;
    bool is_end_sent; /* to the ranks that run now */
    int64_t sent;     /* bytes, to these ranks */
};

enum head_phase {
    HEAD_CONNECT, /* agents are being started */
    HEAD_START_MPI, /* MPI proxies of the ranks are being started, if they are to be processes of MPI */
    HEAD_ADDRESS, /* an address and a port for rank 0 are looked for */
    HEAD_RUN,     /* ranks run, or are ending */
};

#define HEAD_FAILURES(hosts) (2 * (size_t) (hosts))
#define HEAD_LINKS(head) ((const struct links){ (head)->links, sizeof *(head)->links, (head)->count })

struct head {
    struct hosts *hosts;
    struct job_spec spec;
    struct io_target report; /* of --failure_report; no path: none was asked for */
    struct link *links; /* [count], in the order of hosts->list */
    size_t most;        /* how many links there is room for: all hosts that were named */
    struct failure *failures; /* [HEAD_FAILURES (count)], of outcome_find(): of hosts, then of their processes of MPI */
    struct link *mpi; /* of outcome_find(): its process of MPI is to blame, and no rank; NULL: none */
    int count;
    enum head_phase phase;
    struct output_sink sinks[LINK_STREAMS];
    struct output_sink *sink_of[LINK_STREAMS];
    struct labels labels;
    struct status status;
    bool has_reader; /* of standard output, as far as the agents know */
    struct input input;
    struct head_watch watch;
    int signal_fd;
    struct mpi_launcher mpi_launcher;
    struct mpi_launcher standby; /* of the next start; or the one before, while it ends */
    int64_t standby_ms; /* when to start it; INT64_MAX: not now */
    int64_t standby_begun_ms; /* when it was started */
    int64_t mpi_starts; /* of mpirun, so far: the number of the latest one's attempt */
    int64_t mpi_start_ms; /* when all MPI proxies must have come */
    int64_t await_ms;  /* until when the end of mpirun is waited for; 0: it is not */
    int64_t heartbeat_ms; /* when to send the next heartbeats */
    int64_t heartbeats; /* so far */
    int64_t turn_ms;   /* when the loop last came round */
    int64_t limit_ms;  /* when all hosts must have ended; INT64_MAX: no limit yet */
    int signal;        /* that ended the job; 0: none */
    int64_t signal_ns; /* when it came */
    int64_t stop_ms;   /* when the time of the job is over; 0: never, or it is */
    const char *stop_reason; /* what counts instead of `signal`, which hosts got; static, or a link's; NULL: nothing */
    int64_t restarts;
    struct report_attempts attempts; /* that have failed */
    double started_s; /* since 1970 */
    const char *address; /* for MASTER_ADDR; one of the first link's, or NULL with a single host */
    char copies_key[ADDRESS_TOKEN_BYTES]; /* for copies of checkpoints in memory, in this start of the ranks */
    bool is_reach_asked; /* the other hosts have been told where rank 0 listens */
    struct link *asking; /* SSH may ask the user for this host; NULL: none */
};

/** Do what can be done before the ranks start.  @return 0, or -1 with @p fail set: the job cannot start */
int startup_advance (struct head *head, struct fail *fail);

/** The ranks have started: decide when to start a standby, if any. */
void standby_plan (struct head *head);

/** Start it when it is time to, and collect one that has ended. */
void standby_turn (struct head *head);

/** @return when standby_turn() has something to do although nothing happens; INT64_MAX: never */
int64_t standby_due (const struct head *head);

/** Make it the MPI launcher of this start, and let the one before end in its place.  @return false: there is none */
bool standby_take (struct head *head);

/** End it: the hosts are not the same any more, or the job is over. */
void standby_drop (struct head *head);

/** Whether the ranks can start again if the lost hosts are left out. */
bool survivors_are_enough (const struct head *head);

/** Leave the lost hosts out, and divide the ranks among the others and those that had none.
 *  @param[out] text  what that means, for the line that says that the ranks start again
 *  @return 0, or -1 with @p fail */
int survivors_go_on (struct head *head, struct strbuf *text, struct fail *fail);

/** How long a connection, or the start of mpirun, may take. */
int64_t startup_connect_ms (const struct job_spec *spec);

/** Whether SSH has failed where it was not allowed to ask, and there is a user whom it could. */
bool startup_may_ask (const struct link *link);

/** Start it once more, so that it may ask: for one host at a time, because two questions at once could not be told
 * apart. */
int startup_ask_again (struct link *link, const struct hosts *hosts, struct fail *fail);

/** Whether the rank of @p cause ended because mpirun, or its daemon there, did: then mpirun is to blame if it ended by
 * itself. */
bool outcome_may_be_mpi (const struct head *head, const struct link *cause);

/** Whether the ranks of a host have stopped as they were asked to, not by us: then those of all others do, too. */
bool outcome_has_stopped (const struct link *link);

/** Whether they all have because one of them was asked to, so they may start again.  False if hosts have a reason of
 * their own, such as the end of a Slurm job. */
bool outcome_may_go_on (const struct head *head);

/** The host to which the end of the job is due: where a rank failed first, the first that was lost, or where a process
 * of MPI ended that ranks needed; NULL: none. */
struct link *outcome_find (struct head *head);

/** What the job exits with. */
int outcome_status (const struct head *head, const struct link *cause);

/** Append the report, as text; after outcome_find(). */
void outcome_text (const struct head *head, const struct link *cause, struct strbuf *out);

/** The same as JSON. */
int outcome_json (const struct head *head, const struct link *cause, struct strbuf *out, struct fail *fail);

/** Of a job that could not start, because of @p error. */
int outcome_json_error (const struct head *head, const struct fail *error, struct strbuf *out, struct fail *fail);

/** @param is_wanted  otherwise rank 0 reads /dev/null */
void input_init (struct input *input, bool is_wanted);

/** What to wait for so that input_pass_on() has something to do; -1: nothing.  @param link  to the first host */
int input_fd (const struct input *input, const struct link *link);

/** Send what has come to @p link. */
void input_pass_on (struct input *input, struct link *link);

/** Ranks are started again: they get what has not been sent yet. */
void input_restart (struct input *input, struct link *link);

#endif
