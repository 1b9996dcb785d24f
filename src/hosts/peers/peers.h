/* SPDX-License-Identifier: Apache-2.0 */
/* The launchers of a job that was started by hand, one on each machine, watch over each other: the one of machine 0
 * listens, the others connect, and each tells what becomes of its part.  So all know within seconds of a failure where
 * it was, whichever machine, launcher or link fails.
 *
 * Machine 0 listens at the first free one of a few ports; the others try these at --main_process_ip.  They share a
 * key (job_key.c).  No start waits for a connection: a job whose launchers do not reach each other runs all the same,
 * with a note. */
#ifndef HOSTS_PEERS_PEERS_H
#define HOSTS_PEERS_PEERS_H

#include "config/values.h"
#include "hosts/root_cause.h"
#include "launch/job/job.h"
#include "util/fail.h"

struct peers;

/**
 * Prepare the watch over other machines, before the launcher splits.
 *
 * @param[out] peers  NULL if there are no other machines, or another launcher starts the ranks
 * @return 0; -1 with @p fail set: the key that the user has named cannot be used
 */
int peers_create (struct peers **peers, const struct config *config, const struct plan *plan, struct fail *fail);

/** In the supervisor: begin to listen, or to connect.  What fails here is reported in a note later. */
void peers_begin (struct peers *peers);

/** Before each attempt but the first one.  NULL: nothing happens. */
void peers_restart (struct peers *peers);

/** Tell the other launchers that this one starts nothing, because of @p error; waits a few seconds at most, and prints
 * nothing.  Also for jobs on one machine, where it does nothing. */
void peers_tell_error (const struct config *config, const struct fail *error);

/** The same after peers_begin(), for an attempt that could not start.  NULL: nothing happens. */
void peers_tell (struct peers *peers, const struct fail *error);

/** For job_run(); NULL for NULL. */
struct job_peers *peers_hook (struct peers *peers);

/** After job_run().  @return NULL for NULL, or if only this machine's part is known or is to blame */
const struct job_outcome *peers_outcome_of_other (const struct peers *peers);

/** Append, to this machine's own report, which ranks on other machines may have been the first to fail. */
void peers_add_simultaneous (const struct peers *peers, struct strbuf *out);

/** Whether other launchers take part; then machine 0 decides on restarts. */
bool peers_has_others (const struct peers *peers);

/** Whether all machines start their ranks again. */
bool peers_starts_again (const struct peers *peers);

/** Take what could not be printed through the job's output any more.  @return to be freed; NULL: nothing */
char *peers_take_rest (struct peers *peers);

/** Accepts NULL. */
void peers_destroy (struct peers *peers);

#endif
