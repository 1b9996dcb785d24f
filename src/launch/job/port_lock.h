/* SPDX-License-Identifier: Apache-2.0 */
/* The right to a TCP port of this host, for as long as a job lives.
 *
 * Rank 0 listens at MASTER_PORT only after its imports, seconds after the launcher has chosen the port.  To keep the
 * port bound until then would lock out programs that bind without SO_REUSEADDR.  So a job holds a lock instead: a
 * listening Unix socket with an abstract name made of the port's number.  Such names are as wide as ports are, one
 * network namespace; only one process can have each, whichever user it is; and the kernel takes it back when the last
 * holder has died, however it died.  Guardian and supervisor both hold it, ranks never do.
 *
 * Only launches of this command look at these locks.  Against all others, a port is chosen that the kernel does not
 * hand out by itself, to connections or to listeners that ask for any port. */
#ifndef LAUNCH_JOB_PORT_LOCK_H
#define LAUNCH_JOB_PORT_LOCK_H

#include "config/values.h"
#include "launch/machine/topology.h"
#include "util/fail.h"

#include <stdbool.h>

struct port_lock {
    int fd;    /* close-on-exec; -1: none */
    int error; /* of the last attempt: EADDRINUSE: another launch holds it; others: no launch can lock one here */
};

#define PORT_LOCK_NONE { .fd = -1 }

/** Lock @p port, whether or not a process listens there.  @return 0, or -1 with `error` set */
int port_lock_take (struct port_lock *port_lock, int port);

/** Accept and close waiting connections of launches that ask who holds @p fd, a limited number per call.  Otherwise the
 * queue fills up, and the next launch gets no answer. */
void port_lock_answer (int fd);

/** Say which process has locked @p port: "user alice, pid 4711 (accelerate launch train.py)".
 *  @return false if it cannot be a launch: it has only taken the name, as any process can */
bool port_lock_describe_holder (int port, char *text, size_t size);

/**
 * Lock the port of the job that is about to be planned, and note in @p topology what the plan has to know of it: which
 * other port to use instead of the usual one, or that a process already listens at the one that was given.
 *
 * @return 0, also if the job needs no port here; -1 if another job has locked the one that it needs
 */
int port_lock_for_job (struct port_lock *port_lock, struct topology *topology, const struct config *config,
                       struct fail *fail);

/** Accepts PORT_LOCK_NONE. */
void port_lock_release (struct port_lock *port_lock);

#endif
