/* SPDX-License-Identifier: Apache-2.0 */
/* Norms at the edges of float32 against torch's: one element or many, one tensor or two, numbers whose powers overflow
 * or underflow, infinity and NaN.  Limits that 16 bits do not hold. */
#include <config.h>

#include "tests/golden/golden.h"
#include "tests/tap.h"

#include <accel/accel.h>

#include <math.h>

enum { TENSORS = 2, MOST = 128 };

static float data[TENSORS][MOST], gradients[TENSORS][MOST];
static int64_t sizes[TENSORS];

/* Bit for bit, but that roots may round another way. */
static bool
is_near (float got, float wanted)
{
    if (isnan (wanted) || isinf (wanted) || wanted == 0)
        return isnan (wanted) ? isnan (got) : got == wanted;
    return fabsf (got - wanted) <= 2.4e-7F * fabsf (wanted) || fabsf (got - wanted) <= 3e-45F;
}

static void
test_case (struct golden *golden)
{
    static const char *const names[] = { "first", "second" };
    DLTensor values[TENSORS], grads[TENSORS];
    struct accel_parameter parameters[TENSORS];
    struct accel_model *model;
    struct accel_error err = { 0 };
    char line[80];
    snprintf (line, sizeof line, "%s", golden->line);
    int tensors = (int) golden_number (golden);
    for (int t = 0; t < tensors; t++) {
        sizes[t] = (int64_t) golden_number (golden);
        for (int64_t i = 0; i < sizes[t]; i++)
            gradients[t][i] = strtof (golden_word (golden), NULL);
        values[t] = (DLTensor){ .data = data[t], .device = { kDLCPU, 0 }, .ndim = 1, .shape = &sizes[t],
                                .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
        grads[t] = values[t];
        grads[t].data = gradients[t];
        parameters[t] = (struct accel_parameter){ names[t], &values[t], &grads[t] };
    }
    double p = strtod (golden_word (golden), NULL);
    float wanted = strtof (golden_word (golden), NULL), norm = -1;
    if (accel_model_create (&model, parameters, (size_t) tensors, &err)
        || accel_clip_grad_norm (model, 1, &norm, &(struct accel_clip_options){ .norm_type = accel_exactly (p) },
                                 &err)) {
        ok (false, "%s: %s", line, err.text);
        return;
    }
    bool good = is_near (norm, wanted);
    for (int t = 0; t < tensors; t++)
        for (int64_t i = 0; i < sizes[t]; i++)
            good = is_near (gradients[t][i], strtof (golden_word (golden), NULL)) && good;
    ok (good, "p %g, norm %g of %s", p, (double) norm, line);
    accel_model_destroy (model);
}

/* A limit of 0.1 is rounded to the type of the gradients, as by torch: bfloat16 may exceed it, float16 does not. */
static void
test_narrow_limit (enum accel_dtype dtype, uint16_t one, uint16_t limit)
{
    const uint16_t sign = 0x8000;
    uint16_t weights[3] = { 0 }, grads[] = { one, (uint16_t) (one | sign), 0 };
    int64_t size = 3;
    DLTensor value = { .data = weights, .device = { kDLCPU, 0 }, .ndim = 1, .shape = &size,
                       .dtype = accel_dtype_to_dl (dtype) };
    DLTensor grad = value;
    grad.data = grads;
    struct accel_model *model;
    struct accel_error err = { 0 };
    bool good = !accel_model_create (&model, &(struct accel_parameter){ "w", &value, &grad }, 1, &err)
                && !accel_clip_grad_value (model, 0.1, &err);
    ok (good && grads[0] == limit && grads[1] == (limit | sign) && !grads[2], "0.1 in %s: %x, wanted %x",
        accel_dtype_name (dtype), grads[0], limit);
    accel_model_destroy (model);
}

int
main (void)
{
    struct golden golden;
    golden_find (&golden, "clip_edges.txt");
    while (golden_next (&golden))
        test_case (&golden);
    test_narrow_limit (ACCEL_BFLOAT16, 0x3f80, 0x3dcd);
    test_narrow_limit (ACCEL_FLOAT16, 0x3c00, 0x2e66);
    return done_testing ();
}
