/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas of torch (torch/optim/lr_scheduler.py) and transformers (optimization.py) in their order of operations,
 * in double, so that learning rates are theirs to the last bit. */
#include <config.h>

#include "lib/train/schedules.h"

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/kernels/arithmetic.h"

#include <math.h>

/* float (a - b) / float (max (1, c - d)), with Python's integers, which have no end. */
UNFUSED static double
part_of (uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    double numerator = a >= b ? (double) (a - b) : -(double) (b - a);
    return numerator / (c > d ? (double) (c - d) : 1.0);
}

/* From 0 up to 1 along one of transformers' shapes. */
UNFUSED static double
shape_up (enum accel_schedule_shape shape, double progress)
{
    if (shape == ACCEL_SHAPE_LINEAR)
        return progress;
    if (shape == ACCEL_SHAPE_COSINE)
        return 0.5 * (1.0 - cos (M_PI * progress));
    return 1.0 - sqrt (1.0 - progress);
}

/* From 1 down to 0. */
UNFUSED static double
shape_down (enum accel_schedule_shape shape, double cycles, double progress)
{
    if (shape == ACCEL_SHAPE_LINEAR)
        return 1.0 - progress;
    if (shape == ACCEL_SHAPE_COSINE)
        return 0.5 * (1.0 + cos (M_PI * cycles * 2.0 * progress));
    return 1.0 - sqrt (progress);
}

/* How much of the warm-up is done in its step @step: the first is 0, as in transformers, or 1, as in llm.c. */
UNFUSED static double
warmup_done (const struct accel_scheduler_options *options, uint64_t step)
{
    return (double) (step + options->warmup_from_one) / (double) options->warmup_steps;
}

/* transformers' get_wsd_schedule(). */
UNFUSED static double
warmup_stable_decay (const struct schedule *part)
{
    const struct accel_scheduler_options *options = &part->options;
    uint64_t step = part->step, warmup = options->warmup_steps, decay_from = warmup + options->stable_steps;
    double last = options->final_fraction, factor;
    if (step < warmup)
        factor = shape_up (options->warmup_shape, warmup_done (options, step));
    else if (step < decay_from)
        return 1;
    else if (step - decay_from < options->decay_steps)
        factor = shape_down (options->decay_shape, options->cycles,
                             (double) (step - decay_from) / (double) options->decay_steps);
    else
        return last;
    return fmax (0, factor * (1.0 - last) + last);
}

bool
schedule_is_recursive (const struct schedule *part)
{
    return part->options.schedule == ACCEL_SCHEDULE_STEP || part->options.schedule == ACCEL_SCHEDULE_POLYNOMIAL;
}

UNFUSED double
schedule_factor (const struct schedule *part)
{
    const struct accel_scheduler_options *options = &part->options;
    uint64_t step = part->step, warmup = options->warmup_steps, total = options->total_steps;
    double last = options->final_fraction;
    if (schedule_is_recursive (part) || options->schedule == ACCEL_SCHEDULE_ONE_CYCLE)
        return 1;
    if (options->schedule == ACCEL_SCHEDULE_LAMBDA)
        return options->lambda (options->user, step);
    if (options->schedule == ACCEL_SCHEDULE_WARMUP_STABLE_DECAY)
        return warmup_stable_decay (part);
    if (step < warmup)
        return warmup_done (options, step);
    if (options->schedule == ACCEL_SCHEDULE_CONSTANT)
        return 1;
    if (options->schedule == ACCEL_SCHEDULE_LINEAR)
        return fmax (0, part_of (total, step, total, warmup)) * (1.0 - last) + last;
    double progress = part_of (step, warmup, total, warmup);
    if (options->schedule == ACCEL_SCHEDULE_COSINE)
        return fmax (0, 0.5 * (1.0 + cos (M_PI * options->cycles * 2.0 * progress)) * (1.0 - last) + last);
    double wave = progress >= 1 ? 0 : fmax (0, 0.5 * (1.0 + cos (M_PI * fmod (options->cycles * progress, 1.0))));
    return wave * (1.0 - last) + last;
}

/* From the optimizer's current rate, as in torch: the program may have changed it since the last step. */
UNFUSED static double
polynomial_rate (const struct schedule *part, double lr)
{
    double total = (double) part->options.total_steps;
    if (part->step > part->options.total_steps)
        return lr;
    double now = 1.0 - (double) part->step / total, before = 1.0 - (double) (part->step - 1) / total;
    return lr * pow (now / before, part->options.power);
}

UNFUSED static double
between (bool linear, double start, double end, double part)
{
    return linear ? (end - start) * part + start : end + (start - end) / 2.0 * (cos (M_PI * part) + 1);
}

