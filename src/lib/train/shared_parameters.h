/* SPDX-License-Identifier: Apache-2.0 */
/* One copy of a model's parameters for all processes of a host: in an anonymous file that all of them map. */
#ifndef LIB_TRAIN_SHARED_PARAMETERS_H
#define LIB_TRAIN_SHARED_PARAMETERS_H

#include "lib/train/stretches.h"

/**
 * Move the trained parameters of a model to shared memory, with the values of the first of those that share.  The pages
 * of the program's memory are given back.  If some of the processes cannot map the same memory, or it does not have
 * enough room, none shares, and a line of the log says why.  Collective, on all processes of the job.
 */
enum accel_status shared_begin (struct accel_model *model, struct accel *acc, const struct comm_site *site,
                                 struct accel_error *err);

/** Move them to memory of this process's own, with whole pages for files.  Not collective. */
enum accel_status shared_begin_alone (struct accel_model *model, struct accel_error *err);

/** Move the values back.  Accepts a model that does not share.  Not collective: no other process may change the values
 *  meanwhile, for which steps wait for all. */
void shared_end (struct accel_model *model);

/** Whether a tensor has a part of a trained one, or more than it: neither could move without the other. */
bool shared_overlaps (const struct accel_model *model);

#endif
