/* SPDX-License-Identifier: Apache-2.0 */
/* Parameter groups: 50 steps of every optimizer and schedule over several groups against torch, bit for bit; how
 * parameters are chosen, and what is refused; what groups show, and what may be changed. */
#include <config.h>

#include "tests/golden/golden.h"
#include "tests/must.h"
#include "tests/tap.h"

#include <accel/accel.h>

#include <math.h>

enum { TENSORS = 7, TRAINED = 6, ELEMENTS = 62, SEED = 2029, MOST = 4 };

static const char *const names[TENSORS]
    = { "wte", "h.0.attn.weight", "h.0.attn.bias", "h.0.ln_1.weight", "ln_f.bias", "head", "mask.buffer" };
static int64_t shapes[][2] = { { 3, 5 }, { 4, 4 }, { 7 }, { 5 }, { 1 }, { 2, 9 }, { 2 } };
static const int dims[] = { 2, 2, 1, 1, 0, 2, 1 };
static float values[ELEMENTS + 2], grads[ELEMENTS];
static DLTensor data[TENSORS], grad[TENSORS];
static struct accel_model *model;

static void
make_model (void)
{
    struct accel_parameter parameters[TENSORS];
    size_t first = 0;
    for (size_t i = 0; i < TENSORS; i++) {
        data[i] = (DLTensor){ .data = values + first, .device = { kDLCPU, 0 }, .ndim = dims[i],
                              .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .shape = shapes[i] };
        grad[i] = data[i];
        grad[i].data = grads + first;
        parameters[i] = (struct accel_parameter){ names[i], &data[i], i < TRAINED ? &grad[i] : NULL };
        first += accel_tensor_count (&data[i]);
    }
    if (accel_model_create (&model, parameters, TENSORS, &err)) {
        printf ("Bail out! %s\n", err.text);
        exit (99);
    }
}

struct setup {
    char name[500], kind[24];
    struct accel_param_group base, groups[MOST];
    const char *lists[MOST][TENSORS];
    size_t group_count;
    bool sequential, chained;
    uint64_t milestones[MOST];
    struct accel_scheduler_options schedules[MOST];
    int group_of[MOST]; /* the group that a schedule moves; -1: all */
    size_t schedule_count;
    double limit;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    struct accel_generator *generator;
};

/* The words between commas. */
static size_t
split (char *text, const char **words)
{
    size_t count = 0;
    for (char *word = strtok (text, ","); word; word = strtok (NULL, ","))
        words[count++] = word;
    return count;
}

static void
set_group (struct setup *setup, struct accel_param_group *group, char *key)
{
    char *text = strchr (key, '=');
    *text++ = '\0';
    double value = strtod (text, NULL);
    const struct {
        const char *name;
        double *number;
        enum accel_flag *flag;
    } fields[] = {
        { "lr", &group->lr, NULL },
        { "weight_decay", &group->weight_decay, NULL },
        { "beta1", &group->beta1, NULL },
        { "beta2", &group->beta2, NULL },
        { "eps", &group->eps, NULL },
        { "momentum", &group->momentum, NULL },
        { "dampening", &group->dampening, NULL },
        { "nesterov", NULL, &group->nesterov },
        { "amsgrad", NULL, &group->amsgrad },
        { "maximize", NULL, &group->maximize },
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!strcmp (key, fields[i].name)) {
            if (fields[i].number)
                *fields[i].number = accel_exactly (value);
            else
                *fields[i].flag = value != 0 ? ACCEL_YES : ACCEL_NO;
            return;
        }
    if (!strcmp (key, "match"))
        group->match = text;
    else if (!strcmp (key, "names")) {
        group->parameters = setup->lists[group - setup->groups];
        group->parameter_count = split (text, setup->lists[group - setup->groups]);
    }
}

static void
set_schedule (struct setup *setup, char *key)
{
    size_t at = setup->schedule_count - 1;
    struct accel_scheduler_options *options = &setup->schedules[at];
    char *text = strchr (key, '=');
    *text++ = '\0';
    double value = strtod (text, NULL);
    const struct {
        const char *name;
        uint64_t *whole;
        double *real;
    } fields[] = {
        { "warmup_steps", &options->warmup_steps, NULL }, { "total_steps", &options->total_steps, NULL },
        { "decay_steps", &options->decay_steps, NULL },   { "step_size", &options->step_size, NULL },
        { "gamma", NULL, &options->gamma },               { "power", NULL, &options->power },
        { "final_fraction", NULL, &options->final_fraction }, { "max_lr", NULL, &options->max_lr },
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!strcmp (key, fields[i].name)) {
            if (fields[i].whole)
                *fields[i].whole = (uint64_t) value;
            else
                *fields[i].real = value;
            return;
        }
    if (!strcmp (key, "group"))
        setup->group_of[at] = (int) value;
    else if (!strcmp (key, "keep_momentum"))
        options->cycle_momentum = ACCEL_NO;
}

