/* SPDX-License-Identifier: Apache-2.0 */
/* All optimizers against torch's over 200 steps, as in test_optimizer.c: SGD and Lion have torch's bits, Adam and AdamW
 * those of torch with exact square roots ("-nearest"), and are 2 ulp from torch as it is.  Then what optimizers
 * remember, the program's own, threads and instruction sets, and clipping: norms within 2 ulp of torch's, gradients too
 * (their factor is computed from the norm). */
#include <config.h>

#include "lib/train/optimizer/optimizer_object.h"
#include "tests/golden/golden.h"
#include "tests/tap.h"
#include "tests/unit/train/small_model.h"

#include <math.h>
#include <signal.h>

enum { SEED = 2027, LARGE = (1 << 20) + 13 };

static struct accel_optimizer *
make_optimizer (struct golden *golden, char *name, size_t size)
{
    double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0, momentum = 0;
    double nesterov = 0, amsgrad = 0, maximize = 0, alpha = 0, lr_decay = 0, initial = 0, centered = 0;
    const struct {
        const char *key;
        double *value;
    } fields[] = {
        { "lr", &lr }, { "beta1", &beta1 }, { "beta2", &beta2 }, { "eps", &eps }, { "weight_decay", &weight_decay },
        { "momentum", &momentum }, { "nesterov", &nesterov }, { "amsgrad", &amsgrad }, { "maximize", &maximize },
        { "alpha", &alpha }, { "lr_decay", &lr_decay }, { "initial_accumulator_value", &initial },
        { "centered", &centered },
    };
    struct accel_optimizer *made = NULL;
    const char *kind = golden_word (golden), *word;
    snprintf (name, size, "%s", kind);
    while (strcmp (word = golden_word (golden), "steps")) {
        snprintf (name + strlen (name), size - strlen (name), " %s", word);
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
            size_t length = strlen (fields[i].key);
            if (!strncmp (word, fields[i].key, length) && word[length] == '=')
                *fields[i].value = strtod (word + length + 1, NULL);
        }
    }
    struct accel_optimizer_options options = {
        .lr = lr, .weight_decay = accel_exactly (weight_decay), .beta1 = beta1, .beta2 = beta2, .eps = eps,
        .momentum = momentum, .alpha = alpha, .lr_decay = lr_decay, .initial_accumulator_value = initial,
        .nesterov = nesterov != 0, .amsgrad = amsgrad != 0, .centered = centered != 0, .maximize = maximize != 0,
    };
    struct accel_error err = { 0 };
    enum accel_status status = accel_optimizer_create (&made, model, golden_kind (kind), &options, &err);
    if (status)
        diag ("%s", err.text);
    return made;
}

static void
test_trajectory (struct golden *golden)
{
    char name[160];
    struct accel_optimizer *optimizer = make_optimizer (golden, name, sizeof name);
    if (!ok (optimizer != NULL, "%s", name))
        return;
    int steps = (int) golden_number (golden);
    double worst = 0, limit = !strncmp (name, "adam", 4) && !strstr (name, "nearest") ? 2 : 0;
    train (optimizer, SEED, steps, false);
    for (int i = 0; i < COUNT; i++)
        worst = fmax (worst, ulps (values[i], golden_float (golden)));
    ok (worst <= limit, "%d steps: at most %g ulp off", steps, worst);
    accel_optimizer_destroy (optimizer);
}

static void
draw_gradients (struct golden *golden)
{
    struct accel_generator *generator;
    if (accel_generator_create (&generator, golden_number (golden), NULL))
        exit (99);
    float factor = (float) golden_double (golden);
    for (int i = 0; i < COUNT; i++)
        gradients[i] = (accel_generator_uniform (generator) * 2 - 1) * factor;
    const char *special = golden_word (golden);
    if (strcmp (special, "-") != 0)
        gradients[25 + 3] = strtof (special, NULL);
    accel_generator_destroy (generator);
}

static void
test_clip (struct golden *golden)
{
    bool by_value = !strcmp (golden_word (golden), "value");
    struct accel_error err = { 0 };
    double worst = 0, p = 0;
    float norm = 0;
    draw_gradients (golden);
    double limit = golden_double (golden);
    if (by_value) {
        ok (!accel_clip_grad_value (model, limit, &err), "clip_grad_value %g", limit);
    } else {
        p = golden_double (golden);
        ok (!accel_clip_grad_norm (model, limit, &norm, &(struct accel_clip_options){ .norm_type = accel_exactly (p) },
                                   &err), "clip_grad_norm %g p %g", limit, p);
        worst = ulps (norm, golden_float (golden));
    }
    ok (worst <= 2, "its norm %g is %g ulp off", (double) norm, worst);
    worst = 0;
    for (int i = 0; i < COUNT; i++)
        worst = fmax (worst, ulps (gradients[i], golden_float (golden)));
    ok (worst <= (by_value ? 0 : 3), "gradients at most %g ulp off", worst);
}

