/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and norms of gradients that jump: llm.c's detector (llmc/outlier_detector.h), but a value is compared with
 * those before it only.  All ranks have the same window, because all values that enter it are the same on all ranks. */
#include <config.h>

#include "lib/train/outliers.h"

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/base/sized.h"
#include "lib/comm/comm_private.h"
#include "lib/kernels/floats.h"
#include "lib/state/state_dict.h"
#include "lib/state/state_object.h"
#include "lib/train/accumulate.h"
#include "lib/train/precision.h"
#include "lib/train/reducer/reducer_object.h"
#include "util/cleanup.h"

#include <accel/utility.h>

#include <math.h>
#include <stdlib.h>

enum { DEFAULT_WINDOW = 128, MOST_VALUES = 1 << 20, WATCHED = ACCEL_OUTLIER_NORM + 1 };
static const double default_zscore = 7;

/* The last values of one kind. */
struct detector {
    double *values; /* [window], the oldest first */
    size_t count;
    double zscore; /* of the last one */
    uint64_t outliers;
};

struct outliers {
    struct part part;
    struct accel_outlier_options options; /* no field is 0 that has another default; window 0: nothing is watched */
    struct detector of[WATCHED];
    uint64_t skipped;
    uint64_t jumps; /* outliers for which each optimizer skips a step */
};

static struct outliers *
outliers_of (const struct accel *acc)
{
    return (struct outliers *) (void *) part_find (acc, &part_outliers);
}

static double
limit_of (const struct outliers *its, enum accel_outlier kind)
{
    return kind == ACCEL_OUTLIER_LOSS ? its->options.loss_zscore : its->options.norm_zscore;
}

/* @return its distance from the mean of the window in standard deviations; 0 while the window is not full */
static double
measure (const struct detector *detector, size_t window, double value, double *mean)
{
    double sum = 0, squares = 0;
    if (detector->count < window)
        return 0;
    for (size_t i = 0; i < window; i++)
        sum += detector->values[i];
    *mean = sum / (double) window;
    for (size_t i = 0; i < window; i++)
        squares += (detector->values[i] - *mean) * (detector->values[i] - *mean);
    double deviation = sqrt (squares / (double) window);
    return deviation > 0 ? (value - *mean) / deviation : 0;
}

static void
push (struct detector *detector, size_t window, double value)
{
    if (detector->count < window)
        detector->count++;
    else
        for (size_t i = 0; i + 1 < window; i++)
            detector->values[i] = detector->values[i + 1];
    detector->values[detector->count - 1] = value;
}

/* Look at the next value of one kind.  @param whence  where one that is not finite is from */
static void
note (struct accel *acc, enum accel_outlier kind, double value, const char *whence)
{
    static const char *const names[WATCHED] = { "the loss", "the norm of the gradients" };
    struct outliers *its = outliers_of (acc);
    struct detector *detector = &its->of[kind];
    double mean = 0;
    bool is_finite = isfinite (value);
    detector->zscore = is_finite ? measure (detector, its->options.window, value, &mean) : value;
    bool is_outlier = !is_finite || detector->zscore > limit_of (its, kind);
    if (is_finite)
        push (detector, its->options.window, value);
    if (!is_outlier)
        return;
    detector->outliers++;
    its->jumps += its->options.skip_steps;
    const char *then = its->options.skip_steps ? "; the step is skipped" : "";
    unsigned long long step = optimizer_latest_step (acc) + 1;
    if (is_finite)
        accel_logger_log (acc, ACCEL_LOG_WARNING,
                          "step %llu: %s is %g, %.1f standard deviations above %g, the mean of the last %llu%s", step,
                          names[kind], value, detector->zscore, mean, (unsigned long long) its->options.window, then);
    else
        accel_logger_log (acc, ACCEL_LOG_WARNING, "step %llu: %s is %s%s%s%s", step, names[kind],
                          nonfinite_name ((float) value), *whence ? ": " : "", whence, then);
}

bool
outliers_want_norm (const struct accel *acc)
{
    return acc && outliers_of (acc)->options.window && !accumulation_of (acc)->accumulating;
}

void
outliers_note_norm (struct accel *acc, double norm, const char *whence)
{
    note (acc, ACCEL_OUTLIER_NORM, norm, whence);
}

