/* SPDX-License-Identifier: Apache-2.0 */
/* What a native program needs for training with AdamW: libaccel divides each parameter in chunks, and all processes
 * have what is left over.  accel_sharding(3) has the formulae. */
#include <config.h>

#include "cli/estimate/estimate.h"
#include "util/chunk.h"

#include <string.h>

/* Elements that a process has. */
struct counts {
    uint64_t whole;
    uint64_t own;   /* its chunks, and what all have */
    uint64_t alike; /* what all have */
};

static struct counts
count_elements (const struct estimate_model *model, uint64_t processes)
{
    struct counts counts = { 0 };
    for (size_t i = 0; i < model->count; i++) {
        const struct estimate_part *part = &model->parts[i];
        if (!part->is_float || part->is_buffer)
            continue;
        uint64_t chunk = chunk_size (part->elements, processes), rest = part->elements - chunk * processes;
        counts.whole += part->elements;
        counts.own += chunk + rest;
        counts.alike += rest;
    }
    return counts;
}

static void
estimate (const struct estimate_report *report, struct estimate_sharding *row)
{
    const struct estimate_optimizer *adamw = estimate_optimizers;
    const struct estimate_precision *precision = estimate_precisions;
    uint64_t processes = (uint64_t) row->processes;
    bool shares = report->settings->share_parameters && row->stage > 0;
    while (strcmp (precision->name, report->settings->mixed_precision) != 0)
        precision++;
    struct counts counts = count_elements (report->model, processes);
    uint64_t gradient = report->settings->float32_gradients ? 4 : precision->gradient;
    uint64_t state = adamw->bytes + (precision->weight < 4 ? 4 : 0); /* with a float32 master */
    uint64_t weights = precision->weight * (row->stage == 3 && !shares ? counts.own : counts.whole);
    struct estimate_training *share = &row->share;
    share->weights = shares ? weights / processes : weights;
    share->gradients = gradient * (row->stage >= 2 ? counts.own : counts.whole);
    share->optimizer = state * (row->stage >= 1 ? counts.own : counts.whole);
    row->each = share->weights + share->gradients + share->optimizer;
    row->all = (shares ? weights : processes * weights) + processes * (share->gradients + share->optimizer);
    if (shares) /* only the first process has the states of what is not divided */
        row->all -= (processes - 1) * state * counts.alike;
}

bool
estimate_next_sharding (const struct estimate_report *report, struct estimate_sharding *row)
{
    int64_t last = report->settings->num_processes;
    if (row->processes == last && (last == 1 || row->stage == 3))
        return false;
    if (row->processes < 2 || row->stage == 3) { /* one process has everything in every stage */
        int64_t next = row->processes ? 2 * row->processes : 1;
        *row = (struct estimate_sharding){ .processes = next < last ? next : last };
    } else
        row->stage++;
    estimate (report, row);
    return true;
}
