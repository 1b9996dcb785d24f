/* SPDX-License-Identifier: Apache-2.0 */
/* The token of 'aws sso login', which is kept in ~/.aws/sso/cache. */
#ifndef AWS_SSO_TOKEN_H
#define AWS_SSO_TOKEN_H

#include "aws/state.h"

/** Whose token it is: values of the profile or of its sso-session. */
struct sso_login {
    const char *profile;
    const char *session; /* "[sso-session NAME]"; NULL: all is in the profile, and the token cannot be renewed */
    const char *url, *region;
};

/**
 * Read the token. One that ends within 15 minutes is renewed, as Amazon's tools do, and the file is replaced.
 *
 * @param[out] token  for keys_wipe()
 */
int sso_token_find (struct aws *aws, const struct sso_login *login, char **token, struct fail *fail);

/** Say why there is no token, and how to get one.  @return -1 */
int sso_token_refuse (const struct sso_login *login, const char *why, struct fail *fail);

#endif
