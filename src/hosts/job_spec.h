/* SPDX-License-Identifier: Apache-2.0 */
/* What the head sends to each agent so that it can start its part of the job: settings with their origins, the program,
 * the folder and the environment. */
#ifndef HOSTS_JOB_SPEC_H
#define HOSTS_JOB_SPEC_H

#include "config/values.h"
#include "hosts/net/wire.h"
#include "launch/plan/plan.h"

/** What the agent should know about the head besides. */
struct job_spec {
    struct config config;      /* its program_args are those of `arguments` */
    struct strlist arguments;
    struct strlist environment; /* NAME=VALUE, over that of the agent */
    char *folder;
    bool is_terminal[2]; /* the head's standard output, standard error */
    bool has_input;   /* the first host gets WIRE_IN */
    bool is_one_file;    /* both are the same */
    int columns, rows;   /* of the terminal */
    int64_t timeout_ms;  /* after which a side that is not heard of is lost */
    char *proxies;       /* where the agent listens for MPI proxies; NULL: there are none */
    int64_t host;        /* number of the agent's host, from 0 */
    char job_id[PLAN_JOB_ID_BYTES];
};

/** Set rows and columns to the size that the terminal has now. */
void job_spec_find_size (struct job_spec *spec);

/** Describe what this process sees: the job of @p config, whose parts stay the caller's, folder, environment, terminal.
 *  @param[out] spec  for job_spec_release(), after its config has been cleared */
int job_spec_fill (struct job_spec *spec, const struct config *config, struct fail *fail);

/** Append @p spec as a frame WIRE_JOB. */
void job_spec_put (struct strbuf *out, const struct job_spec *spec);

/** @param[out] spec  for job_spec_release() */
int job_spec_take (struct job_spec *spec, struct wire_frame *frame, struct fail *fail);

/** Whether variable @p item (NAME=VALUE) is passed to other hosts: not if it describes this host, this login or this
 * shell. */
bool job_spec_sends (const char *item);

void job_spec_release (struct job_spec *spec);

#endif
