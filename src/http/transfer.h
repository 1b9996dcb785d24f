/* SPDX-License-Identifier: Apache-2.0 */
/* The attempts and redirects of one request.  client.c runs many. */
#ifndef HTTP_TRANSFER_H
#define HTTP_TRANSFER_H

#include "http/attempt.h"

/** Set up the next attempt on an easy handle.  @return 0; -1: it has ended without an answer */
int transfer_start (struct transfer *transfer);

/** An attempt is over: sets the state, and the pause if there is another one. */
void transfer_stop (struct transfer *transfer, CURLcode code);

void transfer_release (struct transfer *transfer);

#endif
