/* SPDX-License-Identifier: Apache-2.0 */
/* Schedulers against torch's, transformers' and the original's AcceleratedScheduler.  Learning rates and momenta are
 * torch's bits where no cosine and no power is in them.  Those are libm's, which rounds them one way or the other: they
 * may be off by 2^-52 of the highest rate. */
#include <config.h>

#include "lib/state/state_object.h"
#include "lib/state/state_dict.h"
#include "lib/train/scheduler/schedules.h"
#include "tests/golden/golden.h"
#include "tests/samples.h"
#include "tests/tap.h"

#include <accel/accumulate.h>
#include <accel/loader.h>
#include <accel/scheduler.h>

#include <math.h>

enum { STEPS = 201 };

static float weight, gradient;
static struct accel_model *model;

static void
make_model (void)
{
    static DLTensor data, grad;
    struct accel_parameter parameter = { "w", &data, &grad };
    data = (DLTensor){ .data = &weight, .device = { kDLCPU, 0 }, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    grad = data;
    grad.data = &gradient;
    if (accel_model_create (&model, &parameter, 1, NULL)) {
        printf ("Bail out! no model\n");
        exit (99);
    }
}

/* The same as own() in make_scheduler_goldens.py. */
static double
own (void *user, uint64_t step)
{
    (void) user;
    return 1 / (1 + 0.03125 * (double) step);
}

static struct accel_optimizer *
make_optimizer (bool adam, double lr)
{
    struct accel_optimizer *optimizer = NULL;
    struct accel_optimizer_options options = { .lr = lr, .momentum = adam ? 0 : 0.5 };
    if (accel_optimizer_create (&optimizer, model, adam ? ACCEL_ADAMW : ACCEL_SGD, &options, NULL))
        exit (99);
    return optimizer;
}

struct golden_case {
    struct accel_scheduler_options options;
    struct accel_optimizer *optimizer;
    double lr;
    int processes;
    const char *calls;
};

static void
set_number (struct golden_case *one, const char *key, const char *text)
{
    struct accel_scheduler_options *options = &one->options;
    double value = strtod (text, NULL);
    const struct {
        const char *name;
        uint64_t *whole;
        double *real;
        bool *flag;
    } fields[] = {
        { "warmup_steps", &options->warmup_steps, NULL, NULL },
        { "total_steps", &options->total_steps, NULL, NULL },
        { "step_size", &options->step_size, NULL, NULL },
        { "stable_steps", &options->stable_steps, NULL, NULL },
        { "decay_steps", &options->decay_steps, NULL, NULL },
        { "cycles", NULL, &options->cycles, NULL },
        { "final_fraction", NULL, &options->final_fraction, NULL },
        { "gamma", NULL, &options->gamma, NULL },
        { "power", NULL, &options->power, NULL },
        { "max_lr", NULL, &options->max_lr, NULL },
        { "pct_start", NULL, &options->pct_start, NULL },
        { "div_factor", NULL, &options->div_factor, NULL },
        { "final_div_factor", NULL, &options->final_div_factor, NULL },
        { "base_momentum", NULL, &options->base_momentum, NULL },
        { "max_momentum", NULL, &options->max_momentum, NULL },
        { "base_lr", NULL, &one->lr, NULL },
        { "linear", NULL, NULL, &options->linear },
        { "three_phase", NULL, NULL, &options->three_phase },
        { "split_batches", NULL, NULL, &options->split_batches },
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!strcmp (key, fields[i].name)) {
            if (fields[i].whole)
                *fields[i].whole = (uint64_t) value;
            else if (fields[i].real)
                *fields[i].real = value;
            else
                *fields[i].flag = value != 0;
            return;
        }
    if (!strcmp (key, "warmup_shape"))
        options->warmup_shape = (enum accel_schedule_shape) value;
    else if (!strcmp (key, "decay_shape"))
        options->decay_shape = (enum accel_schedule_shape) value;
    else if (!strcmp (key, "keep_momentum"))
        options->cycle_momentum = value != 0 ? ACCEL_NO : ACCEL_YES;
    else if (!strcmp (key, "without_optimizer"))
        options->step_with_optimizer = value != 0 ? ACCEL_NO : ACCEL_YES;
    else {
        printf ("Bail out! no field %s\n", key);
        exit (99);
    }
}

static size_t named; /* the schedules that golden cases know */

/* NAME KEY=VALUE... up to the word "lr". */
static void
read_case (struct golden *golden, struct golden_case *one, char *name, size_t size)
{
    static const char *const names[]
        = { "constant", "linear", "cosine", "restarts", "step", "polynomial", "one-cycle", "lambda", "wsd" };
    named = sizeof names / sizeof *names;
    bool adam = false;
    char *word = (char *) (uintptr_t) golden_word (golden);
    *one = (struct golden_case){ .options.lambda = own, .processes = 1 };
    snprintf (name, size, "%s", word);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp (word, names[i]))
            one->options.schedule = (enum accel_schedule) i;
    while (strcmp (word = (char *) (uintptr_t) golden_word (golden), "lr")) {
        snprintf (name + strlen (name), size - strlen (name), " %s", word);
        char *value = strchr (word, '=');
        *value++ = '\0';
        if (!strcmp (word, "adam"))
            adam = true;
        else if (!strcmp (word, "calls"))
            one->calls = value;
        else if (!strcmp (word, "processes"))
            one->processes = atoi (value);
        else
            set_number (one, word, value);
    }
    one->optimizer = make_optimizer (adam, one->lr);
}

