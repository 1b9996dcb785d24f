/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a launcher among others.  crew_state.c has what is known of machines, crew_peer.c connections,
 * crew_main.c machine 0's part, crew_member.c that of the others, crew.c what all do in each turn. */
#ifndef HOSTS_CREW_STATE_H
#define HOSTS_CREW_STATE_H

#include "hosts/blame.h"
#include "hosts/crew_verdict.h"
#include "hosts/pipe.h"
#include "hosts/seal.h"
#include "launch/job.h"

#include <sys/socket.h>

enum {
    CREW_GREETING_MS = 5000, /* for a connection until its launcher is known */
    CREW_SETTLE_MS = 1500,   /* from the start on: a failure waits so long for connections that are being made */
    CREW_JUDGE_MS = 2500,    /* after a failure, for all machines to say whether they had an earlier one */
    CREW_CAUSE_MS = 1500,    /* for ranks that were ending when the first failure was seen, and may be its cause */
    CREW_FLUSH_MS = 1000,    /* for the last frames */
    CREW_LONGEST_MS = 86400000, /* of --host_timeout */
    CREW_VERDICT_MS = 4500,  /* for machine 0's verdict on a failure of ours */
    CREW_EXTRA_MS = 15000,   /* beyond the grace period, for all machines to end their ranks */
    CREW_ADDRESSES = 4,
    CREW_PORTS = 8, /* that are tried */
    CREW_WHY_LASTS = 3, /* weight of a reason that somebody has to remove */
};

enum crew_machine_state {
    MACHINE_ABSENT, /* its launcher has not connected */
    MACHINE_JOINED,
    MACHINE_ENDED, /* its part is over */
    MACHINE_LOST,
};

/** What is known of a machine's part. */
struct crew_machine {
    enum crew_machine_state state;
    char *host;
    int first_rank, ranks;
    bool has_answered; /* no rank there had failed before those here were told to end */
    int64_t failed_ns; /* our clock; 0: it has not failed */
    enum wire_end end;
    int status;
    char *text, *json; /* its report; may be NULL */
};

/** A connection.  Machine 0 has one for each other launcher, and a few of unknown ones; these have one at most. */
struct crew_peer {
    struct crew_peer *next;
    struct pipe_end pipe;
    struct seal seal;
    struct strbuf frame;          /* the last one */
    struct crew_machine *machine; /* NULL: not known yet */
    int64_t until_ms;             /* when it is closed; INT64_MAX: silence decides */
    int64_t beat_ms, beats;       /* the next one; so far */
    int64_t trip_ns;              /* the shortest round trip; 0: none yet */
    bool is_connecting;
    bool is_leaving; /* closed once all is written */
    bool is_welcomed; /* machine 0: by us; others: we have asked to join */
    bool has_acknowledged; /* the verdict */
    bool is_dead;
    bool is_write_watched;
    char name[64]; /* address and port of the other side */
};

/** How a launcher other than machine 0's gets its connection. */
struct crew_dial {
    struct sockaddr_storage addresses[CREW_ADDRESSES];
    socklen_t lengths[CREW_ADDRESSES];
    int count;        /* of addresses; 0: not resolved */
    int next;         /* of count * CREW_PORTS attempts in this round */
    int resolver;     /* a thread writes addresses there; -1: none */
    int64_t again_ms; /* when to begin another round; 0: now */
    int rounds;
    int weight;       /* of crew->why */
};

struct crew {
    struct job_crew hook; /* first: it is what the supervisor knows of us */
    const struct settings *settings;
    const struct plan *plan;
    struct seal_key *key; /* of sodium_malloc() */
    int machine, machines, port;
    int64_t timeout_ms, start_ms, turn_ms;
    int epoll;
    int listener; /* -1: none */
    struct crew_machine *all; /* machine 0: [machines]; others: one, their own */
    struct crew_machine *own;
    struct blame *blames; /* as many, for the verdict */
    struct crew_peer *peers;
    struct crew_dial dial;
    bool is_asked;   /* by machine 0: whether a rank has failed here */
    bool has_joined; /* machine 0: another launcher has; others: machine 0 has taken us */
    int noted;       /* weight of the reason that the note gave that there is no connection; -1: no note yet */
    char why[512];   /* there is none; "" */
    char *main_host; /* as machine 0 names itself */
    int64_t judge_ms; /* machine 0: when to say at the latest who is to blame; 0: nobody is */
    int64_t over_ms;  /* when our own part was over; 0: it is not */
    int64_t verdict_ms; /* when the verdict was known */
    struct crew_verdict verdict, last; /* last: of the attempt before a restart, until the next one runs */
    struct strbuf to_say;
    int64_t restarts;
    bool again;
};

