/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials, as signatures use them. */
#ifndef AWS_KEYS_H
#define AWS_KEYS_H

#include "util/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t;

/** All zero: no keys. */
struct keys {
    char *access_key;
    char *secret_key;
    char *session_token; /* NULL: the keys are a user's */
    int64_t expires;     /* seconds since 1970; 0: never */
};

/** Overwrites them. Accepts all zero. */
void keys_release (struct keys *keys);

/** Overwrite a text and free it. Accepts NULL. */
void keys_wipe (char *text);

/** Copy texts into @p keys, which is all zero before. Fails if one cannot be a key: control characters, blanks. */
int keys_set (struct keys *keys, const char *access_key, const char *secret_key, const char *session_token,
              struct fail *fail);

/** Read a JSON object.  @return for json_decref(); NULL with @p fail set: "WHAT is not a JSON object" */
struct json_t *keys_parse (const char *text, size_t length, const char *what, struct fail *fail);

/** What the members of a JSON object with credentials are called. */
struct keys_names {
    const char *access_key, *secret_key, *session_token, *expires;
};

extern const struct keys_names keys_names_process;  /* of credential_process */
extern const struct keys_names keys_names_metadata; /* of containers and instances */
extern const struct keys_names keys_names_sso;

/** Read an object. Messages name members, never values. */
int keys_from_json (struct keys *keys, const struct json_t *json, const struct keys_names *names, struct fail *fail);

#endif