static void
add_schedule (struct setup *setup, const char *name)
{
    static const struct {
        const char *name;
        enum accel_schedule schedule;
    } kinds[] = {
        { "linear", ACCEL_SCHEDULE_LINEAR },         { "cosine", ACCEL_SCHEDULE_COSINE },
        { "step", ACCEL_SCHEDULE_STEP },             { "polynomial", ACCEL_SCHEDULE_POLYNOMIAL },
        { "one-cycle", ACCEL_SCHEDULE_ONE_CYCLE },   { "wsd", ACCEL_SCHEDULE_WARMUP_STABLE_DECAY },
    };
    size_t at = setup->schedule_count++;
    setup->group_of[at] = -1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp (name, kinds[i].name))
            setup->schedules[at].schedule = kinds[i].schedule;
}

static void
read_setup (struct golden *golden, struct setup *setup)
{
    *setup = (struct setup){ .group_count = 0 };
    const char *end = strstr (golden->rest, " at ");
    snprintf (setup->name, sizeof setup->name, "%.*s", end ? (int) (end - golden->rest) : 0, golden->rest);
    snprintf (setup->kind, sizeof setup->kind, "%s", golden_word (golden));
    struct accel_param_group *group = &setup->base;
    char *word;
    while (strcmp (word = (char *) (uintptr_t) golden_word (golden), "clip") != 0) {
        if (!strcmp (word, "group"))
            group = &setup->groups[setup->group_count++];
        else if (!strcmp (word, "sequential")) {
            const char *steps[MOST];
            size_t count = split ((char *) (uintptr_t) golden_word (golden), steps);
            setup->sequential = true;
            for (size_t i = 0; i < count; i++)
                setup->milestones[i] = strtoull (steps[i], NULL, 10);
        } else if (!strcmp (word, "chained"))
            setup->chained = true;
        else if (!strcmp (word, "schedule"))
            add_schedule (setup, golden_word (golden));
        else if (strchr (word, '=') && setup->schedule_count)
            set_schedule (setup, word);
        else if (strchr (word, '='))
            set_group (setup, group, word);
        else if (strcmp (word, "none") != 0 || !*word) {
            printf ("Bail out! an unknown word: %s\n", word);
            exit (99);
        }
    }
    setup->limit = golden_double (golden);
}

static enum accel_status
make_optimizer (struct setup *setup)
{
    const struct accel_param_group *base = &setup->base;
    struct accel_optimizer_options options = {
        .lr = base->lr, .weight_decay = base->weight_decay, .beta1 = base->beta1, .beta2 = base->beta2,
        .eps = base->eps, .momentum = base->momentum, .amsgrad = base->amsgrad,
        .groups = setup->groups, .group_count = setup->group_count,
    };
    return accel_optimizer_create (&setup->optimizer, model, golden_kind (setup->kind), &options, &err);
}

/* Group @group's numbers; zeroed if there is none. */
static struct accel_param_group
group_of (const struct accel_optimizer *optimizer, size_t group)
{
    struct accel_param_group numbers = { .lr = 0 };
    return accel_optimizer_get_group (optimizer, group, &numbers, NULL) ? (struct accel_param_group){ .lr = 0 }
                                                                         : numbers;
}

static double
lr_of (const struct accel_optimizer *optimizer, size_t group)
{
    return group_of (optimizer, group).lr;
}

/* The group that @parameter is in, or ACCEL_NO_GROUP. */
static size_t
find_parameter (const struct accel_optimizer *optimizer, size_t parameter)
{
    for (size_t g = 0; g < accel_optimizer_group_count (optimizer); g++) {
        struct accel_param_group numbers = group_of (optimizer, g);
        for (size_t i = 0; i < numbers.index_count; i++)
            if (numbers.indices[i] == parameter)
                return g;
    }
    return ACCEL_NO_GROUP;
}

static enum accel_status
make_scheduler (struct setup *setup)
{
    for (size_t i = 0; i < setup->schedule_count; i++)
        if (setup->group_of[i] >= 0)
            setup->schedules[i].group = group_of (setup->optimizer, (size_t) setup->group_of[i]).name;
    if (!setup->schedule_count)
        return ACCEL_OK;
    if (setup->sequential)
        return accel_scheduler_create_sequential (&setup->scheduler, setup->optimizer, setup->schedules,
                                                  setup->schedule_count, setup->milestones, &err);
    if (setup->chained)
        return accel_scheduler_create_chained (&setup->scheduler, setup->optimizer, setup->schedules,
                                               setup->schedule_count, &err);
    return accel_scheduler_create (&setup->scheduler, setup->optimizer, setup->schedules, &err);
}

static enum accel_status
make_step (struct setup *setup)
{
    for (int i = 0; i < ELEMENTS; i++)
        grads[i] = values[i] - (accel_generator_uniform (setup->generator) + 0.5F);
    enum accel_status status
        = setup->limit > 0 ? accel_clip_grad_norm (model, setup->limit, NULL, NULL, &err) : ACCEL_OK;
    if (!status)
        status = accel_optimizer_step (setup->optimizer, &err);
    return status || !setup->scheduler ? status : accel_scheduler_step (setup->scheduler, &err);
}