static void
test_clip_errors (void)
{
    struct accel_error err = { 0 };
    float norm = -1, before[COUNT];
    for (int i = 0; i < COUNT; i++)
        gradients[i] = (float) i;
    gradients[30] = NAN;
    memcpy (before, gradients, sizeof before);
    ok (accel_clip_grad_norm (model, 1, &norm, &(struct accel_clip_options){ .error_if_nonfinite = true },
                              &err) == ACCEL_ERR_INVALID && norm == -1, "NaN: %s", err.text);
    ok (!memcmp (before, gradients, sizeof before), "gradients are as they were");
    gradients[30] = -INFINITY;
    ok (accel_clip_grad_norm (model, 1, NULL,
                              &(struct accel_clip_options){ .norm_type = INFINITY, .error_if_nonfinite = true },
                              &err) == ACCEL_ERR_INVALID, "infinity: %s", err.text);
    ok (accel_clip_grad_norm (model, -1, NULL, NULL, &err) == ACCEL_ERR_INVALID, "%s", err.text);
    ok (accel_clip_grad_norm (model, 1, NULL, &(struct accel_clip_options){ .norm_type = 0.5 },
                              &err) == ACCEL_ERR_INVALID, "%s", err.text);
    ok (accel_clip_grad_norm (model, 1, NULL, &(struct accel_clip_options){ .norm_type = NAN },
                              &err) == ACCEL_ERR_INVALID, "%s", err.text);
    ok (accel_clip_grad_norm (NULL, 1, NULL, NULL, &err) == ACCEL_ERR_INVALID, "%s", err.text);
    ok (accel_clip_grad_value (model, -1, &err) == ACCEL_ERR_INVALID, "%s", err.text);
    ok (accel_clip_grad_value (NULL, 1, &err) == ACCEL_ERR_INVALID, "%s", err.text);
    for (int i = 0; i < COUNT; i++)
        gradients[i] = 0;
}

/* Half of the steps by one, the rest by another that was given what the first remembers: as if there had been one. */
static void
test_states (void)
{
    static const char *const names[] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq" };
    struct accel_optimizer_options options = { .amsgrad = true };
    struct accel_optimizer *whole, *first, *second;
    float wanted[COUNT];
    if (accel_optimizer_create (&whole, model, ACCEL_ADAM, &options, NULL)
        || accel_optimizer_create (&first, model, ACCEL_ADAM, &options, NULL)
        || accel_optimizer_create (&second, model, ACCEL_ADAM, &options, NULL))
        exit (99);
    ok (!accel_optimizer_state_name (first, 3), "no fourth name");
    for (size_t i = 0; i < 3; i++)
        is_text (accel_optimizer_state_name (first, i), names[i], names[i]);
    train (whole, SEED, 7, false);
    memcpy (wanted, values, sizeof values);
    for (int i = 0; i < COUNT; i++)
        values[i] = 1;
    accel_optimizer_set_step_count (whole, 0);
    train (first, SEED, 6, false);
    bool good = true;
    for (size_t i = 0; i < TENSORS; i++)
        for (int j = 0; j < 3; j++) {
            DLTensor *from = accel_optimizer_state_tensor (first, i, names[j]);
            DLTensor *to = accel_optimizer_state_tensor (second, i, names[j]);
            good = good && from && to && from->ndim == data[i].ndim
                   && accel_tensor_count (from) == accel_tensor_count (&data[i]) && (uintptr_t) from->data % 64 == 0;
            memcpy (to->data, from->data, accel_tensor_count (from) * sizeof (float));
        }
    ok (good, "states have their parameters' shapes");
    accel_optimizer_set_step_count (second, accel_optimizer_step_count (first));
    /* The gradients of step 7. */
    struct accel_generator *generator;
    if (accel_generator_create (&generator, 2027, NULL))
        exit (99);
    for (int i = 0; i < COUNT * 7; i++)
        (void) accel_generator_uniform (generator);
    for (int i = 0; i < COUNT; i++)
        gradients[i] = accel_generator_uniform (generator) * 2 - 1;
    accel_generator_destroy (generator);
    ok (!accel_optimizer_step (second, NULL) && !memcmp (values, wanted, sizeof values), "continues from the states");
    ok (!accel_optimizer_state_tensor (first, 0, "momentum_buffer"), "no such state");
    ok (!accel_optimizer_state_tensor (first, TENSORS, "exp_avg"), "no such parameter");
    accel_optimizer_destroy (whole);
    accel_optimizer_destroy (first);
    accel_optimizer_destroy (second);
}