/* The phase of one-cycle's step, and how much of it is @done. */
UNFUSED static const struct phase *
find_phase (const struct schedule *part, double *done)
{
    const struct phase *phase = part->phases;
    double step = (double) part->step, start = 0;
    for (; phase < part->phases + part->phase_count - 1 && step > phase->end_step; phase++)
        start = phase->end_step;
    double length = phase->end_step - start;
    *done = length ? (step - start) / length : 1; /* torch divides by 0 */
    return phase;
}

double
schedule_momentum (const struct schedule *part)
{
    double done;
    const struct phase *phase = find_phase (part, &done);
    return between (part->options.linear, phase->start_momentum, phase->end_momentum, done);
}

UNFUSED double
schedule_rate (const struct schedule *part, size_t place, double before, double factor)
{
    const struct accel_scheduler_options *options = &part->options;
    double done;
    if (options->schedule == ACCEL_SCHEDULE_ONE_CYCLE) {
        const struct phase *phase = find_phase (part, &done);
        return between (options->linear, phase->start_lr, phase->end_lr, done);
    }
    if (!schedule_is_recursive (part))
        return part->base_lr[place] * factor;
    if (!part->step)
        return before;
    if (options->schedule == ACCEL_SCHEDULE_POLYNOMIAL)
        return polynomial_rate (part, before);
    return part->step % options->step_size == 0 ? before * options->gamma : before;
}

bool
schedule_is_at_end (const struct schedule *part)
{
    return part->options.schedule == ACCEL_SCHEDULE_ONE_CYCLE && part->step >= part->options.total_steps;
}

/* The phases of OneCycleLR. */
UNFUSED static void
make_phases (struct schedule *part, size_t group_count)
{
    const struct accel_scheduler_options *options = &part->options;
    double total = (double) options->total_steps, high = options->max_momentum, low = options->base_momentum;
    double max_lr = option_or (options->max_lr, 0), first = max_lr / options->div_factor;
    double last = first / options->final_div_factor;
    struct phase *phase = part->phases;
    *phase++ = (struct phase){ options->pct_start * total - 1, first, max_lr, high, low };
    if (options->three_phase) {
        *phase++ = (struct phase){ 2 * options->pct_start * total - 2, max_lr, first, low, high };
        *phase++ = (struct phase){ total - 1, first, last, high, high };
    } else
        *phase++ = (struct phase){ total - 1, max_lr, last, low, high };
    part->phase_count = (int) (phase - part->phases);
    for (size_t i = 0; i < group_count; i++)
        part->base_lr[i] = first;
}

void
schedule_begin (struct schedule *part, size_t group_count)
{
    if (part->options.schedule == ACCEL_SCHEDULE_ONE_CYCLE)
        make_phases (part, group_count);
}

static void
fill_defaults (struct accel_scheduler_options *options)
{
    bool half = options->schedule == ACCEL_SCHEDULE_COSINE || options->schedule == ACCEL_SCHEDULE_WARMUP_STABLE_DECAY;
    struct {
        double *field, value;
    } defaults[] = {
        { &options->cycles, half ? 0.5 : 1 },
        { &options->gamma, 0.1 },
        { &options->power, 1 },
        { &options->final_fraction, 0 },
        { &options->pct_start, 0.3 },
        { &options->div_factor, 25 },
        { &options->final_div_factor, 1e4 },
        { &options->base_momentum, 0.85 },
        { &options->max_momentum, 0.95 },
    };
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        *defaults[i].field = option_or (*defaults[i].field, defaults[i].value);
    if (!options->warmup_shape)
        options->warmup_shape = ACCEL_SHAPE_LINEAR;
    if (!options->decay_shape)
        options->decay_shape = ACCEL_SHAPE_COSINE;
}

/* What each kind cannot do without.  A schedule without its end would set a rate of 0, or a meaningless one. */
static enum accel_status
check_required (const struct accel_scheduler_options *options, struct accel_error *err)
{
#define KIND(name) (1U << ACCEL_SCHEDULE_##name)
    const unsigned falling = KIND (LINEAR) | KIND (COSINE) | KIND (COSINE_RESTARTS);
    const struct {
        unsigned kinds;
        bool is_missing;
        const char *fields;
    } rules[] = {
        { falling | KIND (POLYNOMIAL) | KIND (ONE_CYCLE), !options->total_steps, "total_steps" },
        { KIND (ONE_CYCLE), !option_is_given (options->max_lr), "max_lr (ACCEL_ZERO for 0)" },
        { KIND (STEP), !options->step_size, "step_size" },
        { KIND (LAMBDA), !options->lambda, "`lambda`" },
        { KIND (WARMUP_STABLE_DECAY), !options->decay_steps, "decay_steps" },
        { KIND (WARMUP_STABLE_DECAY), !options->total_steps && !options->stable_steps, "total_steps or stable_steps" },
    };
    const unsigned kind = 1U << options->schedule;
#undef KIND
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].kinds & kind && rules[i].is_missing)
            return accel_fail (err, ACCEL_ERR_INVALID, "%s needs %s", schedule_name (options->schedule),
                               rules[i].fields);
    if (falling & kind && options->warmup_steps > options->total_steps)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: warmup_steps is %llu, but must be at most total_steps, %llu",
                           schedule_name (options->schedule), (unsigned long long) options->warmup_steps,
                           (unsigned long long) options->total_steps);
    return ACCEL_OK;
}

