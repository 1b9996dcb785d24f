/* SPDX-License-Identifier: Apache-2.0 */
/* Classes drawn by their logits: how often, which ones the filters leave, and what is refused. */
#include <config.h>

#include "tests/tap.h"

#include <accel/random.h>
#include <math.h>
#include <stdlib.h>

enum { CLASSES = 5, DRAWS = 20000 };

static struct accel_generator *generator;
static struct accel_error err;
/* Their probabilities are 0.1, 0.4, 0.2, 0.25 and 0.05. */
static float logits[CLASSES];

/* Draw many.  @param[out] shares  [CLASSES] */
static void
count (double *shares, const struct accel_choice_options *options)
{
    memset (shares, 0, CLASSES * sizeof *shares);
    for (int i = 0; i < DRAWS; i++) {
        size_t chosen = 0;
        if (accel_generator_choose (generator, logits, CLASSES, &chosen, options, &err))
            exit (99);
        shares[chosen] += 1.0 / DRAWS;
    }
}

static void
test_shares (void)
{
    static const struct {
        const char *what;
        struct accel_choice_options options;
        double shares[CLASSES];
    } cases[] = {
        { "softmax", { 0 }, { 0.1, 0.4, 0.2, 0.25, 0.05 } },
        { "temperature 0.5", { .temperature = 0.5 }, { 0.0364, 0.5818, 0.1455, 0.2273, 0.0091 } },
        { "top_k 2", { .top_k = 2 }, { 0, 0.6154, 0, 0.3846, 0 } },
        { "top_k of more than there are", { .top_k = 9 }, { 0.1, 0.4, 0.2, 0.25, 0.05 } },
        { "top_p 0.6 reaches two", { .top_p = 0.6 }, { 0, 0.6154, 0, 0.3846, 0 } },
        { "top_p of the rest of top_k", { .top_k = 2, .top_p = 0.6 }, { 0, 1, 0, 0, 0 } },
        { "top_p 1e-9", { .top_p = 1e-9 }, { 0, 1, 0, 0, 0 } },
        { "temperature 0", { .temperature = ACCEL_ZERO }, { 0, 1, 0, 0, 0 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double shares[CLASSES];
        bool good = true;
        accel_generator_seed (generator, 1);
        count (shares, i ? &cases[i].options : NULL);
        for (int j = 0; j < CLASSES; j++)
            good = good && fabs (shares[j] - cases[i].shares[j]) < (cases[i].shares[j] > 0 ? 0.01 : 1e-9);
        ok (good, "%s: %.3f %.3f %.3f %.3f %.3f", cases[i].what, shares[0], shares[1], shares[2], shares[3], shares[4]);
    }
}

static void
test_draws (void)
{
    const float masked[] = { -INFINITY, -3, -INFINITY }, equal[] = { 1, 2, 2 };
    size_t chosen = 9;
    accel_generator_seed (generator, 1);
    uint32_t first = accel_generator_next (generator);
    accel_generator_seed (generator, 1);
    ok (!accel_generator_choose (generator, masked, 3, &chosen, NULL, &err) && chosen == 1, "never one of -INFINITY");
    ok (accel_generator_next (generator) != first, "a number was drawn");
    accel_generator_seed (generator, 1);
    ok (!accel_generator_choose (generator, equal, 3, &chosen,
                                 &(struct accel_choice_options){ .temperature = ACCEL_ZERO }, &err)
            && chosen == 1 && accel_generator_next (generator) == first,
        "the first one of the largest, without a draw");
}

static void
refuse (const char *words, const float *some, size_t size, struct accel_choice_options options)
{
    size_t chosen = 7;
    enum accel_status status = accel_generator_choose (generator, some, size, &chosen, &options, &err);
    ok (status == ACCEL_ERR_INVALID && strstr (err.text, words) && chosen == 7, "refused: %s", err.text);
}

static void
test_bad (void)
{
    const float nan[] = { 0, NAN }, infinite[] = { INFINITY, 0 }, none[] = { -INFINITY, -INFINITY };
    refuse ("logit 1 is nan", nan, 2, (struct accel_choice_options){ 0 });
    refuse ("logit 0 is inf", infinite, 2, (struct accel_choice_options){ 0 });
    refuse ("none of 2 classes", none, 2, (struct accel_choice_options){ 0 });
    refuse ("none of 0 classes", none, 0, (struct accel_choice_options){ 0 });
    refuse ("temperature is -1", logits, 2, (struct accel_choice_options){ .temperature = -1 });
    refuse ("temperature is nan", logits, 2, (struct accel_choice_options){ .temperature = NAN });
    refuse ("top_p is 1.5", logits, 2, (struct accel_choice_options){ .top_p = 1.5 });
    refuse ("logits is NULL", NULL, 2, (struct accel_choice_options){ 0 });
}

int
main (void)
{
    static const float probabilities[CLASSES] = { 0.1F, 0.4F, 0.2F, 0.25F, 0.05F };
    for (int i = 0; i < CLASSES; i++)
        logits[i] = logf (probabilities[i]) + 3;
    if (accel_generator_create (&generator, 0, &err))
        return 99;
    test_shares ();
    test_draws ();
    test_bad ();
    accel_generator_destroy (generator);
    return done_testing ();
}
