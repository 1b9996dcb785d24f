/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizers against torch's (foreach=False, fused=False): 37 parameters over 50 steps of pseudo-random gradients.
 * SGD has to have torch's bits.  AdamW has them but for torch's square root (from MKL), which is not always the nearest
 * float: 2 ulp from torch as it is, no difference from torch with exact square roots ("adamw-nearest"). */
#include <config.h>

#include "tests/golden/golden.h"
#include "tests/tap.h"
#include "tests/unit/train/small_model.h"

#include <math.h>
#include <string.h>

static unsigned compared, equal;

static struct accel_optimizer *
make_optimizer (const char *kind, struct golden *golden, bool *halving, char *name, size_t size)
{
    struct accel_optimizer *optimizer = NULL;
    struct accel_error err = { 0 };
    *halving = golden_number (golden);
    if (!strcmp (kind, "sgd")) {
        struct accel_optimizer_options sgd = { .lr = golden_double (golden) };
        sgd.momentum = golden_double (golden);
        sgd.dampening = golden_double (golden);
        sgd.weight_decay = golden_double (golden);
        sgd.nesterov = golden_double (golden) != 0;
        snprintf (name, size, "SGD lr %g momentum %g dampening %g decay %g%s%s", sgd.lr, sgd.momentum, sgd.dampening,
                  sgd.weight_decay, sgd.nesterov ? " nesterov" : "", *halving ? ", lr halved" : "");
        if (accel_optimizer_create (&optimizer, model, ACCEL_SGD, &sgd, &err))
            diag ("%s", err.text);
        return optimizer;
    }
    struct accel_optimizer_options adamw = { .lr = golden_double (golden) };
    adamw.beta1 = golden_double (golden);
    adamw.beta2 = golden_double (golden);
    adamw.eps = golden_double (golden);
    adamw.weight_decay = accel_exactly (golden_double (golden));
    snprintf (name, size, "AdamW lr %g betas %g %g eps %g decay %g%s", adamw.lr, adamw.beta1, adamw.beta2, adamw.eps,
              adamw.weight_decay, *halving ? ", lr halved" : "");
    if (accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, &adamw, &err))
        diag ("%s", err.text);
    return optimizer;
}

static void
test_case (struct golden *golden)
{
    bool halving;
    char name[160];
    const char *kind = golden_word (golden);
    struct accel_optimizer *optimizer = make_optimizer (kind, golden, &halving, name, sizeof name);
    if (!optimizer) {
        ok (false, "%s", name);
        return;
    }
    int steps = (int) golden_number (golden);
    double worst = 0, limit = strcmp (kind, "adamw") ? 0 : 2;
    train (optimizer, 2026, steps, halving);
    for (int i = 0; i < COUNT; i++) {
        float wanted = golden_float (golden);
        worst = fmax (worst, ulps (values[i], wanted));
        compared++;
        equal += !memcmp (&values[i], &wanted, sizeof wanted);
    }
    ok (worst <= limit, "%s, %d steps: at most %g ulp from %s's", name, steps, worst, kind);
    accel_optimizer_destroy (optimizer);
}

static void
test_refusals (void)
{
    static const struct accel_optimizer_options sgds[] = {
        { 0 }, { .lr = -1 }, { .lr = NAN }, { .lr = INFINITY }, { .lr = 1, .momentum = -0.1 },
        { .lr = 1, .momentum = NAN }, { .lr = 1, .weight_decay = -1 }, { .lr = 1, .nesterov = true },
        { .lr = 1, .momentum = 0.9, .nesterov = true, .dampening = 0.1 }, { .lr = 1, .dampening = NAN },
    };
    static const struct accel_optimizer_options adamws[] = {
        { .lr = -1 }, { .lr = NAN }, { .lr = INFINITY }, { .beta1 = 1 }, { .beta1 = -0.5 }, { .beta2 = 1 },
        { .beta2 = NAN }, { .eps = -1 }, { .weight_decay = -1 }, { .weight_decay = INFINITY },
    };
    for (size_t i = 0; i < sizeof sgds / sizeof *sgds; i++) {
        struct accel_error err = { 0 };
        struct accel_optimizer *optimizer = (void *) model;
        enum accel_status status = accel_optimizer_create (&optimizer, model, ACCEL_SGD, &sgds[i], &err);
        ok (status == ACCEL_ERR_INVALID && err.code == status && !optimizer, "SGD refused: %s", err.text);
    }
    for (size_t i = 0; i < sizeof adamws / sizeof *adamws; i++) {
        struct accel_error err = { 0 };
        struct accel_optimizer *optimizer = (void *) model;
        enum accel_status status = accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, &adamws[i], &err);
        ok (status == ACCEL_ERR_INVALID && err.code == status && !optimizer, "AdamW refused: %s", err.text);
    }
}

