/* SPDX-License-Identifier: Apache-2.0 */
/* What the head sends to each agent so that it can start its part of the job: settings with their origins, the program,
 * the folder and the environment. */
#ifndef HOSTS_PARCEL_H
#define HOSTS_PARCEL_H

#include "config/values.h"
#include "hosts/wire.h"

/** What the agent should know about the head besides. */
struct parcel {
    struct config config;      /* its program_args are those of `arguments` */
    struct strlist arguments;
    struct strlist environment; /* NAME=VALUE, over that of the agent */
    char *folder;
    bool is_terminal[2]; /* the head's standard output, standard error */
    bool has_input;   /* the first host gets WIRE_IN */
    bool is_one_file;    /* both are the same */
    int columns, rows;   /* of the terminal */
    int64_t timeout_ms;  /* after which a side that is not heard of is lost */
    char *standins;      /* where the agent listens for stand-ins; NULL: there are none */
    int64_t host;        /* number of the agent's host, from 0 */
};

/** Set rows and columns to the size that the terminal has now. */
void parcel_find_size (struct parcel *parcel);

/** Describe what this process sees: the job of @p config, whose parts stay the caller's, folder, environment, terminal.
 *  @param[out] parcel  for parcel_release(), after its config has been cleared */
int parcel_fill (struct parcel *parcel, const struct config *config, struct fail *fail);

/** Append @p parcel as a frame WIRE_JOB. */
void parcel_put (struct strbuf *out, const struct parcel *parcel);

/** @param[out] parcel  for parcel_release() */
int parcel_take (struct parcel *parcel, struct wire_frame *frame, struct fail *fail);

/** Whether variable @p item (NAME=VALUE) is passed to other hosts: not if it describes this host, this login or this
 * shell. */
bool parcel_sends (const char *item);

void parcel_release (struct parcel *parcel);

#endif
