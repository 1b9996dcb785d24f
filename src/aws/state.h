/* SPDX-License-Identifier: Apache-2.0 */
/* What all files of this folder know. */
#ifndef AWS_STATE_H
#define AWS_STATE_H

#include "aws/aws.h"
#include "aws/keys.h"
#include "aws/profiles.h"

#include <sys/resource.h>

struct aws {
    struct http *http;            /* NULL: no request was made so far */
    struct http_options options;
    char *region;                 /* or NULL */
    char *profile;                /* "default" */
    bool names_profile;           /* the caller does, not a variable */
    struct keys given;            /* by the caller */
    struct profiles config, credentials;
    struct keys keys;             /* found */
    struct strbuf source;         /* where; empty: not yet found */
    char *account, *arn;          /* who we are, or NULL */
    struct rlimit core;           /* of core dumps, before aws_open() */
    bool was_dumpable;            /* the limit does not count where they go to a program */
};

/** Whatever an environment variable has, unless it is empty. */
const char *state_variable (const char *name);

/** @return a value of a profile, from the credentials file or else the configuration file; NULL if it is empty, too */
const char *state_profile_value (const struct aws *aws, const char *profile, const char *name);

/** Read ~/.aws/config and ~/.aws/credentials, perhaps again. A failure changes nothing. */
int state_read_files (struct aws *aws, struct fail *fail);

/** Load libcurl, on the first call. */
int state_connect (struct aws *aws, struct fail *fail);

#endif
