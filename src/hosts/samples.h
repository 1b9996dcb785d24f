/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a host do, on its way from the agent there to the segment that the head has for those who watch. */
#ifndef HOSTS_SAMPLES_H
#define HOSTS_SAMPLES_H

#include "hosts/net/wire.h"
#include "launch/watch/gpus.h"
#include "launch/watch/sample.h"

/** Append a frame WIRE_SAMPLED about the ranks of @p job; NULL: none can be looked at.
 *  @param gpus  of this host */
void samples_put (struct strbuf *out, const struct watch_job *job, const struct watched_gpus *gpus);

/** Where ranks of a host are in the segment of the head. */
struct samples_place {
    const struct jobseg *segment;
    int first_rank, ranks;
    int64_t offset_ns; /* the clock of the host less ours */
};

/** Copy what a frame WIRE_SAMPLED says, as far as it is about ranks of @p place. */
void samples_take (struct wire_frame *frame, const struct samples_place *place);

#endif
