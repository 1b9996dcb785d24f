/* SPDX-License-Identifier: Apache-2.0 */
/* Which part of the data is this process's: numbers, without data. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/collectives/parallel.h"
#include "lib/data/loader_object.h"
#include "lib/state/state_object.h"

bool
share_is_dealt (const struct accel_loader *loader)
{
    return loader->share.shard.processes > 1;
}

bool
share_has_peers (const struct accel_loader *loader)
{
    const struct accel *acc = loader->object.owner;
    return share_is_dealt (loader) || (acc && parallel_tensor_comm (acc));
}

bool
share_is_even (const struct accel_loader *loader)
{
    return flag_or (loader->share.join_even, flag_or (loader->options.even_batches, true));
}

bool
share_is_dispatched (const struct accel_loader *loader, size_t processes)
{
    return flag_or (loader->options.dispatch_batches, loader->data->is_dispatched && processes > 1);
}

void
share_deal (struct accel_loader *loader, size_t size)
{
    struct share *share = &loader->share;
    size_t own = loader->options.split_batches == ACCEL_YES ? size / share->processes : size;
    share->shard = (struct shard){ .batch_size = own, .processes = share->processes, .process = share->process };
    share->round = own * share->processes;
    share->row_capacity = own;
    share->reads = true;
    loader->drawing.base_seed = loader->options.generator;
}

/* What the loader says comes first, then what the job says. */
void
share_choose_split (struct accel_loader *loader, const struct accel *acc)
{
    struct accel_loader_options *options = &loader->options;
    options->split_batches = flag_or (loader->share.split_given, acc && acc->split_batches) ? ACCEL_YES : ACCEL_NO;
}

enum accel_status
share_set (struct accel_loader *loader, size_t processes, size_t process, struct accel_error *err)
{
    struct accel_loader_options *options = &loader->options;
    struct share *share = &loader->share;
    const struct accel_batch_sampler *batches = options->batch_sampler;
    bool varying = batches && !batches->batch_size;
    size_t size = varying ? 1 : batches ? batches->batch_size : options->batch_size, all;
    share->processes = processes;
    share->process = process;
    if (options->split_batches == ACCEL_YES && varying)
        return accel_fail (err, ACCEL_ERR_INVALID, "batches of varying size cannot be split; set split_batches to "
                                                   "ACCEL_NO "
                           "for this loader");
    if (options->split_batches == ACCEL_YES && size % processes)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "split_batches: batch_size %zu is not a multiple of the number of processes, %zu", size,
                           processes);
    if (__builtin_mul_overflow (size, processes, &all) || all > PTRDIFF_MAX / sizeof (int64_t))
        return accel_fail (err, ACCEL_ERR_INVALID, "%zu samples for each of %zu processes are too many: size overflows",
                           size, processes);
    loader->source->deal (loader, size);
    if (varying)
        share->row_capacity = batches->most;
    share->shard.samples = loader->data->samples (loader);
    share->shard.even = share_is_even (loader);
    share->shard.drop_last = options->drop_last = options->drop_last || (batches && batches->drop_last);
    return ACCEL_OK;
}

size_t
share_count_rounds (const struct accel_loader *loader, size_t samples)
{
    size_t round = loader->share.round;
    if (samples == ACCEL_LENGTH_UNKNOWN)
        return samples;
    return samples / round + (samples % round && !loader->options.drop_last);
}
