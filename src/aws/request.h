/* SPDX-License-Identifier: Apache-2.0 */
/* One request with given credentials. */
#ifndef AWS_REQUEST_H
#define AWS_REQUEST_H

#include "aws/answer.h"

struct request {
    const char *name;         /* of the service, in messages; NULL: that of `service` */
    enum aws_service service;
    const char *action;
    const char *permission;   /* NULL: the action */
    const char *region;       /* where the host may have its name from; NULL: that of `aws` */
    struct http_request http; /* without url's owner, signature and deadlines of its own */
};

/**
 * Make a request, repeat it while the service is busy, and judge the answer.
 *
 * @param keys    NULL: it is not signed
 * @param source  of the keys, for messages
 * @param[out] response  for http_response_release(), also after a failure
 * @return 0: status 2xx; -1 with @p error and @p fail set
 */
int request_send (struct aws *aws, const struct keys *keys, const char *source, const struct request *request,
                  struct http_response *response, struct aws_error *error, struct fail *fail);

/** The body of a call of IAM or STS. */
int request_query_body (struct strbuf *body, enum aws_service service, const char *action,
                        const char *const (*parameters)[2], size_t count, struct fail *fail);

/** The XML of an answer to @p action. */
int request_query_reply (const struct http_response *response, enum aws_service service, const char *action,
                         struct aws_xml **reply, struct fail *fail);

/** Overwrite the body of an answer that has keys, and release it. */
void request_wipe (struct http_response *response);

#endif