static double
slack (const struct golden_case *one)
{
    const struct accel_scheduler_options *options = &one->options;
    bool rounded = options->schedule == ACCEL_SCHEDULE_COSINE || options->schedule == ACCEL_SCHEDULE_COSINE_RESTARTS
                   || options->schedule == ACCEL_SCHEDULE_WARMUP_STABLE_DECAY
                   || (options->schedule == ACCEL_SCHEDULE_POLYNOMIAL && options->power)
                   || (options->schedule == ACCEL_SCHEDULE_ONE_CYCLE && !options->linear);
    return rounded ? fmax (1, fmax (one->lr, options->max_lr)) * 0x1p-52 : 0;
}

static void
test_case (struct golden *golden)
{
    struct golden_case one;
    char name[300];
    double wanted[STEPS + 1], rates[STEPS + 1], momenta[STEPS + 1], limit, worst = 0;
    int count = 0, exact = 0;
    struct accel_scheduler *scheduler;
    struct accel_error err = { 0 };
    read_case (golden, &one, name, sizeof name);
    limit = slack (&one);
    const char *word = golden_word (golden);
    for (; *word && *word != 'm'; word = golden_word (golden))
        wanted[count++] = strtod (word, NULL);
    if (accel_scheduler_create (&scheduler, one.optimizer, &one.options, &err)) {
        ok (false, "%s: %s", name, err.text);
        return;
    }
    for (int i = 0; i < count; i++) {
        if (i && accel_scheduler_step (scheduler, &err))
            diag ("step %d: %s", i, err.text);
        rates[i] = accel_scheduler_lr (scheduler);
        worst = fmax (worst, fabs (rates[i] - wanted[i]));
        exact += rates[i] == wanted[i] && rates[i] == accel_optimizer_lr (one.optimizer);
        momenta[i] = *optimizer_momentum (one.optimizer, 0);
    }
    ok (count > 1 && worst <= limit && (limit || exact == count), "%s: %d of %d rates equal, at most %g off", name,
        exact, count, worst);
    if (*word) {
        for (int i = 0; i < count; i++)
            worst = fmax (worst, fabs (momenta[i] - golden_double (golden)));
        ok (worst <= limit, "%s: momenta at most %g off", name, worst);
    }
    accel_scheduler_destroy (scheduler);
    accel_optimizer_destroy (one.optimizer);
}

