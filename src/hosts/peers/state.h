/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a launcher among others.  state.c has what is known of machines, peer.c connections,
 * coordinator.c machine 0's part, participant.c that of the others, notice.c that ranks are to save and stop,
 * peers.c what all do in each turn. */
#ifndef HOSTS_PEERS_STATE_H
#define HOSTS_PEERS_STATE_H

#include "hosts/net/channel.h"
#include "hosts/net/wire.h"
#include "hosts/root_cause.h"
#include "launch/job/job.h"
#include "util/fail.h"

#include <sys/socket.h>

enum {
    PEERS_GREETING_MS = 5000, /* for a connection until its launcher is known */
    PEERS_SETTLE_MS = 1500,  /* from the start on: a failure waits so long for connections that are being made */
    PEERS_DECIDE_MS = 2500,   /* after a failure, for all machines to say whether they had an earlier one */
    PEERS_CAUSE_MS = 1500,   /* for ranks that were ending when the first failure was seen, and may be its cause */
    PEERS_FLUSH_MS = 1000,   /* for the last frames */
    PEERS_LONGEST_MS = 86400000, /* of --host_timeout */
    PEERS_OUTCOME_MS = 4500, /* for machine 0's outcome on a failure of ours */
    PEERS_EXTRA_MS = 15000,  /* beyond the grace period, for all machines to end their ranks */
    PEERS_ADDRESSES = 4,
    PEERS_PORTS = 8, /* that are tried */
    PEERS_WHY_LASTS = 3, /* weight of a reason that a user has to remove */
};

enum peers_machine_state {
    MACHINE_ABSENT, /* its launcher has not connected */
    MACHINE_JOINED,
    MACHINE_ENDED, /* its part is over */
    MACHINE_LOST,
};

/** What is known of a machine's part. */
struct peers_machine {
    enum peers_machine_state state;
    char *host;
    int first_rank, ranks;
    bool has_answered; /* no rank there had failed before those here were told to end */
    int64_t failed_ns; /* our clock; 0: it has not failed */
    enum wire_end end;
    int status;
    char *text, *json; /* its report; may be NULL */
};

/** A connection.  Machine 0 has one for each other launcher, and a few of unknown ones; these have one at most. */
struct peer {
    struct peer *next;
    struct pipe_end pipe;
    struct channel channel;
    struct strbuf frame;          /* the last one */
    struct peers_machine *machine; /* NULL: not known yet */
    int64_t until_ms;             /* when it is closed; INT64_MAX: silence decides */
    int64_t heartbeat_ms, heartbeats; /* the next one; so far */
    int64_t trip_ns;              /* the shortest round trip; 0: none yet */
    bool is_connecting;
    bool is_leaving; /* closed once all is written */
    bool is_welcomed; /* machine 0: by us; others: we have asked to join */
    bool has_acknowledged; /* the outcome */
    bool is_dead;
    bool is_write_watched;
    char name[64]; /* address and port of the other side */
};

/** How a launcher other than machine 0's gets its connection. */
struct peers_dial {
    struct sockaddr_storage addresses[PEERS_ADDRESSES];
    socklen_t lengths[PEERS_ADDRESSES];
    int count;        /* of addresses; 0: not resolved */
    int next;         /* of count * PEERS_PORTS attempts in this round */
    int resolver;     /* a thread writes addresses there; -1: none */
    int64_t again_ms; /* when to begin another round; 0: now */
    int rounds;
    int weight;       /* of peers->why */
};

struct peers {
    struct job_peers hook; /* first: it is what the supervisor knows of us */
    const struct settings *settings;
    const struct plan *plan;
    struct channel_key *key; /* of sodium_malloc() */
    int machine, machines, port;
    int64_t timeout_ms, start_ms, turn_ms;
    int epoll;
    int listener; /* -1: none */
    struct peers_machine *all; /* machine 0: [machines]; others: one, their own */
    struct peers_machine *own;
    struct failure *failures; /* as many, for the outcome */
    struct peer *first; /* connection */
    struct peers_dial dial;
    bool is_asked;   /* by machine 0: whether a rank has failed here */
    char *notice;    /* hook.stop_reason, or NULL */
    char *wish;      /* for a notice, which waits until our own failure is told; NULL: none */
    bool has_stopped; /* so ours have stopped, or are about to: what has become of them is known at the end */
    bool has_joined; /* machine 0: another launcher has; others: machine 0 has taken us */
    int noted;       /* weight of the reason that the note gave that there is no connection; -1: no note yet */
    char why[512];   /* there is none; "" */
    char *main_host; /* as machine 0 names itself */
    int64_t decide_ms; /* machine 0: when to say at the latest which machine is to blame; 0: none is */
    int64_t over_ms;  /* when our own part was over; 0: it is not */
    int64_t outcome_ms; /* when the outcome was known */
    struct job_outcome outcome, last; /* last: of the attempt before a restart, until the next one runs */
    struct strbuf to_say;
    int64_t restarts;
    bool again;
};

