/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a running job for a checkpoint, and seeing from outside that it has saved. */
#ifndef LAUNCH_WATCH_SAVES_H
#define LAUNCH_WATCH_SAVES_H

#include "launch/watch/jobs.h"

/**
 * Ask.  Does not wait.
 *
 * @param[out] before  [rank_count] how often each rank had saved before, for watch_saves_are_complete()
 * @return 0, or -1 with @p fail, the reason alone: its program does not look at requests, so nothing was asked
 */
int watch_saves_ask (const struct watch_job *job, uint32_t *before, struct fail *fail);

/** @return whether all ranks of this host have saved since */
bool watch_saves_are_complete (const struct watch_job *job, const uint32_t *before);

#endif
