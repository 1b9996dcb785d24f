/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing a class by its logits: accel_generator_choose(). */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/data/generator.h"
#include "util/cleanup.h"

#include <math.h>
#include <stdlib.h>

struct candidate {
    float logit;
    size_t class;
};

static int
compare (const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;
    return one->logit != other->logit ? (one->logit < other->logit ? 1 : -1) : one->class < other->class ? -1 : 1;
}

static enum accel_status
check (const float *logits, size_t count, const struct accel_choice_options *options, struct accel_error *err)
{
    bool possible = false;
    if (!(options->temperature >= 0 && options->temperature <= (double) INFINITY))
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_generator_choose: temperature is %g, but must be at least 0",
                           options->temperature);
    if (!(options->top_p >= 0 && options->top_p <= 1))
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_generator_choose: top_p is %g, but must be from 0 to 1",
                           options->top_p);
    for (size_t i = 0; i < count; i++) {
        possible |= logits[i] > -INFINITY;
        if (!(logits[i] < INFINITY))
            return accel_fail (err, ACCEL_ERR_INVALID, "accel_generator_choose: logit %zu is %g", i,
                               (double) logits[i]);
    }
    return possible ? ACCEL_OK
                    : accel_fail (err, ACCEL_ERR_INVALID, "accel_generator_choose: none of %zu classes is possible",
                                  count);
}

/* @param all  [most], the largest first */
static size_t
draw (struct accel_generator *generator, struct candidate *all, size_t most, float temperature, float share)
{
    float sum = 0, kept = 0, largest = all[0].logit;
    size_t count = 0, chosen = 0;
    for (size_t i = most; i-- > 0;)
        sum += all[i].logit = expf ((all[i].logit - largest) / temperature);
    do
        kept += all[count++].logit;
    while (count < most && kept < share * sum);
    for (float left = kept * generator_uniform_float (generator); chosen < count - 1 && left >= all[chosen].logit;)
        left -= all[chosen++].logit;
    return all[chosen].class;
}

enum accel_status
accel_generator_choose_sized (size_t options_size, struct accel_generator *generator, const float *logits, size_t count,
                              size_t *chosen, const struct accel_choice_options *options, struct accel_error *err)
{
    static const struct accel_choice_options standard = { 0 };
    struct accel_choice_options room;
    enum accel_status status;
    options = SIZED (options, options_size, room, &status, err);
    if (status)
        return status;
    if (!generator || !logits || !chosen)
        return accel_fail_null (err, "accel_generator_choose",
                                !generator ? "generator" : !logits ? "logits" : "chosen");
    options = options ? options : &standard;
    if ((status = check (logits, count, options, err)))
        return status;
    AUTO_FREE struct candidate *all = calloc (count, sizeof *all);
    if (!all)
        return accel_fail_nomem (err);
    for (size_t i = 0; i < count; i++)
        all[i] = (struct candidate){ logits[i], i };
    qsort (all, count, sizeof *all, compare);
    float temperature = (float) option_or (options->temperature, 1);
    float share = options->top_p > 0 ? (float) options->top_p : 1;
    size_t most = options->top_k && options->top_k < count ? (size_t) options->top_k : count;
    *chosen = temperature > 0 ? draw (generator, all, most, temperature, share) : all[0].class;
    return ACCEL_OK;
}
