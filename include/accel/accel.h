/* SPDX-License-Identifier: Apache-2.0 */
/* All of libaccel.  Suggested reading order: base (rules of the whole API), state, comm, work, tree, collectives,
 * group, random, segment, dataset, sampler, loader, train, layout, accumulate, optimizer, precision, scheduler,
 * statedict, checkpoint, preemption, safetensors, model_file, parallel, tracker, utility. */
#ifndef ACCEL_ACCEL_H
#define ACCEL_ACCEL_H

#include <accel/accumulate.h>
#include <accel/arguments.h>
#include <accel/base.h>
#include <accel/checkpoint.h>
#include <accel/collectives.h>
#include <accel/comm.h>
#include <accel/dataset.h>
#include <accel/group.h>
#include <accel/layout.h>
#include <accel/loader.h>
#include <accel/model_file.h>
#include <accel/optimizer.h>
#include <accel/parallel.h>
#include <accel/parallel_linear.h>
#include <accel/precision.h>
#include <accel/preemption.h>
#include <accel/random.h>
#include <accel/safetensors.h>
#include <accel/sampler.h>
#include <accel/scheduler.h>
#include <accel/segment.h>
#include <accel/sharding.h>
#include <accel/state.h>
#include <accel/statedict.h>
#include <accel/tensor.h>
#include <accel/tracker.h>
#include <accel/train.h>
#include <accel/tree.h>
#include <accel/utility.h>
#include <accel/work.h>

#endif