/* How far off the worst of what is recorded is, in ulp of float32; rates that are off count as infinitely far. */
static double
run_steps (struct golden *golden, struct setup *setup)
{
    double worst = 0;
    int step = 0;
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = accel_generator_uniform (setup->generator) + 0.5F;
    while (!strcmp (golden_word (golden), "at")) {
        for (int end = (int) golden_number (golden); step < end; step++)
            if (make_step (setup))
                return INFINITY;
        for (size_t i = 0; i < accel_optimizer_group_count (setup->optimizer); i++) {
            double lr = lr_of (setup->optimizer, i), wanted = golden_double (golden);
            if (!(fabs (lr - wanted) <= 0x1p-52 * 0.1)) /* cosines and powers are libm's */
                diag ("step %d: the rate of group %zu is %a, wanted %a", step, i, lr, worst = wanted), worst = INFINITY;
        }
        for (int i = 0; i < ELEMENTS; i++)
            worst = fmax (worst, ulps (values[i], golden_float (golden)));
    }
    return step == 50 ? worst : INFINITY;
}

/* torch's own square roots are not always the nearest float, and its norm is added up in float32: there 2 ulp. */
static void
test_line (struct golden *golden)
{
    struct setup setup;
    double worst = INFINITY;
    *err.text = '\0';
    read_setup (golden, &setup);
    bool exact = !setup.limit && strcmp (setup.kind, "adam") != 0 && strcmp (setup.kind, "adamw") != 0;
    if (!make_optimizer (&setup) && !make_scheduler (&setup) && !accel_generator_create (&setup.generator, SEED, &err))
        worst = run_steps (golden, &setup);
    ok (worst <= (exact ? 0 : 2), "%s: at most %g ulp off%s", setup.name, worst, err.text);
    accel_generator_destroy (setup.generator);
    accel_scheduler_destroy (setup.scheduler);
    accel_optimizer_destroy (setup.optimizer);
}

/* Groups of an AdamW, and what is said of them. */
static const struct {
    struct accel_param_group groups[MOST];
    size_t count;
    const char *words; /* of the refusal */
} refusals[] = {
    { { { .match = "*.bias" }, { .match = "ln_*" } }, 2,
      "parameter 'ln_f.bias' is in two groups, '*.bias' and 'ln_*'" },
    { { { .match = "*.bias", .name = "a" }, { .indices = (size_t[]){ 4 }, .index_count = 1 } }, 2,
      "parameter 'ln_f.bias' is in two groups, 'a' and '1'" },
    { { { .match = "*.bais" } }, 1, "group '*.bais': no parameter matches '*.bais' (did you mean '*.bias'?)" },
    { { { .match = "g.*" } }, 1, "no parameter matches 'g.*' (did you mean 'h.*'?)" },
    { { { .match = "wte,xyzzy*" } }, 1, "no parameter matches 'xyzzy*'" },
    { { { .parameters = (const char *[]){ "haed" }, .parameter_count = 1 } }, 1,
      "group '0': no parameter is named 'haed' (did you mean 'head'?)" },
    { { { .match = "mask*" } }, 1, "no parameter that matches 'mask*' is trained: it has no gradient" },
    { { { .indices = (size_t[]){ 6 }, .index_count = 1 } }, 1,
      "no parameter that is named 'mask.buffer' is trained: it has no gradient" },
    { { { .indices = (size_t[]){ 7 }, .index_count = 1 } }, 1, "parameter 7 does not exist: the model has 7" },
    { { { .match = "wte,,head" } }, 1, "contains an empty pattern" },
    { { { .match = "" } }, 1, "contains an empty pattern" },
    { { { .lr = 1 }, { .match = "wte" }, { .eps = 1 } }, 3, "groups 0 and 2 both choose no parameters" },
    { { { .match = "*" }, { .lr = 1 } }, 2, "group 'rest' has no parameters" },
    { { { .parameters = (const char *[]){ "wte" } } }, 1, "group '0' has no parameters" },
    { { { .parameter_count = 1 } }, 1, "group '0': parameters is NULL" },
    { { { .match = "wte", .name = "a" }, { .match = "head", .name = "a" } }, 2, "two groups are named 'a'" },
    { { { .match = "wte", .name = "" } }, 1, "the name of group 0 is empty" },
    { { { .match = "wte", .momentum = 0.9 } }, 1, "group 'wte': AdamW has no momentum" },
    { { { .match = "wte", .nesterov = ACCEL_NO } }, 1, "group 'wte': AdamW has no nesterov" },
    { { { .match = "wte", .amsgrad = (enum accel_flag) 7 } }, 1, "group 'wte': invalid value for an accel_flag" },
    { { { .match = "wte", .beta2 = 1 } }, 1, "group 'wte': beta2 is 1, but must be at least 0 and less than 1" },
    { { { .match = "wte", .lr = NAN } }, 1, "group 'wte': lr is nan" },
    { { { .match = "wte", .weight_decay = -1 } }, 1, "group 'wte': weight_decay is -1, but must be at least 0" },
};

