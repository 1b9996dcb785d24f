/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate launch --resume: which checkpoint the ranks continue from. */
#ifndef CLI_RESUME_H
#define CLI_RESUME_H

#include "launch/plan/plan.h"
#include "util/strbuf.h"

/**
 * Find the newest checkpoint of @p folder that is complete and undamaged, and pass its path to all ranks of @p plan in
 * ACCEL_RESUME_FROM, which is empty if there is none.
 *
 * @param[out] lines  for the user: which it is, and what was passed over; whole lines
 */
int resume_find (struct plan *plan, const char *folder, struct strbuf *lines, struct fail *fail);

#endif
