/* SPDX-License-Identifier: Apache-2.0 */
/* ~/.aws/config and ~/.aws/credentials: sections of "name = value", as Amazon's tools (botocore) read them. */
#ifndef AWS_PROFILES_H
#define AWS_PROFILES_H

#include "util/fail.h"

#include <stdbool.h>
#include <stddef.h>

/** What a section of the configuration file is for; "[NAME]" of the credentials file is a profile. */
enum profiles_kind { PROFILES_PROFILE, PROFILES_SSO_SESSION, PROFILES_SERVICES, PROFILES_OTHER };

/** A line "name = value". In "services", an indented line below "s3 =" is named "s3.endpoint_url". */
struct profiles_row {
    enum profiles_kind kind;
    char *section; /* "default" */
    char *name;    /* in lower case; "" says that there is a section */
    char *value;
};

/** A file that was read. All zero is an empty one. */
struct profiles {
    char *path; /* for messages */
    struct profiles_row *rows;
    size_t count;
};

/** Read a file. One that does not exist is empty. */
int profiles_read (struct profiles *profiles, const char *path, bool is_credentials, struct fail *fail);

/** Read a text. @param path  for messages: "PATH:LINE: ..." */
int profiles_parse (struct profiles *profiles, const char *path, const char *text, size_t length, bool is_credentials,
                    struct fail *fail);

/** @return the last value of this name, which may be empty; NULL: there is none. @param name  "": any, if there is the
 *          section */
const char *profiles_get (const struct profiles *profiles, enum profiles_kind kind, const char *section,
                          const char *name);

/** Values are overwritten: they may be keys. */
void profiles_release (struct profiles *profiles);

#endif