/* Prepared, on as many processes as the line says. */
static void
test_wrapped (struct golden *golden)
{
    struct golden_case one;
    char name[300];
    struct accel_scheduler *scheduler;
    struct accel_error err = { 0 };
    bool good = true;
    read_case (golden, &one, name, sizeof name);
    struct accel *acc;
    if (accel_open (&acc, NULL, &err) || accel_scheduler_create (&scheduler, one.optimizer, &one.options, &err)
        || accel_prepare (acc, &err, one.optimizer, scheduler)) {
        ok (false, "%s: %s", name, err.text);
        return;
    }
    acc->identity.world_size = one.processes;
    int steps = -1;
    for (const char *word; *(word = golden_word (golden)); steps++) {
        enum accel_status status = ACCEL_OK;
        if (steps >= 0) {
            accel_set_sync_gradients (acc, one.calls[steps] != 'a');
            one.optimizer->step_was_skipped = one.calls[steps] == 'x';
            status = accel_scheduler_step (scheduler, &err);
        }
        bool same = !strcmp (word, "error") ? status == ACCEL_ERR_INVALID
                                            : !status
                                                  && fabs (accel_scheduler_lr (scheduler) - strtod (word, NULL))
                                                         <= slack (&one);
        if (!same)
            diag ("call %d: got %a, wanted %s", steps, accel_scheduler_lr (scheduler), word);
        good = good && same;
    }
    ok (good && steps > 1, "%s", name);
    accel_scheduler_destroy (scheduler);
    accel_optimizer_destroy (one.optimizer);
    accel_close (acc);
}

/* Half of the steps, then the rest by another scheduler: as if there had been one. */
static void
test_state (enum accel_schedule schedule)
{
    struct accel_scheduler_options options = { .schedule = schedule, .warmup_steps = 3, .total_steps = 20,
                                               .step_size = 4, .max_lr = 0.3, .power = 2, .lambda = own };
    struct accel_optimizer *first = make_optimizer (false, 0.1), *second = make_optimizer (false, 0.7);
    struct accel_scheduler *whole, *resumed;
    struct accel_scheduler_state state, again;
    struct accel_error err = { 0 };
    if (accel_scheduler_create (&whole, first, &options, &err)
        || accel_scheduler_create (&resumed, second, &options, &err))
        exit (99);
    for (int i = 0; i < 10; i++)
        if (accel_scheduler_step (whole, &err))
            exit (99);
    accel_scheduler_get_state (whole, &state);
    bool same = !accel_scheduler_set_state (resumed, &state, 1, &err);
    accel_scheduler_get_state (resumed, &again);
    same = same && !memcmp (&state, &again, sizeof state) && state.step == 10;
    for (int i = 0; i < 10; i++) {
        same = same && accel_optimizer_lr (first) == accel_optimizer_lr (second)
               && *optimizer_momentum (first, 0) == *optimizer_momentum (second, 0)
               && accel_scheduler_lr (whole) == accel_scheduler_lr (resumed);
        if (accel_scheduler_step (whole, &err) || accel_scheduler_step (resumed, &err))
            same = false;
    }
    ok (same, "schedule %d continues from its state", (int) schedule);
    ok (accel_scheduler_set_state (NULL, &state, 1, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "accel_scheduler_set_state: scheduler is NULL")
            && accel_scheduler_set_state (resumed, NULL, 1, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "accel_scheduler_set_state: states is NULL"), "%s", err.text);
    state.version++;
    ok (accel_scheduler_set_state (resumed, &state, 1, &err) == ACCEL_ERR_FORMAT, "another version: %s", err.text);
    state.version--;
    state.schedule++;
    ok (accel_scheduler_set_state (resumed, &state, 1, &err) == ACCEL_ERR_FORMAT, "another schedule: %s", err.text);
    state.schedule--;
    state.lr = NAN;
    ok (accel_scheduler_set_state (resumed, &state, 1, &err) == ACCEL_ERR_FORMAT, "an invalid rate: %s", err.text);
    accel_scheduler_destroy (whole);
    accel_scheduler_destroy (resumed);
    accel_optimizer_destroy (first);
    accel_optimizer_destroy (second);
}

