/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas of torch (torch/optim/lr_scheduler.py) and transformers (optimization.py) in their order of operations,
 * in double, so that learning rates are theirs to the last bit.  Each kind of schedule is one row of a table;
 * HACKING.md tells how to add one. */
#include <config.h>

#include "lib/train/scheduler/schedules.h"

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

static double
constant_factor (const struct schedule *part)
{
    (void) part;
    return 1;
}

UNFUSED static double
linear_factor (const struct schedule *part)
{
    const struct accel_scheduler_options *options = &part->options;
    uint64_t total = options->total_steps;
    double last = options->final_fraction;
    return fmax (0, part_of (total, part->step, total, options->warmup_steps)) * (1.0 - last) + last;
}

/* How much of the steps after the warm-up is done. */
static double
progress_of (const struct schedule *part)
{
    uint64_t warmup = part->options.warmup_steps;
    return part_of (part->step, warmup, part->options.total_steps, warmup);
}

UNFUSED static double
cosine_factor (const struct schedule *part)
{
    double last = part->options.final_fraction, waves = part->options.cycles;
    return fmax (0, 0.5 * (1.0 + cos (M_PI * waves * 2.0 * progress_of (part))) * (1.0 - last) + last);
}

UNFUSED static double
restarts_factor (const struct schedule *part)
{
    double last = part->options.final_fraction, waves = part->options.cycles, progress = progress_of (part);
    double wave = progress >= 1 ? 0 : fmax (0, 0.5 * (1.0 + cos (M_PI * fmod (waves * progress, 1.0))));
    return wave * (1.0 - last) + last;
}

static double
lambda_factor (const struct schedule *part)
{
    return part->options.lambda (part->options.user, part->step);
}

static double
next_of_step (const struct schedule *part, double lr)
{
    return part->step % part->options.step_size == 0 ? lr * part->options.gamma : lr;
}

/* From the optimizer's current rate, as in torch: the program may have changed it since the last step. */
UNFUSED static double
next_of_polynomial (const struct schedule *part, double lr)
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

static double
one_cycle_momentum (const struct schedule *part)
{
    double done;
    const struct phase *phase = find_phase (part, &done);
    return between (part->options.linear, phase->start_momentum, phase->end_momentum, done);
}

