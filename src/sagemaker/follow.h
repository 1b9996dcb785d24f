/* SPDX-License-Identifier: Apache-2.0 */
/* Following a training job to its end. */
#ifndef SAGEMAKER_FOLLOW_H
#define SAGEMAKER_FOLLOW_H

#include "sagemaker/session.h"

/**
 * Print each status and line of a job, until it has ended or the user leaves it.
 *
 * @return the exit status: 0 if the job completed; -1 with @p fail set otherwise: the status that the job's script
 *         ended with if Amazon says it, 1 if not; 128+N after a signal
 */
int follow_job (struct session *session, struct fail *fail);

/** Ask for a job's description. @return a new reference; NULL with @p error and @p fail set */
json_t *follow_describe (struct session *session, struct aws_error *error, struct fail *fail);

#endif
