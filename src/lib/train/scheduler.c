/* SPDX-License-Identifier: Apache-2.0 */
/* Schedulers: the formulas of torch (torch/optim/lr_scheduler.py) and transformers (optimization.py) in their order of
 * operations, in double, so that learning rates are theirs to the last bit. */
#include <config.h>

#include <accel/scheduler.h>

#include "lib/error.h"
#include "lib/option.h"
#include "lib/state/state_object.h"
#include "lib/train/accumulate.h"
#include "lib/train/arithmetic.h"
#include "lib/train/optimizer.h"

#include <math.h>
#include <stdlib.h>

enum { STATE_VERSION = 1, PHASES = 3 };

/* One-cycle goes from one value to another up to each of these steps. */
struct phase {
    double end_step;
    double start_lr, end_lr;
    double start_momentum, end_momentum;
};

struct accel_scheduler {
    struct object object;
    struct accel_optimizer *optimizer;
    struct accel_scheduler_options options;
    uint64_t step;
    double base_lr, lr;
    double *momentum; /* of the optimizer, NULL where it stays */
    struct phase phases[PHASES];
    int phase_count;
};

/* float (a - b) / float (max (1, c - b)), with Python's integers, which have no end. */
UNFUSED static double
part (uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    double numerator = a >= b ? (double) (a - b) : -(double) (b - a);
    return numerator / (c > d ? (double) (c - d) : 1.0);
}

UNFUSED static double
factor (const struct accel_scheduler *scheduler)
{
    const struct accel_scheduler_options *options = &scheduler->options;
    uint64_t step = scheduler->step, warmup = options->warmup_steps, total = options->total_steps;
    if (options->schedule == ACCEL_SCHEDULE_LAMBDA)
        return options->lambda (options->user, step);
    if (step < warmup)
        return (double) step / (double) warmup;
    if (options->schedule == ACCEL_SCHEDULE_CONSTANT)
        return 1;
    if (options->schedule == ACCEL_SCHEDULE_LINEAR)
        return fmax (0, part (total, step, total, warmup));
    double progress = part (step, warmup, total, warmup);
    if (options->schedule == ACCEL_SCHEDULE_COSINE)
        return fmax (0, 0.5 * (1.0 + cos (M_PI * options->cycles * 2.0 * progress)));
    return progress >= 1 ? 0 : fmax (0, 0.5 * (1.0 + cos (M_PI * fmod (options->cycles * progress, 1.0))));
}

/* From the rate before, as torch has it, so that whoever changes the optimizer's in between is heard. */
UNFUSED static double
polynomial_lr (const struct accel_scheduler *scheduler)
{
    double lr = scheduler->optimizer->lr, total = (double) scheduler->options.total_steps;
    if (!scheduler->step || scheduler->step > scheduler->options.total_steps)
        return lr;
    double now = 1.0 - (double) scheduler->step / total, before = 1.0 - (double) (scheduler->step - 1) / total;
    return lr * pow (now / before, scheduler->options.power);
}

UNFUSED static double
between (bool linear, double start, double end, double part)
{
    return linear ? (end - start) * part + start : end + (start - end) / 2.0 * (cos (M_PI * part) + 1);
}

UNFUSED static double
one_cycle_lr (const struct accel_scheduler *scheduler)
{
    const struct phase *phase = scheduler->phases;
    double step = (double) scheduler->step, start = 0;
    for (; phase < scheduler->phases + scheduler->phase_count - 1 && step > phase->end_step; phase++)
        start = phase->end_step;
    bool linear = scheduler->options.linear;
    double length = phase->end_step - start, done = length ? (step - start) / length : 1; /* torch divides by 0 */
    if (scheduler->momentum)
        *scheduler->momentum = between (linear, phase->start_momentum, phase->end_momentum, done);
    return between (linear, phase->start_lr, phase->end_lr, done);
}

UNFUSED static void
set_rate (struct accel_scheduler *scheduler)
{
    const struct accel_scheduler_options *options = &scheduler->options;
    double lr = scheduler->optimizer->lr;
    if (options->schedule == ACCEL_SCHEDULE_STEP)
        lr = scheduler->step && scheduler->step % options->step_size == 0 ? lr * options->gamma : lr;
    else if (options->schedule == ACCEL_SCHEDULE_POLYNOMIAL)
        lr = polynomial_lr (scheduler);
    else if (options->schedule == ACCEL_SCHEDULE_ONE_CYCLE)
        lr = one_cycle_lr (scheduler);
    else
        lr = scheduler->base_lr * factor (scheduler);
    scheduler->lr = scheduler->optimizer->lr = lr;
}

