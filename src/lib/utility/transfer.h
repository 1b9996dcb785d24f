/* SPDX-License-Identifier: Apache-2.0 */
/* The line that says how far a save or a load is. */
#ifndef LIB_UTILITY_TRANSFER_H
#define LIB_UTILITY_TRANSFER_H

#include "lib/checkpoint/io_progress.h"

/**
 * Write to standard error if the transfer takes more than a second: on a terminal one line that is redrawn, elsewhere a
 * line after the first second, one every ten seconds and one at the end.
 */
void transfer_show (struct io_progress *progress, enum io_progress_event event);

#endif