/* llm.c's schedulers count warm-up from 1: get_learning_rate() of its llmc/schedulers.h, in double. */
static double
llmc_rate (const struct accel_scheduler_options *options, double base, int step)
{
    double warmup = (double) options->warmup_steps, total = (double) options->total_steps;
    double last = base * options->final_fraction, decay_from = warmup;
    if (step < warmup)
        return base * (step + 1) / warmup;
    if (options->schedule == ACCEL_SCHEDULE_WARMUP_STABLE_DECAY && step < (decay_from = total - options->decay_steps))
        return base;
    if (options->schedule == ACCEL_SCHEDULE_CONSTANT)
        return base;
    double done = (step - decay_from) / (total - decay_from);
    if (options->schedule == ACCEL_SCHEDULE_LINEAR)
        return base - done * (base - last);
    if (options->schedule == ACCEL_SCHEDULE_COSINE)
        return last + 0.5 * (1 + cos (M_PI * done)) * (base - last);
    return last + (1 - sqrt (done)) * (base - last);
}

static void
test_warmup_from_one (void)
{
    static const struct accel_scheduler_options cases[] = {
        { ACCEL_SCHEDULE_CONSTANT, .warmup_steps = 7, .warmup_from_one = true },
        { ACCEL_SCHEDULE_LINEAR, .warmup_steps = 7, .warmup_from_one = true, .total_steps = 40, .final_fraction = 0.1 },
        { ACCEL_SCHEDULE_COSINE, .warmup_steps = 7, .warmup_from_one = true, .total_steps = 40, .final_fraction = 0.1 },
        { ACCEL_SCHEDULE_COSINE, .warmup_steps = 1, .warmup_from_one = true, .total_steps = 40 },
        { ACCEL_SCHEDULE_COSINE, .warmup_from_one = true, .total_steps = 40 },
        { ACCEL_SCHEDULE_WARMUP_STABLE_DECAY, .warmup_steps = 7, .warmup_from_one = true, .total_steps = 40,
          .decay_steps = 8, .decay_shape = ACCEL_SHAPE_ONE_MINUS_SQRT },
    };
    const double base = 0.1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel_optimizer *optimizer = make_optimizer (false, base);
        struct accel_scheduler *scheduler;
        struct accel_error err = { 0 };
        double worst = 0;
        if (accel_scheduler_create (&scheduler, optimizer, &cases[i], &err)) {
            ok (false, "%s", err.text);
            continue;
        }
        double first = accel_optimizer_lr (optimizer);
        for (int step = 0; step <= 40 && !err.code; step++) {
            worst = fmax (worst, fabs (accel_optimizer_lr (optimizer) - llmc_rate (&cases[i], base, step)));
            if (accel_scheduler_step (scheduler, &err))
                diag ("step %d: %s", step, err.text);
        }
        ok (!err.code && first > 0 && worst < 1e-15, "warm-up from 1, case %zu: at most %g from llm.c's", i, worst);
        accel_scheduler_destroy (scheduler);
        accel_optimizer_destroy (optimizer);
    }
}