/* The program's function may destroy the scheduler or its optimizer, which then end with the call. */
static enum accel_status
apply (struct accel_scheduler *scheduler, struct accel_error *err)
{
    struct object *optimizer = &scheduler->optimizer->object;
    object_pin (optimizer);
    object_pin (&scheduler->object);
    set_rate (scheduler);
    const char *gone = object_is_gone (&scheduler->object) ? "scheduler" : NULL;
    gone = object_is_gone (optimizer) ? "optimizer" : gone;
    object_unpin (&scheduler->object);
    object_unpin (optimizer);
    return gone ? accel_fail (err, ACCEL_ERR_CALLBACK, "the schedule's function destroyed its own %s", gone)
                : ACCEL_OK;
}

/* The object is the first member. */
static void
end_scheduler (struct object *object)
{
    state_remove_prepared (object);
    object_let_go (&((struct accel_scheduler *) (void *) object)->optimizer->object);
}

/* The phases of OneCycleLR. */
UNFUSED static void
make_phases (struct accel_scheduler *scheduler)
{
    const struct accel_scheduler_options *options = &scheduler->options;
    double total = (double) options->total_steps, high = options->max_momentum, low = options->base_momentum;
    double max_lr = option_or (options->max_lr, 0), first = max_lr / options->div_factor;
    double last = first / options->final_div_factor;
    struct phase *phase = scheduler->phases;
    *phase++ = (struct phase){ options->pct_start * total - 1, first, max_lr, high, low };
    if (options->three_phase) {
        *phase++ = (struct phase){ 2 * options->pct_start * total - 2, max_lr, first, low, high };
        *phase++ = (struct phase){ total - 1, first, last, high, high };
    } else
        *phase++ = (struct phase){ total - 1, max_lr, last, low, high };
    scheduler->phase_count = (int) (phase - scheduler->phases);
    scheduler->base_lr = first;
}

static void
fill_defaults (struct accel_scheduler_options *options)
{
    struct {
        double *field, value;
    } defaults[] = {
        { &options->cycles, options->schedule == ACCEL_SCHEDULE_COSINE ? 0.5 : 1 },
        { &options->gamma, 0.1 },
        { &options->power, 1 },
        { &options->pct_start, 0.3 },
        { &options->div_factor, 25 },
        { &options->final_div_factor, 1e4 },
        { &options->base_momentum, 0.85 },
        { &options->max_momentum, 0.95 },
    };
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        *defaults[i].field = option_or (*defaults[i].field, defaults[i].value);
    if (options->schedule == ACCEL_SCHEDULE_POLYNOMIAL && !options->total_steps)
        options->total_steps = 5;
}

static enum accel_status
check_one_cycle (const struct accel_scheduler_options *options, const double *momentum, struct accel_error *err)
{
    if (!options->total_steps || !option_is_given (options->max_lr))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "one-cycle needs total_steps and max_lr (ACCEL_ZERO for 0)");
    if (!(options->max_lr >= 0) || isinf (options->max_lr))
        return accel_fail (err, ACCEL_ERR_INVALID, "max_lr is %g, but must be at least 0 and finite", options->max_lr);
    if (!(options->pct_start >= 0) || !(options->pct_start <= 1))
        return accel_fail (err, ACCEL_ERR_INVALID, "pct_start is %g, but must be between 0 and 1", options->pct_start);
    if (!(options->div_factor > 0) || !(options->final_div_factor > 0))
        return accel_fail (err, ACCEL_ERR_INVALID, "div_factor and final_div_factor must be greater than 0");
    if (options->keep_momentum)
        return ACCEL_OK;
    if (!momentum)
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "one-cycle changes momentum or beta1, but this optimizer has neither: set keep_momentum");
    if (!(options->base_momentum >= 0) || !(options->max_momentum >= 0) || !(options->base_momentum < 1)
        || !(options->max_momentum < 1))
        return accel_fail (err, ACCEL_ERR_INVALID, "base_momentum and max_momentum must be at least 0 and less than 1");
    return ACCEL_OK;
}