/* Missing arguments are errors, not crashes. */
static void
test_missing (void)
{
    struct accel_optimizer *optimizer = (void *) model;
    struct accel_optimizer_options sgd = { .lr = 0.1 };
    struct accel_error err = { 0 };
    ok (accel_optimizer_create (&optimizer, NULL, ACCEL_SGD, &sgd, &err) == ACCEL_ERR_INVALID && !optimizer,
        "SGD without a model: %s",
        err.text);
    ok (accel_optimizer_create (&optimizer, NULL, ACCEL_ADAMW, NULL, &err) == ACCEL_ERR_INVALID && !optimizer,
        "AdamW without a model: %s", err.text);
    ok (accel_optimizer_create (&optimizer, model, ACCEL_SGD, NULL, &err) == ACCEL_ERR_INVALID && !optimizer,
        "SGD without options: %s",
        err.text);
    ok (accel_optimizer_create (NULL, model, ACCEL_SGD, &sgd, &err) == ACCEL_ERR_INVALID, "SGD without a place: %s",
        err.text);
    ok (accel_optimizer_create (NULL, model, ACCEL_ADAMW, NULL, &err) == ACCEL_ERR_INVALID,
        "AdamW without a place: %s", err.text);
    ok (accel_optimizer_step (NULL, &err) == ACCEL_ERR_INVALID, "a step of none: %s", err.text);
    ok (accel_optimizer_zero_grad (NULL, &err) == ACCEL_ERR_INVALID, "gradients of none: %s", err.text);
    accel_optimizer_destroy (NULL);
}

static void
test_zero_grad (void)
{
    struct accel_optimizer *optimizer;
    if (!ok (!accel_optimizer_create (&optimizer, model, ACCEL_ADAMW, NULL, NULL), "AdamW with torch's defaults"))
        return;
    ok (accel_optimizer_lr (optimizer) == 1e-3, "its learning rate");
    for (int i = 0; i < COUNT; i++)
        gradients[i] = (float) i;
    float sum = 0;
    ok (!accel_optimizer_zero_grad (optimizer, NULL), "zero_grad");
    for (int i = 0; i < COUNT; i++)
        sum += fabsf (gradients[i]);
    ok (sum == 0, "all gradients are zero");
    accel_optimizer_destroy (optimizer);
}

/* Loops over arrays that begin at the same place of a page are slower. */
static void
test_places (void)
{
    int64_t shape = 1 << 17;
    DLTensor large = { .device = { kDLCPU, 0 }, .ndim = 1, .shape = &shape,
                       .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    DLTensor grad = large;
    struct accel_parameter parameter = { "large", &large, &grad };
    struct accel_model *of = NULL;
    struct accel_optimizer *optimizer = NULL;
    if (ok (!accel_model_create (&of, &parameter, 1, NULL) && !accel_optimizer_create (&optimizer, of, ACCEL_ADAMW,
                                                                                       NULL, NULL),
            "AdamW of a large parameter")) {
        DLTensor *mean = accel_optimizer_state_tensor (optimizer, 0, "exp_avg");
        DLTensor *square = accel_optimizer_state_tensor (optimizer, 0, "exp_avg_sq");
        uintptr_t places[] = { (uintptr_t) large.data, (uintptr_t) mean->data, (uintptr_t) square->data };
        for (int i = 0; i < 3; i++) {
            uintptr_t apart = (places[(i + 1) % 3] - places[i]) % 4096;
            ok (apart >= 512 && apart <= 4096 - 512, "its arrays %d and %d are %zu bytes apart in a page", i,
                (i + 1) % 3, (size_t) apart);
        }
        uintptr_t end = places[1] + (uintptr_t) shape * sizeof (float);
        ok (end <= places[2] && places[1] % 64 == 0 && places[2] % 64 == 0, "its states do not overlap");
        memset (mean->data, 1, (size_t) shape * sizeof (float));
        memset (square->data, 1, (size_t) shape * sizeof (float)); /* for sanitizers: all of it is there */
    }
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (of);
}

int
main (void)
{
    struct golden golden;
    make_model ();
    golden_find (&golden, "optimizer.txt");
    while (golden_next (&golden))
        test_case (&golden);
    diag ("%u of %u parameters are bit for bit torch's", equal, compared);
    test_refusals ();
    test_missing ();
    test_zero_grad ();
    test_places ();
    accel_model_destroy (model);
    return done_testing ();
}
