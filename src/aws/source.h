/* SPDX-License-Identifier: Apache-2.0 */
/* Places where credentials can be; call.c says in which order they are asked. */
#ifndef AWS_SOURCE_H
#define AWS_SOURCE_H

#include "aws/state.h"

/** What every source returns: this one has none, has some, or fails (-1) with @p fail set. */
enum { SOURCE_NONE = 0, SOURCE_FOUND = 1 };

/** What was found. All zero before; for found_release(). */
struct found {
    struct keys keys;
    struct strbuf source; /* in words: "profile 'work' (/root/.aws/credentials)" */
};

void found_release (struct found *found);

/** @return SOURCE_FOUND with the words set; -1 if @p result is a failure or there is no memory */
int found_end (struct found *found, int result, struct fail *fail, const char *format, ...)
    __attribute__ ((format (printf, 4, 5)));

/** AWS_ACCESS_KEY_ID and its fellows */
int source_variables (struct aws *aws, struct found *found, struct fail *fail);

/** Keys of a profile in the credentials file, or else in the configuration file */
int source_file (struct aws *aws, const struct profiles *file, const char *profile, struct found *found,
                 struct fail *fail);

/** credential_process: a program, started without a shell */
int source_process (struct aws *aws, const char *profile, struct found *found, struct fail *fail);

/** A session of 'aws sso login', from its cache */
int source_sso (struct aws *aws, const char *profile, struct found *found, struct fail *fail);

/** AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI */
int source_container (struct aws *aws, struct found *found, struct fail *fail);

/** The role of the EC2 instance that this is; not one: SOURCE_NONE after a second */
int source_instance (struct aws *aws, struct found *found, struct fail *fail);

/** A role for an identity token in a file. @param session  its name, or NULL */
int source_web_identity (struct aws *aws, const char *token_file, const char *role, const char *session,
                         struct found *found, struct fail *fail);

/** The role of a profile, taken with other credentials. */
int source_role (struct aws *aws, const char *profile, const struct found *by, struct found *found, struct fail *fail);

/** Take credentials from the JSON of a server. @param what  for messages */
int source_read_json (const struct http_response *response, const struct keys_names *names, const char *member,
                      const char *what, struct keys *keys, struct fail *fail);

#endif