static void
test_refusals (void)
{
    struct accel_optimizer *optimizer;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        struct accel_optimizer_options options = { .groups = refusals[i].groups, .group_count = refusals[i].count };
        enum accel_status status = accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, &options, &err);
        ok (status == ACCEL_ERR_INVALID && !optimizer && strstr (err.text, refusals[i].words), "refused: %s", err.text);
        if (!status)
            accel_optimizer_destroy (optimizer);
    }
    struct accel_optimizer_options none = { .group_count = 1 };
    ok (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, &none, &err) == ACCEL_ERR_INVALID, "%s", err.text);
    struct accel_param_group own = { .match = "wte", .lr = 1 };
    struct accel_param_group nesterov = { .match = "wte", .nesterov = ACCEL_YES };
    struct accel_optimizer_options sgd = { .groups = &own, .group_count = 1 };
    ok (accel_optimizer_create (&optimizer, model, ACCEL_SGD, &sgd, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "group 'rest' needs a learning rate"), "%s", err.text);
    sgd = (struct accel_optimizer_options){ .lr = 1, .groups = &nesterov, .group_count = 1 };
    ok (accel_optimizer_create (&optimizer, model, ACCEL_SGD, &sgd, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "group 'wte': Nesterov momentum needs a momentum"), "%s", err.text);
}

/* Patterns, names and places combined; the rest in the middle; what can be read of it. */
static void
test_choice (void)
{
    struct accel_optimizer *optimizer;
    struct accel_param_group shown, groups[] = {
        { .name = "vectors", .match = " *.bias , h.?.ln_[0-9].* ", .weight_decay = ACCEL_ZERO },
        { .lr = 0.5, .beta1 = ACCEL_ZERO },
        { .parameters = (const char *[]){ "wte" }, .parameter_count = 1, .indices = (size_t[]){ 5 }, .index_count = 1,
          .amsgrad = ACCEL_YES },
    };
    struct accel_optimizer_options options = { .weight_decay = 0.3, .maximize = true, .groups = groups,
                                               .group_count = 3 };
    MUST (accel_optimizer_create (&optimizer, model, ACCEL_ADAM, &options, &err));
    const size_t wanted[] = { 2, 1, 0, 0, 0, 2, ACCEL_NO_GROUP, ACCEL_NO_GROUP };
    bool same = true;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        same = same && find_parameter (optimizer, i) == wanted[i];
    ok (same && accel_optimizer_group_count (optimizer) == 3, "patterns, names and indices choose parameters");
    ok (!strcmp (group_of (optimizer, 1).name, "rest") && !group_of (optimizer, 3).name
            && accel_optimizer_find_group (optimizer, "2") == 2
            && accel_optimizer_find_group (optimizer, "none") == ACCEL_NO_GROUP, "groups have names");
    MUST (accel_optimizer_get_group (optimizer, 0, &shown, &err));
    ok (!strcmp (shown.name, "vectors") && shown.index_count == 3 && shown.indices[0] == 2 && shown.indices[2] == 4
            && !shown.weight_decay && signbit (shown.weight_decay) && shown.lr == 1e-3 && shown.beta1 == 0.9
            && shown.maximize == ACCEL_YES && shown.amsgrad == ACCEL_NO && !shown.momentum
            && shown.nesterov == ACCEL_DEFAULT, "a group shows its numbers and its parameters");
    MUST (accel_optimizer_get_group (optimizer, 1, &shown, &err));
    ok (shown.lr == 0.5 && !shown.beta1 && shown.weight_decay == 0.3, "numbers of its own, and the optimizer's");
    ok (accel_optimizer_state_tensor (optimizer, 5, "max_exp_avg_sq")
            && !accel_optimizer_state_tensor (optimizer, 1, "max_exp_avg_sq")
            && accel_optimizer_state_tensor (optimizer, 1, "exp_avg"), "each group has the states that it needs");
    accel_optimizer_destroy (optimizer);
}

static bool
grouped_by_dimensions (struct accel_param_group *groups, size_t count, size_t (*wanted) (size_t index))
{
    struct accel_optimizer *optimizer;
    struct accel_optimizer_options options = { .weight_decay = ACCEL_ZERO, .groups = groups, .group_count = count };
    MUST (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, &options, &err));
    bool same = true;
    for (size_t i = 0; i < TRAINED; i++)
        same = same && find_parameter (optimizer, i) == wanted (i);
    accel_optimizer_destroy (optimizer);
    return same;
}

static size_t
matrices_first (size_t index)
{
    return dims[index] < 2;
}

static size_t
head_then_matrices (size_t index)
{
    return !strcmp (names[index], "head") ? 0 : dims[index] >= 2 ? 2 : 1;
}

static size_t
matrices_of_layers (size_t index)
{
    return strncmp (names[index], "h.", 2) || dims[index] < 2;
}