static enum accel_status
check_options (const struct accel_scheduler_options *options, const double *momentum, struct accel_error *err)
{
    if ((unsigned) options->schedule > ACCEL_SCHEDULE_LAMBDA)
        return accel_fail (err, ACCEL_ERR_INVALID, "invalid schedule %d", (int) options->schedule);
    if (options->schedule == ACCEL_SCHEDULE_STEP && !options->step_size)
        return accel_fail (err, ACCEL_ERR_INVALID, "a step schedule needs step_size");
    if (options->schedule == ACCEL_SCHEDULE_LAMBDA && !options->lambda)
        return accel_fail (err, ACCEL_ERR_INVALID, "a custom schedule needs `lambda`");
    if (options->schedule == ACCEL_SCHEDULE_ONE_CYCLE)
        return check_one_cycle (options, momentum, err);
    if (!isfinite (options->cycles) || !isfinite (options->gamma) || !isfinite (options->power))
        return accel_fail (err, ACCEL_ERR_INVALID, "cycles, gamma and power must be finite");
    if (options->schedule == ACCEL_SCHEDULE_COSINE_RESTARTS && options->cycles != floor (options->cycles))
        return accel_fail (err, ACCEL_ERR_INVALID, "cycles is %g; a cosine with restarts needs a whole number",
                           options->cycles);
    return ACCEL_OK;
}

enum accel_status
accel_scheduler_create (struct accel_scheduler **scheduler, struct accel_optimizer *optimizer,
                        const struct accel_scheduler_options *options, struct accel_error *err)
{
    if (scheduler)
        *scheduler = NULL;
    if (!scheduler || !optimizer || !options)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s is NULL", __func__,
                           !scheduler ? "scheduler" : !optimizer ? "optimizer" : "options");
    if (object_is_gone (&optimizer->object))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the optimizer has been destroyed", __func__);
    struct accel_scheduler_options chosen = *options;
    fill_defaults (&chosen);
    double *momentum = optimizer_momentum (optimizer);
    enum accel_status status = check_options (&chosen, momentum, err);
    if (status)
        return status;
    struct accel_scheduler *made = calloc (1, sizeof *made);
    if (!made)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for a scheduler");
    made->object = (struct object) OBJECT_INIT (OBJECT_SCHEDULER, end_scheduler);
    made->optimizer = optimizer;
    object_hold (&optimizer->object);
    made->options = chosen;
    made->base_lr = optimizer->lr;
    if (chosen.schedule == ACCEL_SCHEDULE_ONE_CYCLE) {
        made->momentum = chosen.keep_momentum ? NULL : momentum;
        make_phases (made);
    }
    status = apply (made, err);
    if (status)
        object_destroy (&made->object);
    else
        *scheduler = made;
    return status;
}

void
accel_scheduler_destroy (struct accel_scheduler *scheduler)
{
    object_destroy (scheduler ? &scheduler->object : NULL);
}

/* @return ACCEL_OK where there is a rate to change. */
static enum accel_status
check_optimizer (const char *function, const struct accel_scheduler *scheduler, struct accel_error *err)
{
    if (!scheduler)
        return accel_fail_null (err, function, "scheduler");
    if (object_is_gone (&scheduler->optimizer->object))
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: the scheduler's optimizer has been destroyed", function);
    return ACCEL_OK;
}

static bool
is_at_end (const struct accel_scheduler *scheduler)
{
    return scheduler->options.schedule == ACCEL_SCHEDULE_ONE_CYCLE && scheduler->step >= scheduler->options.total_steps;
}

static enum accel_status
step_once (struct accel_scheduler *scheduler, struct accel_error *err)
{
    if (is_at_end (scheduler))
        return accel_fail (err, ACCEL_ERR_INVALID, "accel_scheduler_step: all %llu steps of one-cycle are done",
                           (unsigned long long) scheduler->options.total_steps);
    scheduler->step++;
    return apply (scheduler, err);
}

