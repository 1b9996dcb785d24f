/* SPDX-License-Identifier: Apache-2.0 */
/* Times in answers and files. */
#ifndef AWS_WHEN_H
#define AWS_WHEN_H

#include <stdint.h>

/** Read "2026-11-23T04:40:06Z", also with a fraction, "+00:00" or "UTC".
 *  @return seconds since 1970; -1: not such a text */
int64_t when_iso (const char *text);

/** Read a Date header: "Mon, 23 Nov 2026 04:40:06 GMT".  @return the same */
int64_t when_http (const char *text);

#endif