/* Weight decay on matrices only, and the like. */
static void
test_dimensions (void)
{
    struct accel_param_group matrices = { .min_ndim = 2, .weight_decay = 0.1 };
    struct accel_param_group three[] = { { .match = "head" }, { .name = "rest" }, { .min_ndim = 2 } };
    struct accel_param_group layers = { .match = "h.*", .min_ndim = 2 }, none = { .min_ndim = 5 };
    ok (grouped_by_dimensions (&matrices, 1, matrices_first), "parameters with two dimensions");
    ok (grouped_by_dimensions (three, 3, head_then_matrices), "of those that no other group names");
    ok (grouped_by_dimensions (&layers, 1, matrices_of_layers), "of those that match");
    struct accel_optimizer *optimizer;
    struct accel_optimizer_options options = { .groups = &none, .group_count = 1 };
    ok (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, &options, &err) == ACCEL_ERR_INVALID
            && !strcmp (err.text, "group '0' has no parameters"), "%s", err.text);
}

/* What may be changed between steps. */
static void
test_change (void)
{
    struct accel_optimizer *optimizer;
    struct accel_param_group shown, groups[] = { { .match = "*.bias", .momentum = 0.9 } };
    struct accel_optimizer_options options = { .lr = 1, .groups = groups, .group_count = 1 };
    MUST (accel_optimizer_create (&optimizer, model, ACCEL_SGD, &options, &err));
    MUST (accel_optimizer_set_group (optimizer, 1, &(struct accel_param_group){ .lr = 0.25 }, &err));
    ok (accel_optimizer_lr (optimizer) == 1 && lr_of (optimizer, 1) == 0.25,
        "the rate of one group");
    MUST (accel_optimizer_set_group (optimizer, 1, &(struct accel_param_group){ .weight_decay = 0.5 }, &err));
    MUST (accel_optimizer_get_group (optimizer, 1, &shown, &err));
    ok (shown.weight_decay == 0.5 && shown.lr == 0.25, "numbers that are not given stay");
    MUST (accel_optimizer_set_group (optimizer, 1, &(struct accel_param_group){ .weight_decay = ACCEL_ZERO }, &err));
    MUST (accel_optimizer_get_group (optimizer, 1, &shown, &err));
    ok (!shown.weight_decay, "and may become 0");
    MUST (accel_optimizer_set_group (optimizer, 0, &shown, &err));
    ok (lr_of (optimizer, 0) == 0.25, "what one group shows can be given to another");
    ok (accel_optimizer_set_group (optimizer, 1, &(struct accel_param_group){ .lr = 3, .momentum = 0.5 }, &err)
                == ACCEL_ERR_INVALID
            && strstr (err.text, "group 'rest': it was created without momentum")
            && lr_of (optimizer, 1) == 0.25, "refused, and nothing changed: %s", err.text);
    ok (accel_optimizer_set_group (optimizer, 0, &(struct accel_param_group){ .beta1 = 0.5 }, &err)
            == ACCEL_ERR_INVALID, "%s", err.text);
    ok (accel_optimizer_set_group (optimizer, 2, &(struct accel_param_group){ .lr = 1 }, &err) == ACCEL_ERR_INVALID
            && accel_optimizer_get_group (optimizer, 2, &shown, &err) == ACCEL_ERR_INVALID, "%s", err.text);
    const double bad[] = { NAN, -1, INFINITY };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok (accel_optimizer_set_group (optimizer, 1, &(struct accel_param_group){ .lr = bad[i] }, &err)
                    == ACCEL_ERR_INVALID
                && strstr (err.text, "group 'rest': lr is ") && lr_of (optimizer, 1) == 0.25,
            "a rate of %g is refused, and nothing changed: %s", bad[i], err.text);
    MUST (accel_optimizer_set_lr (optimizer, 4, &err));
    ok (accel_optimizer_set_lr (optimizer, NAN, &err) == ACCEL_ERR_INVALID
            && accel_optimizer_set_lr (NULL, 1, &err) == ACCEL_ERR_INVALID, "%s", err.text);
    ok (lr_of (optimizer, 0) == 4 && lr_of (optimizer, 1) == 4, "all rates");
    accel_optimizer_destroy (optimizer);
}