static double
one_cycle_rate (const struct schedule *part)
{
    double done;
    const struct phase *phase = find_phase (part, &done);
    return between (part->options.linear, phase->start_lr, phase->end_lr, done);
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

static enum accel_status
check_one_cycle (struct accel_scheduler_options *options, struct accel_error *err)
{
    if (!(options->max_lr >= 0) || isinf (options->max_lr))
        return accel_fail (err, ACCEL_ERR_INVALID, "max_lr is %g, but must be at least 0 and finite", options->max_lr);
    if (!(options->pct_start >= 0) || !(options->pct_start <= 1))
        return accel_fail (err, ACCEL_ERR_INVALID, "pct_start is %g, but must be between 0 and 1", options->pct_start);
    if (!(options->div_factor > 0) || !(options->final_div_factor > 0))
        return accel_fail (err, ACCEL_ERR_INVALID, "div_factor and final_div_factor must be greater than 0");
    if (!flag_or (options->cycle_momentum, true))
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

static enum accel_status
check_restarts (struct accel_scheduler_options *options, struct accel_error *err)
{
    if (options->cycles != floor (options->cycles))
        return accel_fail (err, ACCEL_ERR_INVALID, "cycles is %g; a cosine with restarts needs a whole number",
                           options->cycles);
    return ACCEL_OK;
}

/* ---- the table ---- */

enum {
    NEEDS_TOTAL_STEPS = 1 << 0,
    NEEDS_MAX_LR = 1 << 1,
    NEEDS_STEP_SIZE = 1 << 2,
    NEEDS_LAMBDA = 1 << 3,
    NEEDS_DECAY_STEPS = 1 << 4,
    NEEDS_STABLE_STEPS = 1 << 5,
};

/* Constant, name, how it has its rates, and with which formula; then what else it has. */
#define SCHEDULES(X)                                                                                       \
    X (CONSTANT, "a constant schedule", factor, constant_factor, .warms_up = true)                         \
    X (LINEAR, "a linear schedule", factor, linear_factor, .warms_up = true, .needs = NEEDS_TOTAL_STEPS)   \
    X (COSINE, "a cosine schedule", factor, cosine_factor, .warms_up = true, .needs = NEEDS_TOTAL_STEPS,   \
       .cycles = 0.5)                                                                                      \
    X (COSINE_RESTARTS, "a cosine schedule with restarts", factor, restarts_factor, .warms_up = true,      \
       .needs = NEEDS_TOTAL_STEPS, .check = check_restarts)                                                \
    X (STEP, "a step schedule", next, next_of_step, .needs = NEEDS_STEP_SIZE)                              \
    X (POLYNOMIAL, "a polynomial schedule", next, next_of_polynomial, .needs = NEEDS_TOTAL_STEPS)          \
    X (ONE_CYCLE, "a one-cycle schedule", rate, one_cycle_rate, .needs = NEEDS_TOTAL_STEPS | NEEDS_MAX_LR, \
       .ends = true, .momentum = one_cycle_momentum, .begin = make_phases, .check = check_one_cycle)       \
    X (LAMBDA, "a custom schedule", factor, lambda_factor, .needs = NEEDS_LAMBDA)                          \
    X (WARMUP_STABLE_DECAY, "a warm-up, stable, decay schedule", factor, warmup_stable_decay,              \
       .needs = NEEDS_DECAY_STEPS | NEEDS_STABLE_STEPS, .cycles = 0.5, .check = check_wsd)

#define ROW(constant, text, how, formula, ...) \
    [ACCEL_SCHEDULE_##constant] = { .name = text, .how = formula, __VA_ARGS__ },
static const struct schedule_kind kinds[] = { SCHEDULES (ROW) };
#undef ROW
#define ROW(...) +1
_Static_assert (SCHEDULES (ROW) == ACCEL_SCHEDULE_KINDS, "one row for each schedule");
#undef ROW

const struct schedule_kind *
schedule_kind_of (const struct accel_scheduler_options *options)
{
    return &kinds[options->schedule];
}

const char *
schedule_name (enum accel_schedule schedule)
{
    return kinds[schedule].name;
}

bool
schedule_is_recursive (const struct schedule *part)
{
    return schedule_kind_of (&part->options)->next;
}

bool
schedule_moves_momentum (const struct accel_scheduler_options *options)
{
    return schedule_kind_of (options)->momentum && flag_or (options->cycle_momentum, true);
}

double
schedule_factor (const struct schedule *part)
{
    const struct schedule_kind *kind = schedule_kind_of (&part->options);
    if (kind->warms_up && part->step < part->options.warmup_steps)
        return warmup_done (&part->options, part->step);
    return kind->factor ? kind->factor (part) : 1;
}

UNFUSED double
schedule_rate (const struct schedule *part, size_t place, double before, double factor)
{
    const struct schedule_kind *kind = schedule_kind_of (&part->options);
    if (kind->rate)
        return kind->rate (part);
    if (!kind->next)
        return part->base_lr[place] * factor;
    return part->step ? kind->next (part, before) : before;
}

bool
schedule_is_at_end (const struct schedule *part)
{
    return schedule_kind_of (&part->options)->ends && part->step >= part->options.total_steps;
}

void
schedule_begin (struct schedule *part, size_t group_count)
{
    const struct schedule_kind *kind = schedule_kind_of (&part->options);
    if (kind->begin)
        kind->begin (part, group_count);
}

/* ---- options ---- */

static void
fill_defaults (const struct schedule_kind *kind, struct accel_scheduler_options *options)
{
    struct {
        double *field, value;
    } defaults[] = {
        { &options->cycles, kind->cycles ? kind->cycles : 1 },
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
check_required (const struct schedule_kind *kind, const struct accel_scheduler_options *options,
                struct accel_error *err)
{
    const struct {
        unsigned need;
        bool is_missing;
        const char *fields;
    } needs[] = {
        { NEEDS_TOTAL_STEPS, !options->total_steps, "total_steps" },
        { NEEDS_MAX_LR, !option_is_given (options->max_lr), "max_lr (ACCEL_ZERO for 0)" },
        { NEEDS_STEP_SIZE, !options->step_size, "step_size" },
        { NEEDS_LAMBDA, !options->lambda, "`lambda`" },
        { NEEDS_DECAY_STEPS, !options->decay_steps, "decay_steps" },
        { NEEDS_STABLE_STEPS, !options->total_steps && !options->stable_steps, "total_steps or stable_steps" },
    };
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (needs[i].need & kind->needs && needs[i].is_missing)
            return accel_fail (err, ACCEL_ERR_INVALID, "%s needs %s", kind->name, needs[i].fields);
    if (kind->warms_up && kind->needs & NEEDS_TOTAL_STEPS && options->warmup_steps > options->total_steps)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: warmup_steps is %llu, but must be at most total_steps, %llu",
                           kind->name, (unsigned long long) options->warmup_steps,
                           (unsigned long long) options->total_steps);
    return ACCEL_OK;
}

enum accel_status
schedule_check_options (struct accel_scheduler_options *options, struct accel_error *err)
{
    if ((unsigned) options->schedule >= ACCEL_SCHEDULE_KINDS)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid schedule %d", (int) options->schedule);
    const struct schedule_kind *kind = schedule_kind_of (options);
    fill_defaults (kind, options);
    enum accel_status status = check_required (kind, options, err);
    if (!status)
        status = flag_check (options->cycle_momentum, "cycle_momentum", err);
    if (!status)
        status = flag_check (options->step_with_optimizer, "step_with_optimizer", err);
    if (status)
        return status;
    if (!isfinite (options->cycles) || !isfinite (options->gamma) || !isfinite (options->power))
        return accel_fail (err, ACCEL_ERR_INVALID, "cycles, gamma and power must be finite");
    if (!(options->final_fraction >= 0) || isinf (options->final_fraction))
        return accel_fail (err, ACCEL_ERR_INVALID, "final_fraction is %g, but must be at least 0 and finite",
                           options->final_fraction);
    return kind->check ? kind->check (options, err) : ACCEL_OK;
}
