/* SPDX-License-Identifier: Apache-2.0 */
/* Passing on what ranks write, as a part of the supervisor's loop. */
#ifndef LAUNCH_JOB_RELAY_H
#define LAUNCH_JOB_RELAY_H

#include "launch/job/supervisor.h"

/** Read stream @p number (see ABOUT_STREAM), if it is open. */
void relay_read (struct supervisor *supervisor, int number);

/** The last words of rank @p index, before others write about their own end. */
void relay_read_rank (struct supervisor *supervisor, int index);

/** @return when relay_balance() has something to do though nothing happens; INT64_MAX: never */
int64_t relay_deadline (struct supervisor *supervisor, int64_t now_ms);

/** Write what our readers take, lines that stay unfinished included.  While they are slow, nothing more is read from
 * ranks without files; they wait, as they would have without us. */
void relay_balance (struct supervisor *supervisor);

/** Our terminal has another size: so have those of the ranks. */
void relay_resize (struct supervisor *supervisor);

/** No process of the job lives: read what is still there.  @return whether all of it has been passed on */
bool relay_finish (struct supervisor *supervisor);

/** @return whether output is left that waits for its reader, which causes an event by reading */
bool relay_awaits_reader (const struct supervisor *supervisor);

/** @return whether the readers have taken something since the last time */
bool relay_has_moved (struct supervisor *supervisor);

/** Count what has not been passed on, for the report. */
void relay_count_left (struct supervisor *supervisor);

#endif