/* An optimizer of the program's own: heavy-ball momentum, and a state of another shape that counts. */
struct own {
    int steps, inits, destroyed;
    const char *fail;
};

static enum accel_status
own_shape (void *user, const struct accel_parameter *parameter, size_t state, int *ndim, int64_t *shape,
           struct accel_error *err)
{
    struct own *own = user;
    (void) err;
    *ndim = state ? 1 : parameter->data->ndim;
    for (int i = 0; i < *ndim; i++)
        shape[i] = state ? 2 : parameter->data->shape[i];
    if (own->fail && !strcmp (own->fail, "dims"))
        *ndim = 99;
    if (own->fail && !strcmp (own->fail, "no dims"))
        *ndim = -1;
    if (own->fail && !strcmp (own->fail, "size"))
        shape[0] = -1;
    return own->fail && !strcmp (own->fail, "shape") ? ACCEL_ERR_UNSUPPORTED : ACCEL_OK;
}

static enum accel_status
own_init (void *user, const struct accel_update *update, struct accel_error *err)
{
    struct own *own = user;
    own->inits++;
    ((float *) update->states[1]->data)[1] = (float) update->index + 0.5F;
    if (!own->fail || strcmp (own->fail, "init") != 0)
        return ACCEL_OK;
    snprintf (err->text, sizeof err->text, "no init");
    return err->code = ACCEL_ERR_INVALID;
}

static enum accel_status
own_step (void *user, const struct accel_update *update, struct accel_error *err)
{
    struct own *own = user;
    float *parameter = update->parameter->data->data, *velocity = update->states[0]->data;
    const float *grad = update->parameter->grad->data;
    for (size_t i = 0; i < accel_tensor_count (update->parameter->data); i++) {
        velocity[i] = 0.9F * velocity[i] + grad[i];
        parameter[i] += (float) -update->lr * velocity[i];
    }
    ((float *) update->states[1]->data)[0] = (float) update->step;
    own->steps++;
    if (!own->fail || strcmp (own->fail, "step") != 0)
        return ACCEL_OK;
    snprintf (err->text, sizeof err->text, "no step");
    return err->code = ACCEL_ERR_INVALID;
}

static void
own_destroy (void *user)
{
    ((struct own *) user)->destroyed++;
}

static const char *const own_names[] = { "velocity", "counter", "velocity" };

static void
test_custom (void)
{
    struct own own = { 0 };
    struct accel_custom_optimizer options = { .lr = 0.05, .state_names = own_names, .state_count = 2,
                                              .shape = own_shape, .init = own_init, .step = own_step,
                                              .destroy = own_destroy, .user = &own };
    struct accel_optimizer_options sgd = { .lr = 0.05, .momentum = 0.9 };
    struct accel_optimizer *optimizer, *torch;
    struct accel_error err = { 0 };
    float wanted[COUNT];
    if (accel_optimizer_create (&torch, model, ACCEL_SGD, &sgd, &err))
        exit (99);
    train (torch, SEED, 20, false);
    memcpy (wanted, values, sizeof values);
    accel_optimizer_destroy (torch);
    if (!ok (!accel_optimizer_create_custom (&optimizer, model, &options, &err), "an optimizer of one's own"))
        return;
    train (optimizer, SEED, 20, false);
    ok (!memcmp (wanted, values, sizeof values), "computes what SGD does");
    ok (own.steps == 20 * TENSORS && own.inits == TENSORS, "sees each parameter in each step");
    const DLTensor *counter = accel_optimizer_state_tensor (optimizer, 2, "counter");
    ok (counter && counter->ndim == 1 && counter->shape[0] == 2 && ((float *) counter->data)[0] == 20
            && ((float *) counter->data)[1] == 2.5F,
        "a state of its own shape");
    ok (!optimizer_momentum (optimizer, 0), "has no momentum that a scheduler could change");
    own.fail = "step";
    ok (accel_optimizer_step (optimizer, &err) == ACCEL_ERR_CALLBACK, "%s", err.text);
    accel_optimizer_destroy (optimizer);
    ok (own.destroyed == 1, "is destroyed once");
}