static enum accel_status
check_one_cycle (const struct accel_scheduler_options *options, struct accel_error *err)
{
    if (!(options->max_lr >= 0) || isinf (options->max_lr))
        return accel_fail (err, ACCEL_ERR_INVALID, "max_lr is %g, but must be at least 0 and finite", options->max_lr);
    if (!(options->pct_start >= 0) || !(options->pct_start <= 1))
        return accel_fail (err, ACCEL_ERR_INVALID, "pct_start is %g, but must be between 0 and 1", options->pct_start);
    if (!(options->div_factor > 0) || !(options->final_div_factor > 0))
        return accel_fail (err, ACCEL_ERR_INVALID, "div_factor and final_div_factor must be greater than 0");
    if (options->keep_momentum)
        return ACCEL_OK;
    if (!(options->base_momentum >= 0) || !(options->max_momentum >= 0) || !(options->base_momentum < 1)
        || !(options->max_momentum < 1))
        return accel_fail (err, ACCEL_ERR_INVALID, "base_momentum and max_momentum must be at least 0 and less than 1");
    return ACCEL_OK;
}

/* The stable phase, where only the total is given. */
static enum accel_status
check_wsd (struct accel_scheduler_options *options, struct accel_error *err)
{
    uint64_t warmup = options->warmup_steps, decay = options->decay_steps, total = options->total_steps, others;
    if (options->warmup_shape > ACCEL_SHAPE_ONE_MINUS_SQRT || options->decay_shape > ACCEL_SHAPE_ONE_MINUS_SQRT)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid value for warmup_shape or decay_shape");
    if (__builtin_add_overflow (warmup, decay, &others)
        || __builtin_add_overflow (others, options->stable_steps, &others))
        return accel_fail (err, ACCEL_ERR_INVALID, "warmup_steps, stable_steps and decay_steps are too large");
    if (total && (total < others || (options->stable_steps && total != others)))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "total_steps is %llu, but warmup_steps, stable_steps and decay_steps add up to %llu",
                           (unsigned long long) total, (unsigned long long) others);
    if (total)
        options->stable_steps = total - warmup - decay;
    return ACCEL_OK;
}

enum accel_status
schedule_check_options (struct accel_scheduler_options *options, struct accel_error *err)
{
    fill_defaults (options);
    if ((unsigned) options->schedule > ACCEL_SCHEDULE_WARMUP_STABLE_DECAY)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid schedule %d", (int) options->schedule);
    enum accel_status status = check_required (options, err);
    if (status)
        return status;
    if (options->schedule == ACCEL_SCHEDULE_ONE_CYCLE)
        return check_one_cycle (options, err);
    if (!isfinite (options->cycles) || !isfinite (options->gamma) || !isfinite (options->power))
        return accel_fail (err, ACCEL_ERR_INVALID, "cycles, gamma and power must be finite");
    if (!(options->final_fraction >= 0) || isinf (options->final_fraction))
        return accel_fail (err, ACCEL_ERR_INVALID, "final_fraction is %g, but must be at least 0 and finite",
                           options->final_fraction);
    if (options->schedule == ACCEL_SCHEDULE_COSINE_RESTARTS && options->cycles != floor (options->cycles))
        return accel_fail (err, ACCEL_ERR_INVALID, "cycles is %g; a cosine with restarts needs a whole number",
                           options->cycles);
    return options->schedule == ACCEL_SCHEDULE_WARMUP_STABLE_DECAY ? check_wsd (options, err) : ACCEL_OK;
}

const char *
schedule_name (enum accel_schedule schedule)
{
    static const char *const names[] = {
        "a constant schedule", "a linear schedule", "a cosine schedule", "a cosine schedule with restarts",
        "a step schedule", "a polynomial schedule", "a one-cycle schedule", "a custom schedule",
        "a warm-up, stable, decay schedule",
    };
    return names[schedule];
}