enum accel_status
accel_scheduler_step (struct accel_scheduler *scheduler, struct accel_error *err)
{
    enum accel_status status = check_optimizer (__func__, scheduler, err);
    if (status)
        return status;
    const struct accel *acc = scheduler->object.owner;
    if (!acc || scheduler->options.without_optimizer)
        return step_once (scheduler, err);
    if (accumulate_waits (&scheduler->object) || scheduler->optimizer->step_was_skipped)
        return ACCEL_OK;
    if (scheduler->options.split_batches)
        return step_once (scheduler, err);
    for (int i = 0; !status && i < acc->identity.world_size && !is_at_end (scheduler); i++)
        status = step_once (scheduler, err);
    return status;
}

void
scheduler_note_numbers (const struct accel_scheduler *scheduler, struct noted_numbers *numbers)
{
    static const char *const names[] = {
        "a constant schedule", "a linear schedule", "a cosine schedule", "a cosine schedule with restarts",
        "a step schedule", "a polynomial schedule", "a one-cycle schedule", "a custom schedule",
    };
    const struct accel_scheduler_options *options = &scheduler->options;
    numbers->what = names[options->schedule];
    numbers_add (numbers, "the first learning rate", scheduler->base_lr);
    numbers_add (numbers, "lr", scheduler->lr);
    numbers_add (numbers, "the number of steps done", (double) scheduler->step);
    numbers_add (numbers, "the position of its optimizer in accel_prepare", (double)
                          scheduler->optimizer->object.number);
    numbers_add (numbers, "warmup_steps", (double) options->warmup_steps);
    numbers_add (numbers, "total_steps", (double) options->total_steps);
    numbers_add (numbers, "cycles", options->cycles);
    numbers_add (numbers, "step_size", (double) options->step_size);
    numbers_add (numbers, "gamma", options->gamma);
    numbers_add (numbers, "power", options->power);
    numbers_add (numbers, "max_lr", options->max_lr);
    numbers_add (numbers, "pct_start", options->pct_start);
    numbers_add (numbers, "div_factor", options->div_factor);
    numbers_add (numbers, "final_div_factor", options->final_div_factor);
    numbers_add (numbers, "linear", options->linear);
    numbers_add (numbers, "three_phase", options->three_phase);
    numbers_add (numbers, "keep_momentum", options->keep_momentum);
    numbers_add (numbers, "base_momentum", options->base_momentum);
    numbers_add (numbers, "max_momentum", options->max_momentum);
    numbers_add (numbers, "without_optimizer", options->without_optimizer);
    numbers_add (numbers, "split_batches", options->split_batches);
}

double
accel_scheduler_lr (const struct accel_scheduler *scheduler)
{
    return scheduler ? scheduler->lr : 0;
}

void
accel_scheduler_get_state (const struct accel_scheduler *scheduler, struct accel_scheduler_state *state)
{
    if (!state)
        return;
    *state = (struct accel_scheduler_state){ 0 };
    if (!scheduler)
        return;
    *state = (struct accel_scheduler_state){
        .version = STATE_VERSION,
        .schedule = (uint32_t) scheduler->options.schedule,
        .step = scheduler->step,
        .base_lr = scheduler->base_lr,
        .lr = scheduler->lr,
        .momentum = scheduler->momentum ? *scheduler->momentum : 0,
    };
}

enum accel_status
accel_scheduler_set_state (struct accel_scheduler *scheduler, const struct accel_scheduler_state *state,
                           struct accel_error *err)
{
    if (!scheduler || !state)
        return accel_fail (err, ACCEL_ERR_INVALID, "%s: %s is NULL", __func__, scheduler ? "state" : "scheduler");
    enum accel_status status = check_optimizer (__func__, scheduler, err);
    if (status)
        return status;
    if (state->version != STATE_VERSION || !isfinite (state->lr) || !isfinite (state->base_lr)
        || !isfinite (state->momentum))
        return accel_fail (err, ACCEL_ERR_FORMAT, "not a scheduler state, or from a different release");
    if (state->schedule != (uint32_t) scheduler->options.schedule)
        return accel_fail (err, ACCEL_ERR_FORMAT, "the state belongs to schedule %u, but the scheduler has schedule %d",
                           state->schedule, (int) scheduler->options.schedule);
    scheduler->step = state->step;
    scheduler->base_lr = state->base_lr;
    scheduler->lr = scheduler->optimizer->lr = state->lr;
    if (scheduler->momentum)
        *scheduler->momentum = state->momentum;
    return ACCEL_OK;
}
