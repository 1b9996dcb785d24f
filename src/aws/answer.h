/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that say why not. */
#ifndef AWS_ANSWER_H
#define AWS_ANSWER_H

#include "aws/state.h"

/** What a call is in messages. */
struct answer_call {
    const char *service;    /* "sagemaker" */
    const char *action;     /* "CreateTrainingJob" */
    const char *permission; /* NULL: the action */
    const struct keys *keys; /* the request was signed with; NULL: it was not */
    const char *source;     /* of the keys, in words */
};

/** Read code and message out of JSON, XML, headers, or else the status. */
void answer_read (struct aws_error *error, const struct http_response *response);

/** Whether an answer asks for patience: throttling comes with status 400, too. */
bool answer_is_throttled (const struct http_response *response);

/** Whether the credentials have expired. */
bool answer_is_expired (const struct aws_error *error);

/** Say what @p error means.  @return -1 */
int answer_refuse (const struct answer_call *call, const struct aws_error *error, const struct http_response *response,
                   struct fail *fail);

#endif
