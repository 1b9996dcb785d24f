/* SPDX-License-Identifier: Apache-2.0 */
/* One request with the credentials that were found. */
#ifndef AWS_CALL_H
#define AWS_CALL_H

#include "aws/request.h"

/** As request_send(). Credentials are found first, and once more if they have expired meanwhile.
 *  @param[out] error  not NULL */
int call_send (struct aws *aws, const struct request *request, struct http_response *response,
               struct aws_error *error, struct fail *fail);

#endif