bool
outliers_skip (struct accel_optimizer *optimizer)
{
    const struct accel *acc = optimizer->object.owner; /* NULL: it is not prepared */
    struct outliers *its = acc ? outliers_of (acc) : NULL;
    if (!its || optimizer->jumps_seen == its->jumps)
        return false;
    optimizer->jumps_seen = its->jumps;
    its->skipped++;
    return true;
}

void
outliers_prepare (struct accel_optimizer *optimizer, const struct accel *acc)
{
    optimizer->jumps_seen = outliers_of (acc)->jumps;
}

/* ---- the calls ---- */

static enum accel_status
check_options (struct accel_outlier_options *options, struct accel_error *err)
{
    options->window = options->window ? options->window : DEFAULT_WINDOW;
    options->loss_zscore = option_or (options->loss_zscore, default_zscore);
    options->norm_zscore = option_or (options->norm_zscore, default_zscore);
    if (options->window < 2 || options->window > MOST_VALUES)
        return accel_fail (err, ACCEL_ERR_INVALID, "window is %llu, but must be between 2 and %d",
                           (unsigned long long) options->window, MOST_VALUES);
    if (!(options->loss_zscore >= 0) || !(options->norm_zscore >= 0))
        return accel_fail (err, ACCEL_ERR_INVALID, "loss_zscore and norm_zscore must be at least 0");
    return ACCEL_OK;
}

static void
close_outliers (struct part *part)
{
    struct outliers *its = (struct outliers *) (void *) part;
    for (int i = 0; i < WATCHED; i++) {
        free (its->of[i].values);
        its->of[i] = (struct detector){ 0 };
    }
    its->options.window = 0;
}

/* accel_free_memory(): other values follow. */
static void
release_outliers (struct part *part)
{
    struct outliers *its = (struct outliers *) (void *) part;
    for (int i = 0; i < WATCHED; i++)
        its->of[i].count = 0;
}

enum accel_status
accel_outlier_watch_sized (size_t options_size, struct accel *acc, const struct accel_outlier_options *options,
                           struct accel_error *err)
{
    struct accel_outlier_options room, wanted = { 0 };
    enum accel_status status = ACCEL_OK;
    if (!acc)
        return accel_fail_null (err, "accel_outlier_watch", "acc");
    options = SIZED (options, options_size, room, &status, err);
    if (options)
        wanted = *options;
    if (!status)
        status = check_options (&wanted, err);
    if (status)
        return status;
    struct outliers *its = outliers_of (acc);
    close_outliers (&its->part);
    for (int i = 0; i < WATCHED; i++)
        its->of[i].values = calloc (wanted.window, sizeof *its->of[i].values);
    if (!its->of[0].values || !its->of[1].values) {
        close_outliers (&its->part);
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for %llu values",
                           (unsigned long long) wanted.window);
    }
    its->options = wanted;
    return ACCEL_OK;
}

/* @return the mean of all ranks' losses; @whence names the first rank whose loss is not finite. */
static enum accel_status
share_loss (struct accel *acc, const struct comm_site *site, double loss, double *mean, char *whence, size_t size,
            struct accel_error *err)
{
    size_t ranks = (size_t) acc->identity.world_size;
    AUTO_FREE double *losses = calloc (ranks, sizeof *losses);
    *mean = loss;
    *whence = '\0';
    if (ranks == 1)
        return ACCEL_OK;
    if (!losses)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for the losses of all ranks");
    enum accel_status status = comm_all_gather (accel_world (acc), site, &loss, losses, 1, ACCEL_FLOAT64, err);
    if (status)
        return status;
    double sum = 0;
    for (size_t i = 0; i < ranks; i++) {
        sum += losses[i];
        if (!*whence && !isfinite (losses[i]))
            snprintf (whence, size, "it is %s on rank %zu", nonfinite_name ((float) losses[i]), i);
    }
    *mean = sum / (double) ranks;
    return ACCEL_OK;
}

