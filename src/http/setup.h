/* SPDX-License-Identifier: Apache-2.0 */
/* A request as options of libcurl. */
#ifndef HTTP_SETUP_H
#define HTTP_SETUP_H

#include "http/attempt.h"

/** Set all options of the next attempt.  @param left  ms until the deadline
 *  @return 0, or -1: transfer_fail() was called */
int setup (struct transfer *transfer, int64_t left);

#endif
