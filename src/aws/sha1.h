/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1 (FIPS 180-4): Amazon's tools name files of the SSO cache with it. Nothing here relies on it for security. */
#ifndef AWS_SHA1_H
#define AWS_SHA1_H

#include <stddef.h>

enum { SHA1_TEXT = 41 };

/** Write the hash as hexadecimal digits. */
void sha1_text (const void *bytes, size_t length, char text[SHA1_TEXT]);

#endif