enum accel_status
accel_outlier_loss_at (const char *file, int line, struct accel *acc, double loss, double *mean,
                       struct accel_error *err)
{
    struct comm_site site = { file, line, JOBSEG_CALL_OUTLIER_LOSS };
    char whence[64];
    double all;
    if (!acc)
        return accel_fail_null (err, "accel_outlier_loss", "acc");
    if (!outliers_of (acc)->options.window)
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_outlier_loss: call accel_outlier_watch first");
    enum accel_status status = share_loss (acc, &site, loss, &all, whence, sizeof whence, err);
    if (status)
        return status;
    if (mean)
        *mean = all;
    note (acc, ACCEL_OUTLIER_LOSS, all, whence);
    return ACCEL_OK;
}

void
accel_outlier_get (const struct accel *acc, enum accel_outlier kind, uint64_t *count, double *zscore)
{
    const struct outliers *its = acc ? outliers_of (acc) : NULL;
    bool is_watched = its && (unsigned) kind < WATCHED;
    if (count)
        *count = is_watched ? its->of[kind].outliers : its && kind == ACCEL_OUTLIER_SKIPPED ? its->skipped : 0;
    if (zscore)
        *zscore = is_watched ? its->of[kind].zscore : 0;
}

/* ---- checkpoints ---- */

static const char *const saved_names[WATCHED] = { "loss", "norm" };

static void
save_outliers (const struct part *part, struct accel_state_dict *state)
{
    const struct outliers *its = (const struct outliers *) (const void *) part;
    if (!its->options.window)
        return;
    for (int i = 0; i < WATCHED; i++) {
        int64_t count = (int64_t) its->of[i].count;
        const DLTensor values = { .data = its->of[i].values, .device = { kDLCPU, 0 }, .ndim = 1, .shape = &count,
                                  .dtype = accel_dtype_to_dl (ACCEL_FLOAT64) };
        state_dict_set_uint64 (state, its->of[i].outliers, "%s_outliers", saved_names[i]);
        if (count)
            state_dict_set_tensor (state, &values, "%s", saved_names[i]);
    }
    state_dict_add_uint64 (state, "skipped", its->skipped);
}

static enum accel_status
load_detector (struct detector *detector, size_t window, const char *name, const struct accel_state_dict *state,
               struct accel_error *err)
{
    size_t count = accel_state_dict_tensor_count (state, name), kept = count < window ? count : window;
    int64_t shape = (int64_t) count;
    AUTO_FREE double *values = calloc (count + 1, sizeof *values);
    DLTensor into = { .data = values, .device = { kDLCPU, 0 }, .ndim = 1, .shape = &shape,
                      .dtype = accel_dtype_to_dl (ACCEL_FLOAT64) };
    if (!values)
        return accel_fail_nomem (err);
    enum accel_status status = count ? accel_state_dict_get_tensor (state, name, &into, err) : ACCEL_OK;
    if (!status)
        status = state_dict_get_uint64 (state, &detector->outliers, err, "%s_outliers", name);
    if (status)
        return status;
    for (size_t i = 0; i < kept; i++)
        detector->values[i] = values[count - kept + i];
    detector->count = kept;
    return ACCEL_OK;
}

/* Going back to a checkpoint undoes the outlier for which a step was to be skipped. */
static void
forget_jumps (const struct outliers *its)
{
    for (const struct accel_model *model = model_first (its->part.acc); model; model = model_next (model))
        for (struct accel_optimizer *of = model->optimizers; of; of = of->beside)
            of->jumps_seen = its->jumps;
}

/* A job that watches nothing ignores what was saved, and one that has begun to watch begins with an empty window. */
static enum accel_status
load_outliers (struct part *part, const struct accel_state_dict *state, struct accel_error *err)
{
    struct outliers *its = (struct outliers *) (void *) part;
    enum accel_status status = ACCEL_OK;
    forget_jumps (its);
    if (!its->options.window || !state)
        return ACCEL_OK;
    for (int i = 0; !status && i < WATCHED; i++)
        status = load_detector (&its->of[i], its->options.window, saved_names[i], state, err);
    return status ? status : state_dict_read_uint64 (state, "skipped", &its->skipped, err);
}

const struct part_kind part_outliers
    = { .size_bytes = sizeof (struct outliers), .release = release_outliers,
        .close = close_outliers, .save = save_outliers, .load = load_outliers, .file = "outliers" };