/* peer.c */

/** Take over @p fd.  @return NULL without memory, and the descriptor is closed */
struct peer *peer_add (struct peers *peers, int fd, bool is_connecting);

/** The next frame; see wire_next().  @return -1: the peer is dead, and peers->why says why */
int peer_next (struct peers *peers, struct peer *peer, struct wire_frame *frame);

/** Send a frame. */
void peer_put (struct peer *peer, const struct strbuf *frame);
void peer_put_number (struct peer *peer, enum wire_type type, int64_t number);

/** Send whether and how @p machine has failed, or ended. */
void peer_put_failure (struct peer *peer, enum wire_type type, const struct peers_machine *machine);

/** Write what can be written, and have epoll watch for the rest. */
void peer_flush (struct peers *peers, struct peer *peer);

/** Whether all that was sent to peers is written. */
bool peers_is_flushed (const struct peers *peers);

/** Free the dead. */
void peers_remove_dead (struct peers *peers);
void peer_release (struct peer *peer);

/* state.c */

/** The first of the ports at which machine 0 listens for the other launchers; @p port is that of rank 0. */
int peers_first_port (int port);

/** Remember why there is no connection, unless something weightier is known. */
void peers_set_why (struct peers *peers, int weight, const char *why, ...) __attribute__ ((format (printf, 3, 4)));

/** Note that @p machine has failed; the first time counts.  Texts are copied. */
void peers_set_failure (struct peers_machine *machine, int64_t failed_ns, enum wire_end end, int status,
                        const char *text, const char *json);

struct failure peers_failure_of (const struct peers_machine *machine);

/** Append "host2 (machine 1, ranks 2-3)". */
void peers_add_machine (const struct peers_machine *machine, int number, struct strbuf *out);

/** A machine of which nothing more will be heard. */
void peers_lose (struct peers *peers, struct peers_machine *machine, int number, int64_t heard_ms, const char *why);

/** Take the outcome, unless there is one, and say it if another machine is to blame.  Texts are copied. */
void peers_set_outcome (struct peers *peers, const struct job_outcome *outcome);

void peers_release_outcome (struct job_outcome *outcome);

/** Forget how @p machine has ended. */
void peers_reset_machine (struct peers_machine *machine);

/** All machines begin anew. */
void peers_reset (struct peers *peers);

/** Whether a failure of @p end may be followed by another start of all ranks. */
bool peers_may_start_again (const struct peers *peers);

/** When our own part was over and the outcome known; ms. */
int64_t peers_settled_ms (const struct peers *peers);

/* notice.c */

/** Send peers, but not @p from, that all ranks are to save and stop.  NULL: all peers */
void peers_put_notice (struct peers *peers, const struct peer *from);

/** All ranks are to save and stop, because of @p why, copied; unless there is a reason already.
 *  @param from  who has said so; machine 0 tells the others.  NULL: this launcher, which tells all */
void peers_set_notice (struct peers *peers, const char *why, const struct peer *from);

/* peers.c */

/** Append to the outcome, as it will be said, the rank of ours that was the first to fail here: it is a victim of the
 * one that is to blame, unless the outcome says that it may have been first. */
void peers_add_victim (struct peers *peers, const struct job *job);

/* coordinator.c and participant.c */

void coordinator_begin (struct peers *peers);
void coordinator_accept (struct peers *peers);
void coordinator_welcome (struct peers *peers, struct peer *peer);
void coordinator_take (struct peers *peers, struct peer *peer, struct wire_frame *frame);
void coordinator_lose (struct peers *peers, struct peer *peer, const char *why);
/** @param skip_wait  do not wait for messages that are on their way */
void coordinator_decide (struct peers *peers, bool skip_wait);
bool coordinator_is_over (struct peers *peers);
bool coordinator_has_told_all (const struct peers *peers, int64_t now);

void participant_take (struct peers *peers, struct peer *peer, struct wire_frame *frame);
void participant_lose (struct peers *peers, struct peer *peer, const char *why);
void participant_dial (struct peers *peers);
void participant_resolved (struct peers *peers);
void participant_decide (struct peers *peers);
bool participant_is_over (struct peers *peers);

/* job_key.c: the secret that the launchers of a job share: the content of a file. */

/**
 * Read the key from @p file, or from the user's own file (path_of_job_key()).
 *
 * A file that other users may read is refused: its key is not a secret.
 *
 * @param file    of --job_key_file; NULL: the user's own
 * @param create  make a new key if the user's own file does not exist
 */
int job_key_read (struct channel_key *key, const char *file, bool create, struct fail *fail);

#endif