/* crew_peer.c */

/** Take over @p fd.  @return NULL without memory, and the descriptor is closed */
struct crew_peer *crew_peer_add (struct crew *crew, int fd, bool is_connecting);

/** The next frame; see wire_next().  @return -1: the peer is dead, and crew->why says why */
int crew_peer_next (struct crew *crew, struct crew_peer *peer, struct wire_frame *frame);

/** Send a frame. */
void crew_peer_put (struct crew_peer *peer, const struct strbuf *frame);
void crew_peer_put_number (struct crew_peer *peer, enum wire_type type, int64_t number);

/** Send whether and how @p machine has failed, or ended. */
void crew_peer_put_failure (struct crew_peer *peer, enum wire_type type, const struct crew_machine *machine);

/** Write what can be written, and have epoll watch for the rest. */
void crew_peer_flush (struct crew *crew, struct crew_peer *peer);

/** Whether all that was sent to peers is written. */
bool crew_is_flushed (const struct crew *crew);

/** Free the dead. */
void crew_bury (struct crew *crew);
void crew_peer_release (struct crew_peer *peer);

/* crew_state.c */

/** The first of the ports at which machine 0 listens for the other launchers; @p port is that of rank 0. */
int crew_first_port (int port);

/** Remember why there is no connection, unless something weightier is known. */
void crew_set_why (struct crew *crew, int weight, const char *why, ...) __attribute__ ((format (printf, 3, 4)));

/** Note that @p machine has failed; the first time counts.  Texts are copied. */
void crew_set_failure (struct crew_machine *machine, int64_t failed_ns, enum wire_end end, int status,
                       const char *text, const char *json);

struct blame crew_blame_of (const struct crew_machine *machine);

/** Append "host2 (machine 1, ranks 2-3)". */
void crew_add_machine (const struct crew_machine *machine, int number, struct strbuf *out);

/** A machine of which nothing more will be heard. */
void crew_lose (struct crew *crew, struct crew_machine *machine, int number, int64_t heard_ms, const char *why);

/** Take the verdict, unless there is one, and say it if another machine is to blame.  Texts are copied. */
void crew_set_verdict (struct crew *crew, const struct crew_verdict *verdict);

void crew_release_verdict (struct crew_verdict *verdict);

/** Forget how @p machine has ended. */
void crew_reset_machine (struct crew_machine *machine);

/** All machines begin anew. */
void crew_reset (struct crew *crew);

/** Whether a failure of @p end may be followed by another start of all ranks. */
bool crew_may_start_again (const struct crew *crew);

/** When our own part was over and the verdict known; ms. */
int64_t crew_settled_ms (const struct crew *crew);

/* crew.c */

/** Append to the verdict, as it will be said, the rank of ours that was the first to fail here: it is a victim of the
 * one that is to blame, unless the verdict says that it may have been first. */
void crew_add_victim (struct crew *crew, const struct job *job);

/* crew_main.c and crew_member.c */

void crew_main_begin (struct crew *crew);
void crew_main_accept (struct crew *crew);
void crew_main_welcome (struct crew *crew, struct crew_peer *peer);
void crew_main_take (struct crew *crew, struct crew_peer *peer, struct wire_frame *frame);
void crew_main_lose (struct crew *crew, struct crew_peer *peer, const char *why);
/** @param is_hasty  nobody wants to wait for messages that are on their way */
void crew_main_think (struct crew *crew, bool is_hasty);
bool crew_main_is_over (struct crew *crew);
bool crew_main_is_told (const struct crew *crew, int64_t now);

void crew_member_take (struct crew *crew, struct crew_peer *peer, struct wire_frame *frame);
void crew_member_lose (struct crew *crew, struct crew_peer *peer, const char *why);
void crew_member_dial (struct crew *crew);
void crew_member_resolved (struct crew *crew);
void crew_member_think (struct crew *crew);
bool crew_member_is_over (struct crew *crew);

#endif
