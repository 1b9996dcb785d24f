/* SPDX-License-Identifier: Apache-2.0 */
/* Being asked to save, or to save and stop, at a moment that is not known before: by a signal, a time limit, a
 * scheduler that wants the machine back, or a user.  All ranks learn it at the same step. */
#ifndef ACCEL_PREEMPTION_H
#define ACCEL_PREEMPTION_H

#include <accel/base.h>
#include <accel/state.h>

ACCEL_BEGIN_DECLS

/**
 * Whether the job has been asked to save since the last call that returned true.  The answer is the same on all ranks.
 * Collective: call it once per step, on all ranks, where a checkpoint may be saved.
 *
 * A request counts from the next call on, or from the one after it.  One that came before the first call is not lost.
 *
 * From the first call of this or of accel_should_stop() on, SIGTERM to this process asks for a checkpoint and for an
 * end, and SIGUSR1 asks for a checkpoint, unless the program handles or ignores that signal; accel_close() undoes it.
 * See accel_options.catch_signals for the time before.
 *
 * Waits for ranks that have not come to the call of the step before, but not for those that are in this step.  So all
 * ranks must call it equally often: while inputs are joined (accel_join_uneven_inputs()), ranks with more data than
 * others would wait until the timeout.
 *
 * @param[out] save  the answer
 * @retval ACCEL_ERR_PEER     a process died, or left
 * @retval ACCEL_ERR_TIMEOUT  a process did not come; `text` names it, and what it is doing
 */
#define accel_should_save(...) accel_should_save_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_should_save_at (const char *file, int line, struct accel *acc, bool *save, struct accel_error *err);

/**
 * Whether the job has been asked to stop; once true, it stays so.  Otherwise like accel_should_save().
 *
 * In programs that call accel_should_save(), it is true only when that has returned true for the same request: if
 * accel_should_save() comes first in a step, the step that saves is the last one.
 *
 * @param[out] stop  the answer
 */
#define accel_should_stop(...) accel_should_stop_at (ACCEL_HERE, __VA_ARGS__)
ACCEL_API ACCEL_NODISCARD enum accel_status
accel_should_stop_at (const char *file, int line, struct accel *acc, bool *stop, struct accel_error *err);

ACCEL_END_DECLS

#endif
