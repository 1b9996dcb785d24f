/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that ask a process to save or to stop.  Their handlers only note the request. */
#ifndef LIB_UTILITY_REQUEST_SIGNALS_H
#define LIB_UTILITY_REQUEST_SIGNALS_H

#include "util/jobseg.h"

/** From now on, take those signals whose action is the default one.  Each call needs one of request_signals_leave(). */
void request_signals_take (void);

/** Give the signals back, unless other jobs of this process take them. */
void request_signals_leave (void);

/**
 * The job has failed once @p header asks for JOBSEG_END: then signals have their default action.
 *
 * @param header  mapped until the next call; NULL: no job
 */
void request_signals_follow (const struct jobseg_header *header);

/** @return what has been asked for since the last call, enum jobseg_request together. */
uint32_t request_signals_read (void);

#endif