/* Two optimizers share a model: each changes, remembers and clears its own parameters. */
static void
test_skip (void)
{
    struct accel_optimizer *first, *second;
    struct accel_param_group skip_rest[] = { { .match = "h.*" }, { .skip = true } };
    struct accel_param_group skip_some[] = { { .match = "h.*", .skip = true } };
    struct accel_optimizer_options lion = { .lr = 0.5, .groups = skip_rest, .group_count = 2 };
    struct accel_optimizer_options adamw = { .lr = 0.25, .weight_decay = ACCEL_ZERO, .groups = skip_some,
                                             .group_count = 1 };
    MUST (accel_optimizer_create (&first, model, ACCEL_LION, &lion, &err));
    MUST (accel_optimizer_create (&second, model, ACCEL_ADAMW, &adamw, &err));
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = grads[i] = 1;
    MUST (accel_optimizer_step (first, &err));
    bool good = true;
    for (int i = 0; i < ELEMENTS; i++)
        good = good && values[i] == (i >= 15 && i < 43 ? 0.5F : 1);
    ok (good, "parameters that are left to another optimizer stay");
    MUST (accel_optimizer_zero_grad (first, &err));
    for (int i = 0; i < ELEMENTS; i++)
        good = good && grads[i] == (i >= 15 && i < 43 ? 0 : 1);
    ok (good, "and so do their gradients");
    MUST (accel_optimizer_step (second, &err));
    for (int i = 0; i < ELEMENTS; i++)
        good = good && (i >= 15 && i < 43 ? values[i] == 0.5F : values[i] < 1);
    ok (good && !accel_optimizer_state_tensor (first, 0, "exp_avg")
            && accel_optimizer_state_tensor (second, 0, "exp_avg")
            && !accel_optimizer_state_tensor (second, 1, "exp_avg"), "the other changes and remembers them");
    struct accel_scheduler *scheduler;
    const struct accel_scheduler_options of_none = { .group = "rest" }, of_nobody = { .group = "h*" };
    ok (accel_scheduler_create (&scheduler, first, &of_none, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "left to another optimizer"), "%s", err.text);
    ok (accel_scheduler_create (&scheduler, first, &of_nobody, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "has no group 'h*' (did you mean 'h.*'?)"), "%s", err.text);
    accel_optimizer_destroy (first);
    accel_optimizer_destroy (second);
}

static enum accel_status
own_step (void *user, const struct accel_update *update, struct accel_error *error)
{
    (void) error;
    double *sums = user;
    sums[0] += update->lr;
    sums[1] += update->group->momentum;
    sums[2] += update->group->weight_decay;
    return ACCEL_OK;
}

/* The program's own optimizer sees the numbers of each parameter's group. */
static void
test_custom (void)
{
    double sums[3] = { 0 };
    struct accel_optimizer *optimizer;
    struct accel_param_group groups[]
        = { { .match = "*.weight", .lr = 0.5, .momentum = 2 }, { .match = "head", .skip = true, .lr = 9 } };
    struct accel_custom_optimizer options = { .lr = 0.25, .step = own_step, .user = sums, .groups = groups,
                                              .group_count = 2 };
    MUST (accel_optimizer_create_custom (&optimizer, model, &options, &err));
    MUST (accel_optimizer_set_group (optimizer, 0, &(struct accel_param_group){ .weight_decay = 8 }, &err));
    MUST (accel_optimizer_step (optimizer, &err));
    ok (sums[0] == 2 * 0.5 + 3 * 0.25 && sums[1] == 4 && sums[2] == 16, "%g %g %g", sums[0], sums[1], sums[2]);
    accel_optimizer_destroy (optimizer);
}

/* Under fp16 the gradients of a model are unscaled once, however many optimizers change it. */
static void
test_scaled (void)
{
    struct accel *acc;
    struct accel_optimizer *first, *second;
    struct accel_param_group ours[] = { { .match = "h.*" }, { .skip = true } };
    struct accel_param_group others[] = { { .match = "h.*", .skip = true } };
    struct accel_optimizer_options one = { .lr = 1, .groups = ours, .group_count = 2 };
    struct accel_optimizer_options two = { .lr = 1, .groups = others, .group_count = 1 };
    const struct accel_grad_scaler scaler = { .init_scale = 64 };
    MUST (accel_open (&acc, &(struct accel_options){ .mixed_precision = "fp16", .grad_scaler = &scaler }, &err));
    MUST (accel_optimizer_create (&first, model, ACCEL_SGD, &one, &err));
    MUST (accel_optimizer_create (&second, model, ACCEL_SGD, &two, &err));
    MUST (accel_prepare (acc, &err, model, first, second));
    bool good = true;
    for (int step = 0; step < 4; step++) {
        for (int i = 0; i < ELEMENTS; i++) {
            values[i] = 1;
            grads[i] = accel_loss_scale (acc) * 0.25F;
        }
        if (step == 2)
            grads[0] = INFINITY; /* not one of the first's */
        if (step > 1) /* two steps without telling of a backward pass, and two with */
            MUST (accel_average_gradients (acc, model, &err));
        MUST (accel_optimizer_step (first, &err));
        MUST (accel_optimizer_step (second, &err));
        for (int i = 0; i < ELEMENTS; i++)
            good = good && values[i] == (step == 2 ? 1 : 0.75F);
    }
    ok (good, "under fp16 two optimizers of a model both step by unscaled gradients, or both skip");
    accel_optimizer_destroy (first);
    accel_optimizer_destroy (second);
    MUST (accel_free_memory (acc, &err));
    accel_close (acc);
}

