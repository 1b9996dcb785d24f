/* SPDX-License-Identifier: Apache-2.0 */
/* What a training job prints: CloudWatch keeps one stream of lines for each machine. */
#ifndef SAGEMAKER_STREAMS_H
#define SAGEMAKER_STREAMS_H

#include "sagemaker/session.h"

struct stream;

/** All zero before the first streams_read(). */
struct streams {
    struct stream *items;
    size_t count;
    size_t machines;   /* of the job: so many streams there will be */
    bool are_forbidden; /* these credentials cannot read them; was said */
};

/**
 * Print all lines that are new on standard output, in the order of their times; with several machines, with the
 * machine's name before each.
 *
 * @param[out] error  why a call failed
 */
int streams_read (struct streams *streams, struct session *session, struct aws_error *error, struct fail *fail);

void streams_release (struct streams *streams);

#endif