/* Of 2 ranks that made 2 steps in each call, and of a program that set 3: one rank cannot have half a call. */
static void
test_half_a_call (void)
{
    const struct accel_field field = { .name = "x", .dtype = ACCEL_INT64 };
    struct accel_dataset dataset = { 8, &field, 1, sample_is_index, NULL, NULL };
    struct accel_optimizer *optimizer = make_optimizer (false, 0.1);
    struct accel *acc = NULL;
    struct accel_loader *loader = NULL;
    struct accel_scheduler *scheduler = NULL;
    struct accel_state_dict saved, state;
    AUTO_STRBUF struct strbuf text = { 0 };
    struct accel_error err = { 0 };
    state_dict_init (&saved);
    state_dict_init (&state);
    if (accel_open (&acc, NULL, &err) || accel_loader_create (&loader, &dataset, NULL, &err)
        || accel_scheduler_create (&scheduler, optimizer, &(struct accel_scheduler_options){ 0 }, &err)
        || accel_prepare (acc, &err, optimizer, scheduler, loader))
        exit (99);
    for (int i = 0; i < 3; i++)
        if (accel_scheduler_step (scheduler, &err))
            exit (99);
    scheduler->unit = 2;
    scheduler->shape = step_shape_of (acc, loader);
    scheduler_save (&scheduler->object, &saved);
    state_dict_write (&saved, &text);
    ok (!state_dict_parse (&state, text.text, text.length, &err)
            && scheduler_load (&scheduler->object, &state, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "made 3 steps, 2 in each call, but now makes 1 in each: resume on 2 processes"),
        "%s", err.text);
    state_dict_release (&state);
    state_dict_release (&saved);
    accel_loader_destroy (loader);
    accel_scheduler_destroy (scheduler);
    accel_optimizer_destroy (optimizer);
    accel_close (acc);
}