static void
test_custom_errors (void)
{
    static const char *const no_names[] = { "velocity", NULL };
    static const struct {
        const char *fail;
        struct accel_custom_optimizer options;
        enum accel_status status;
    } cases[] = {
        { "shape", { .lr = 1, .shape = own_shape, .step = own_step }, ACCEL_ERR_CALLBACK },
        { "dims", { .lr = 1, .shape = own_shape, .step = own_step }, ACCEL_ERR_INVALID },
        { "no dims", { .lr = 1, .shape = own_shape, .step = own_step }, ACCEL_ERR_INVALID },
        { "size", { .lr = 1, .shape = own_shape, .step = own_step }, ACCEL_ERR_INVALID },
        { "init", { .lr = 1, .init = own_init, .step = own_step }, ACCEL_ERR_CALLBACK },
        { NULL, { .lr = 1 }, ACCEL_ERR_INVALID },
        { NULL, { .step = own_step }, ACCEL_ERR_INVALID },
        { NULL, { .lr = NAN, .step = own_step }, ACCEL_ERR_INVALID },
        { NULL, { .lr = 1, .step = own_step, .state_names = own_names, .state_count = 3 }, ACCEL_ERR_INVALID },
        { NULL, { .lr = 1, .step = own_step, .state_names = no_names, .state_count = 2 }, ACCEL_ERR_INVALID },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct own own = { .fail = cases[i].fail };
        struct accel_custom_optimizer options = cases[i].options;
        struct accel_optimizer *optimizer = (void *) model;
        struct accel_error err = { 0 };
        options.destroy = own_destroy;
        options.user = &own;
        if (!options.state_names) {
            options.state_names = own_names;
            options.state_count = 2;
        }
        enum accel_status status = accel_optimizer_create_custom (&optimizer, model, &options, &err);
        ok (status == cases[i].status && !optimizer && own.destroyed == 1, "refused: %s", err.text);
    }
    struct accel_optimizer *optimizer;
    struct accel_error err = { 0 };
    struct accel_optimizer_options adam = { .beta2 = 1 };
    struct accel_optimizer_options lion = { .lr = -1 };
    ok (accel_optimizer_create_custom (&optimizer, model, NULL, &err) == ACCEL_ERR_INVALID, "no options: %s", err.text);
    ok (accel_optimizer_create (&optimizer, model, ACCEL_ADAM, &adam, &err) == ACCEL_ERR_INVALID, "Adam: %s", err.text);
    ok (accel_optimizer_create (&optimizer, NULL, ACCEL_ADAM, NULL, &err) == ACCEL_ERR_INVALID, "Adam: %s", err.text);
    ok (accel_optimizer_create (&optimizer, model, ACCEL_LION, &lion, &err) == ACCEL_ERR_INVALID, "Lion: %s", err.text);
    ok (accel_optimizer_create (NULL, model, ACCEL_LION, NULL, &err) == ACCEL_ERR_INVALID, "Lion: %s", err.text);
}

/* The host's, on a processor without AVX2. */
static void
update_base (DLDevice device, const struct memory_update *update)
{
    (void) device;
    rules_base.loops[update->rule] (update->numbers, update->parameter, update->grad, update->state, update->count);
}