/* Two models of 3 and 4 parameters have the norm of one that has all 7. */
static void
test_norm (void)
{
    static float one[ELEMENTS], both[ELEMENTS];
    struct accel_model *models[2];
    struct accel_parameter parameters[TRAINED];
    float norm = 0, norms = 0;
    for (size_t i = 0; i < TRAINED; i++)
        parameters[i] = *accel_model_parameter (model, i);
    for (int i = 0; i < ELEMENTS; i++)
        grads[i] = one[i] = (float) (i * i % 29) - 11.3F;
    MUST (accel_clip_grad_norm (model, 1.5, &norm, &(struct accel_clip_options){ .error_if_nonfinite = true }, &err));
    memcpy (both, grads, sizeof both);
    memcpy (grads, one, sizeof grads);
    MUST (accel_model_create (&models[0], parameters, 3, &err));
    MUST (accel_model_create (&models[1], parameters + 3, TRAINED - 3, &err));
    MUST (accel_clip_grad_norm (models[0], 1.5, &norms,
                                &(struct accel_clip_options){ .others = &models[1], .other_count = 1 }, &err));
    ok (norm == norms && norm > 1.5F && !memcmp (grads, both, sizeof grads), "two models have one norm, %g",
        (double) norms);
    MUST (accel_clip_grad_norm (models[0], 1e9, &norms, NULL, &err));
    ok (norms > 0 && norms < norm, "one of them has a smaller one");
    struct accel_model *const twice[] = { models[1], models[0] }, *const again[] = { models[1], models[1] },
                       *const null[] = { NULL };
    static const char *const why[] = { "others is NULL", "others[1] was given twice", "others[1] was given twice",
                                       "others[0] is NULL", "not prepared with the same struct accel" };
    const struct accel_clip_options refused[] = {
        { .other_count = 1 },
        { .others = twice, .other_count = 2 },
        { .others = again, .other_count = 2 },
        { .others = null, .other_count = 1 },
        { .others = &models[1], .other_count = 1 },
    };
    struct accel *acc;
    MUST (accel_open (&acc, NULL, &err));
    for (size_t i = 0; i < sizeof why / sizeof *why; i++) {
        if (i == 4)
            MUST (accel_prepare (acc, &err, models[1]));
        ok (accel_clip_grad_norm (models[0], 1, NULL, &refused[i], &err) == ACCEL_ERR_INVALID
                && strstr (err.text, why[i]), "%s", err.text);
    }
    accel_model_destroy (models[0]);
    accel_model_destroy (models[1]);
    accel_close (acc);
}

/* A scheduler over groups, a sequence or a chain continues from its states. */
static void
test_states (int kind)
{
    static const struct accel_scheduler_options parts[] = {
        { .schedule = ACCEL_SCHEDULE_STEP, .step_size = 3, .gamma = 0.5 },
        { .schedule = ACCEL_SCHEDULE_COSINE, .total_steps = 40 },
    }, cycle[] = { { .schedule = ACCEL_SCHEDULE_LINEAR, .total_steps = 9 },
                   { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 30, .max_lr = 1 } };
    struct accel_param_group groups[] = { { .match = "wte", .lr = 0.5, .momentum = 0.7 } };
    struct accel_optimizer_options options = { .lr = 0.1, .momentum = 0.9, .groups = groups, .group_count = 1 };
    struct accel_scheduler_state states[8];
    struct accel_optimizer *optimizers[2];
    struct accel_scheduler *schedulers[2];
    for (int i = 0; i < 2; i++) {
        options.lr *= 1 + i;
        MUST (accel_optimizer_create (&optimizers[i], model, ACCEL_SGD, &options, &err));
        MUST (kind == 0   ? accel_scheduler_create (&schedulers[i], optimizers[i], &parts[0], &err)
              : kind == 1 ? accel_scheduler_create_chained (&schedulers[i], optimizers[i], parts, 2, &err)
                          : accel_scheduler_create_sequential (&schedulers[i], optimizers[i], kind == 2 ? parts : cycle,
                                                               2, (uint64_t[]){ 7 }, &err));
    }
    for (int i = 0; i < 10; i++)
        MUST (accel_scheduler_step (schedulers[0], &err));
    size_t count = accel_scheduler_state_count (schedulers[0]);
    bool same = count == (kind ? 6 : 2);
    accel_scheduler_get_state (schedulers[0], states);
    MUST (accel_scheduler_set_state (schedulers[1], states, count, &err));
    for (int i = 0; i < 10; i++) {
        struct accel_param_group a, b;
        for (size_t g = 0; g < 2; g++) {
            MUST (accel_optimizer_get_group (optimizers[0], g, &a, &err));
            MUST (accel_optimizer_get_group (optimizers[1], g, &b, &err));
            same = same && a.lr == b.lr && (a.momentum == b.momentum || kind != 3);
        }
        MUST (accel_scheduler_step (schedulers[0], &err));
        MUST (accel_scheduler_step (schedulers[1], &err));
    }
    ok (same, "schedules of kind %d continue from %zu states", kind, count);
    ok (accel_scheduler_set_state (schedulers[1], states, 1, &err) == ACCEL_ERR_FORMAT
            && accel_scheduler_set_state (schedulers[1], states, count - 1, &err) == ACCEL_ERR_FORMAT, "%s", err.text);
    for (int i = 0; i < 2; i++) {
        accel_scheduler_destroy (schedulers[i]);
        accel_optimizer_destroy (optimizers[i]);
    }
}