static void
test_refusals (void)
{
    static const struct accel_scheduler_options refused[] = {
        { .schedule = ACCEL_SCHEDULE_KINDS },
        { .schedule = ACCEL_SCHEDULE_WARMUP_STABLE_DECAY, .total_steps = 9 },
        { .schedule = ACCEL_SCHEDULE_WARMUP_STABLE_DECAY, .decay_steps = 9 },
        { .schedule = ACCEL_SCHEDULE_WARMUP_STABLE_DECAY, .decay_steps = 9, .total_steps = 8 },
        { .schedule = ACCEL_SCHEDULE_WARMUP_STABLE_DECAY, .decay_steps = 9, .total_steps = 20, .stable_steps = 10 },
        { .schedule = ACCEL_SCHEDULE_WARMUP_STABLE_DECAY, .decay_steps = UINT64_MAX, .stable_steps = 1 },
        { .schedule = ACCEL_SCHEDULE_WARMUP_STABLE_DECAY, .decay_steps = 9, .total_steps = 20,
          .decay_shape = (enum accel_schedule_shape) 4 },
        { .schedule = ACCEL_SCHEDULE_LINEAR },
        { .schedule = ACCEL_SCHEDULE_COSINE },
        { .schedule = ACCEL_SCHEDULE_COSINE_RESTARTS },
        { .schedule = ACCEL_SCHEDULE_POLYNOMIAL },
        { .schedule = ACCEL_SCHEDULE_LINEAR, .total_steps = 10, .warmup_steps = 11 },
        { .schedule = ACCEL_SCHEDULE_COSINE, .total_steps = 10, .warmup_steps = 11 },
        { .schedule = ACCEL_SCHEDULE_COSINE_RESTARTS, .total_steps = 10, .warmup_steps = 11 },
        { .schedule = ACCEL_SCHEDULE_LINEAR, .total_steps = 9, .final_fraction = -0.1 },
        { .schedule = (enum accel_schedule) -1 },
        { .schedule = ACCEL_SCHEDULE_STEP },
        { .schedule = ACCEL_SCHEDULE_STEP, .step_size = 1, .gamma = NAN },
        { .schedule = ACCEL_SCHEDULE_LAMBDA },
        { .schedule = ACCEL_SCHEDULE_COSINE, .total_steps = 9, .cycles = INFINITY },
        { .schedule = ACCEL_SCHEDULE_COSINE_RESTARTS, .total_steps = 9, .cycles = 1.5 },
        { .schedule = ACCEL_SCHEDULE_POLYNOMIAL, .total_steps = 9, .power = NAN },
        { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .max_lr = 1 },
        { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 1 },
        { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 1, .max_lr = NAN },
        { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 1, .max_lr = 1, .pct_start = 1.1 },
        { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 1, .max_lr = 1, .div_factor = -1 },
        { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 1, .max_lr = 1, .max_momentum = 1 },
        { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 1, .max_lr = 1, .base_momentum = 1 },
    };
    struct accel_optimizer *optimizer = make_optimizer (false, 0.1), *plain;
    struct accel_optimizer_options sgd = { .lr = 0.1 };
    struct accel_scheduler *scheduler;
    struct accel_error err = { 0 };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        scheduler = (void *) model;
        ok (accel_scheduler_create (&scheduler, optimizer, &refused[i], &err) == ACCEL_ERR_INVALID && !scheduler,
            "refused: %s", err.text);
    }
    ok (accel_optimizer_lr (optimizer) == 0.1, "a refused scheduler leaves the learning rate alone");
    struct accel_scheduler_options cycle = { ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 2, .max_lr = 1 };
    if (accel_optimizer_create (&plain, model, ACCEL_SGD, &sgd, &err))
        exit (99);
    ok (accel_scheduler_create (&scheduler, plain, &cycle, &err) == ACCEL_ERR_INVALID, "SGD without momentum: %s",
        err.text);
    cycle.cycle_momentum = ACCEL_NO;
    ok (!accel_scheduler_create (&scheduler, plain, &cycle, &err), "which need not be changed");
    ok (!accel_scheduler_step (scheduler, &err) && !accel_scheduler_step (scheduler, &err), "to the end");
    ok (accel_scheduler_step (scheduler, &err) == ACCEL_ERR_INVALID, "and not beyond: %s", err.text);
    accel_scheduler_destroy (scheduler);
    /* Phases of no length, by which torch divides. */
    cycle.total_steps = 10;
    for (int i = 0; i < 2; i++) {
        cycle.pct_start = i ? 1 : 0.1;
        bool good = !accel_scheduler_create (&scheduler, plain, &cycle, &err);
        double at_9 = 0; /* where a phase ends, and the next one may have no length */
        for (int step = 0; good && step < 10; step++) {
            at_9 = accel_scheduler_lr (scheduler);
            good = isfinite (at_9) && !accel_scheduler_step (scheduler, &err);
        }
        good = good && isfinite (accel_scheduler_lr (scheduler)) && (i == 0 || at_9 == cycle.max_lr);
        ok (good, "one-cycle with pct_start %g", cycle.pct_start);
        accel_scheduler_destroy (scheduler);
    }
    accel_optimizer_destroy (plain);
    ok (accel_scheduler_create (NULL, optimizer, refused, &err) == ACCEL_ERR_INVALID, "no place: %s", err.text);
    ok (accel_scheduler_create (&scheduler, NULL, refused, &err) == ACCEL_ERR_INVALID, "no optimizer: %s", err.text);
    ok (accel_scheduler_create (&scheduler, optimizer, NULL, &err) == ACCEL_ERR_INVALID, "no options: %s", err.text);
    ok (accel_scheduler_step (NULL, &err) == ACCEL_ERR_INVALID, "a step of none: %s", err.text);
    accel_scheduler_destroy (NULL);
    accel_optimizer_destroy (optimizer);
}

int
main (void)
{
    struct golden golden;
    make_model ();
    golden_find (&golden, "scheduler.txt");
    while (golden_next (&golden))
        if (!strncmp (golden.line, "wrapped ", 8)) {
            golden.rest = golden.line + 8;
            test_wrapped (&golden);
        } else
            test_case (&golden);
    for (int schedule = 0; schedule <= ACCEL_SCHEDULE_LAMBDA; schedule++)
        test_state ((enum accel_schedule) schedule);
    ok (named == ACCEL_SCHEDULE_KINDS, "a name for every schedule");
    test_warmup_from_one ();
    test_half_a_call ();
    test_refusals ();
    accel_model_destroy (model);
    return done_testing ();
}