/* A parameter for all threads, and a small one, which only the first has: the bits of one thread, and of SSE2. */
static void
test_threads (int kind)
{
    static const char *const names[] = { "SGD", "Adam", "Lion" };
    int64_t shape[] = { LARGE }, small[] = { 3 };
    float *memory = calloc (3, (LARGE + 3) * sizeof *memory);
    DLTensor tensors[4];
    if (!memory)
        exit (99);
    float *results = memory + 2 * (LARGE + 3);
    for (int i = 0; i < 4; i++)
        tensors[i] = (DLTensor){ .data = memory + (i / 2) * (LARGE + 3) + (i % 2 ? LARGE : 0), .device = { kDLCPU, 0 },
                                 .ndim = 1, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32),
                                 .shape = i % 2 ? small : shape };
    struct accel_parameter parameters[]
        = { { "small", &tensors[1], &tensors[3] }, { "large", &tensors[0], &tensors[2] } };
    struct accel_model *big;
    struct accel_optimizer *optimizer;
    struct accel_optimizer_options sgd = { .lr = 0.1, .momentum = 0.9 };
    struct accel_optimizer_options adam = { .amsgrad = true, .weight_decay = 0.1 }, lion = { .lr = 0 };
    bool same = true;
    if (accel_model_create (&big, parameters, 2, NULL))
        exit (99);
    for (int run = 0; run < 3; run++) {
        for (int i = 0; i < LARGE + 3; i++)
            memory[i] = (float) (i % 1013) / 7;
        sgd.threads = adam.threads = lion.threads = run ? 3 : 1;
        if (kind == 0   ? accel_optimizer_create (&optimizer, big, ACCEL_SGD, &sgd, NULL)
            : kind == 1 ? accel_optimizer_create (&optimizer, big, ACCEL_ADAM, &adam, NULL)
                        : accel_optimizer_create (&optimizer, big, ACCEL_LION, &lion, NULL))
            exit (99);
        static struct memory base; /* the model is destroyed with it */
        base = memory_host;
        base.update = update_base;
        if (run == 2)
            big->memory = &base;
        for (int step = 0; step < 3; step++) {
            for (int i = 0; i < LARGE + 3; i++)
                memory[LARGE + 3 + i] = (float) ((i + step * 37) % 509) / 100 - 2.5F;
            if (accel_optimizer_step (optimizer, NULL))
                exit (99);
        }
        same = same && (!run || !memcmp (results, memory, (LARGE + 3) * sizeof *memory));
        memcpy (results, memory, (LARGE + 3) * sizeof *memory);
        accel_optimizer_destroy (optimizer);
    }
    ok (same, "%s: the same bits with one thread, with three, and on any processor", names[kind]);
    sigset_t mask;
    ok (!pthread_sigmask (SIG_BLOCK, NULL, &mask) && !sigismember (&mask, SIGUSR1), "and signals come as before");
    accel_model_destroy (big);
    free (memory);
}

/* A 16-bit parameter, and another one in its last third: with many threads, too, the latter is the last to be written,
 * although a thread that begins with it is sooner there than the one that has these elements of the first. */
static void
test_tied (void)
{
    enum { PART = LARGE / 3, ONE = 0x3f80, TWO = 0x4000, MINUS = 0x8000 };
    int64_t whole[] = { LARGE }, part[] = { PART };
    uint16_t *memory = calloc (2 * LARGE + PART, sizeof *memory);
    if (!memory)
        exit (99);
    const DLTensor like = { .device = { kDLCPU, 0 }, .ndim = 1, .dtype = accel_dtype_to_dl (ACCEL_BFLOAT16) };
    DLTensor first = like, end = like, grad = like, end_grad = like;
    first.shape = grad.shape = whole;
    end.shape = end_grad.shape = part;
    first.data = memory;
    end.data = memory + LARGE - PART;
    grad.data = memory + LARGE;
    end_grad.data = memory + 2 * LARGE;
    for (int i = 0; i < LARGE + PART; i++)
        memory[LARGE + i] = i < LARGE ? ONE : TWO;
    struct accel_parameter parameters[] = { { "whole", &first, &grad }, { "end", &end, &end_grad } };
    const struct accel_optimizer_options sgd = { .lr = 1, .threads = 4 };
    struct accel_optimizer *optimizer;
    struct accel_model *tied;
    if (accel_model_create (&tied, parameters, 2, NULL)
        || accel_optimizer_create (&optimizer, tied, ACCEL_SGD, &sgd, NULL) || accel_optimizer_step (optimizer, NULL))
        exit (99);
    int wrong = 0;
    for (int i = 0; i < LARGE; i++)
        wrong += memory[i] != (MINUS | (i < LARGE - PART ? ONE : TWO));
    ok (!wrong, "tied parameters are changed in their order: %d elements are not", wrong);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (tied);
    free (memory);
}

int
main (void)
{
    struct golden golden;
    make_model ();
    golden_find (&golden, "optimizer_200.txt");
    while (golden_next (&golden))
        test_trajectory (&golden);
    golden_find (&golden, "clip.txt");
    while (golden_next (&golden))
        test_clip (&golden);
    test_clip_errors ();
    test_states ();
    test_custom ();
    test_custom_errors ();
    for (int kind = 0; kind < 3; kind++)
        test_threads (kind);
    test_tied ();
    accel_model_destroy (model);
    return done_testing ();
}