/* One-cycle before another schedule: its steps 0 to total_steps must last until that begins. */
static void
test_short_cycle (struct accel_optimizer *optimizer)
{
    const struct accel_scheduler_options cycle = { .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 9, .max_lr = 1,
                                                   .cycle_momentum = ACCEL_NO };
    const struct accel_scheduler_options parts[] = { { .schedule = ACCEL_SCHEDULE_CONSTANT }, cycle,
                                                     { .schedule = ACCEL_SCHEDULE_COSINE, .total_steps = 9 } };
    for (int i = 0; i < 2; i++)
        for (uint64_t begin = 3; begin < 5; begin++) {
            const uint64_t milestones[] = { begin, begin + 10 + (uint64_t) i };
            struct accel_scheduler *scheduler = NULL;
            enum accel_status status
                = accel_scheduler_create_sequential (&scheduler, optimizer, parts, 3, milestones, &err);
            bool good = i ? status == ACCEL_ERR_INVALID && !scheduler
                                && strstr (err.text, "total_steps 9, but the next schedule begins after 11 steps")
                          : !status;
            for (uint64_t step = 0; good && scheduler && step < milestones[1] + 5; step++)
                good = !accel_scheduler_step (scheduler, &err);
            ok (good, "one-cycle of 9 steps, %d of them in a sequence%s%s", 10 + i, status || !good ? ": " : "",
                status || !good ? err.text : "");
            accel_scheduler_destroy (scheduler);
        }
    const struct accel_scheduler_options first[] = { cycle, parts[2] };
    struct accel_scheduler *scheduler = NULL;
    ok (accel_scheduler_create_sequential (&scheduler, optimizer, first, 2, (uint64_t[]){ 11 }, &err)
                == ACCEL_ERR_INVALID
            && !scheduler, "the first: %s", err.text);
    accel_scheduler_destroy (scheduler);
}

/* What compositions of schedules refuse, and the product that torch has not. */
static void
test_compositions (void)
{
    struct accel_scheduler_options parts[2] = {
        { .schedule = ACCEL_SCHEDULE_STEP, .step_size = 2, .gamma = 0.5 },
        { .schedule = ACCEL_SCHEDULE_LINEAR, .total_steps = 10 },
    };
    struct accel_optimizer_options options = { .lr = 1 };
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    MUST (accel_optimizer_create (&optimizer, model, ACCEL_SGD, &options, &err));
    MUST (accel_scheduler_create_chained (&scheduler, optimizer, parts, 2, &err));
    for (int i = 0; i < 5; i++)
        MUST (accel_scheduler_step (scheduler, &err));
    ok (accel_scheduler_lr (scheduler) == 0.25 * 0.5 && accel_optimizer_lr (optimizer) == 0.25 * 0.5,
        "a chain multiplies factors: %g", accel_scheduler_lr (scheduler));
    accel_scheduler_destroy (scheduler);
    for (int i = 0; i < 4; i++) {
        const uint64_t milestones[] = { i ? 5 : 0, i == 1 ? 5 : 6 };
        struct accel_scheduler_options three[] = { parts[0], parts[1], parts[1] };
        if (i == 2)
            three[1].split_batches = true;
        if (i == 3)
            three[2].group = "all";
        ok (accel_scheduler_create_sequential (&scheduler, optimizer, three, 3, milestones, &err) == ACCEL_ERR_INVALID
                && !scheduler, "%s", err.text);
    }
    ok (accel_scheduler_create_sequential (&scheduler, optimizer, parts, 2, NULL, &err) == ACCEL_ERR_INVALID
            && accel_scheduler_create_sequential (&scheduler, optimizer, parts, 0, NULL, &err) == ACCEL_ERR_INVALID,
        "%s", err.text);
    parts[1] = (struct accel_scheduler_options){ .schedule = ACCEL_SCHEDULE_ONE_CYCLE, .total_steps = 9, .max_lr = 1,
                                                 .cycle_momentum = ACCEL_NO };
    ok (accel_scheduler_create_chained (&scheduler, optimizer, parts, 2, &err) == ACCEL_ERR_INVALID, "%s", err.text);
    MUST (accel_scheduler_create_sequential (&scheduler, optimizer, parts, 2, (uint64_t[]){ 3 }, &err));
    for (int i = 0; i < 3 + 9; i++)
        MUST (accel_scheduler_step (scheduler, &err));
    ok (accel_scheduler_step (scheduler, &err) == ACCEL_ERR_INVALID, "the end of the last part: %s", err.text);
    accel_scheduler_destroy (scheduler);
    test_short_cycle (optimizer);
    accel_optimizer_destroy (optimizer);
}

int
main (void)
{
    struct golden golden;
    make_model ();
    golden_find (&golden, "groups.txt");
    while (golden_next (&golden))
        test_line (&golden);
    test_refusals ();
    test_choice ();
    test_dimensions ();
    test_change ();
    test_skip ();
    test_custom ();
    for (int kind = 0; kind < 4; kind++)
        test_states (kind);
    test_compositions ();
    test_norm ();
    test_scaled ();
    accel_model_destroy (model);
    return done_testing ();
}
