/* SPDX-License-Identifier: Apache-2.0 */
/* PowerSGD (T. Vogels, S. P. Karimireddy, M. Jaggi, NeurIPS 2019, algorithm 2), as torch's powerSGD_hook does it
 * (torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py): a gradient M [n, m] is sent as P [n, r] and Q [m, r]
 * with M ~ P Q^T; what that loses is added to the next gradient.  Vectors, and matrices that would not get smaller, are
 * averaged whole.
 *
 * Other than torch: whole gradients and P travel together, and what is averaged whole leaves no error to remember,
 * where torch remembers differences that add up to 0.  A direction that gradients do not have, such as all those of a
 * gradient of zeros, gets the vector 0, and Q a new random one; with torch's epsilon of 0 everything becomes NaN, for
 * good.  For the same reason what is not finite is neither remembered as an error nor as a Q. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/data/generator.h"
#include "lib/kernels/arithmetic.h"
#include "lib/kernels/half.h"
#include "lib/train/reducer_object.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct matrix {
    size_t n, m, rank; /* rank 0: averaged whole */
    float *q;          /* [m, rank] of one bucket one behind the other */
    float *error;      /* [n, m]; NULL without feedback */
    float *values;     /* in a pass: the gradient with its error */
};

struct power_sgd {
    unsigned passes; /* so far; up to the first compressed one */
    struct accel_generator seeds, generator;
    struct matrix *matrices; /* [parameters] */
    bool *started;           /* [spans]: Q holds something */
    float *q, *errors;
    float *sent;  /* shared: whole gradients and P of one bucket */
    float *wide;  /* the 16-bit matrices of one bucket in float32 */
};

/* As torch has it: dimension 0, and all others. */
static struct matrix
shape_of (const struct accel_model *model, size_t index)
{
    const DLTensor *grad = model->parameters[index].grad;
    size_t n = grad->ndim ? (size_t) grad->shape[0] : 1, m = accel_tensor_count (grad) / n;
    size_t rank = model->ddp.matrix_approximation_rank, least = n < m ? n : m;
    rank = rank < least ? rank : least;
    if ((double) (n + m) * (double) rank * model->ddp.min_compression_rate >= (double) n * (double) m)
        rank = 0;
    return (struct matrix){ .n = n, .m = m, .rank = rank };
}

/* What all buckets need, and the largest. */
struct needs {
    size_t q, errors, sent, wide;
};

static struct needs
describe (const struct accel_model *model, struct matrix *matrices)
{
    struct needs needs = { 0 };
    for (size_t s = 0; s < model->span_count; s++) {
        size_t sent = 0, wide = 0;
        FOR_GRADIENTS_OF (model, s, i) {
            struct matrix *matrix = &matrices[i];
            *matrix = shape_of (model, i);
            size_t elements = matrix->n * matrix->m;
            sent += matrix->rank ? matrix->n * matrix->rank : elements;
            if (!matrix->rank)
                continue;
            needs.q += matrix->m * matrix->rank;
            needs.errors += model->ddp.no_error_feedback ? 0 : elements;
            wide += model->spans[s].dtype == ACCEL_FLOAT32 ? 0 : elements;
        }
        needs.wide = wide > needs.wide ? wide : needs.wide;
        needs.sent = sent > needs.sent ? sent : needs.sent;
    }
    return needs;
}

/* Where in the arrays each matrix has its part; those of one bucket are neighbours. */
static void
place (struct accel_model *model, struct power_sgd *power)
{
    float *q = power->q, *error = power->errors;
    for (size_t s = 0; s < model->span_count; s++)
        FOR_GRADIENTS_OF (model, s, i) {
            struct matrix *matrix = &power->matrices[i];
            matrix->q = q;
            q += matrix->m * matrix->rank;
            if (!matrix->rank || model->ddp.no_error_feedback)
                continue;
            matrix->error = error;
            error += matrix->n * matrix->m;
        }
}

enum accel_status
power_sgd_make (struct accel_model *model, struct accel *acc, struct accel_error *err)
{
    if (model->ddp.comm_hook != ACCEL_COMM_HOOK_POWER_SGD || !model->span_count)
        return ACCEL_OK;
    struct power_sgd *power = model->reducer->power_sgd = calloc (1, sizeof *power);
    void *q = NULL, *sent = NULL;
    if (!power)
        goto error;
    generator_init (&power->seeds, 0);
    generator_init (&power->generator, 0);
    power->matrices = calloc (model->count, sizeof *power->matrices);
    power->started = calloc (model->span_count, sizeof *power->started);
    if (!power->matrices || !power->started)
        goto error;
    struct needs needs = describe (model, power->matrices);
    power->errors = calloc (needs.errors + 1, sizeof *power->errors);
    power->wide = calloc (needs.wide + 1, sizeof *power->wide);
    if (!power->errors || !power->wide)
        goto error;
    enum accel_status status = accel_alloc (acc, &q, (needs.q + 1) * sizeof *power->q, err);
    power->q = status ? NULL : q;
    if (!status)
        status = accel_alloc (acc, &sent, (needs.sent + 1) * sizeof *power->sent, err);
    power->sent = status ? NULL : sent;
    if (!status)
        place (model, power);
    return status;
error:
    return accel_fail (err, ACCEL_ERR_NOMEM, "no memory to compress the gradients of %zu parameters", model->count);
}

void
power_sgd_free (struct accel_model *model)
{
    struct power_sgd *power = model->reducer->power_sgd;
    if (!power)
        return;
    accel_free (model->object.owner, power->q);
    accel_free (model->object.owner, power->sent);
    free (power->matrices);
    free (power->started);
    free (power->errors);
    free (power->wide);
    free (power);
}

bool
power_sgd_is_due (const struct accel_model *model)
{
    const struct power_sgd *power = model->reducer->power_sgd;
    return power && power->passes >= model->ddp.start_iter;
}

void
power_sgd_count (struct accel_model *model)
{
    struct power_sgd *power = model->reducer->power_sgd;
    if (power && power->passes < model->ddp.start_iter)
        power->passes++;
}

/* Column j's product with column k, or length. */
static double
product (const float *columns, size_t rows, size_t rank, size_t j, size_t k)
{
    double sum = 0;
    for (size_t i = 0; i < rows; i++)
        sum += (double) columns[i * rank + j] * (double) columns[i * rank + k];
    return sum;
}

/* Make column j orthogonal to those before it, and of length 1.  What is left of one that lies in their space is
 * nothing but rounding errors: it becomes 0.  @return whether it is neither 0 nor full of NaN and infinity */
static bool
orthogonalise_column (float *columns, size_t rows, size_t rank, size_t j)
{
    double before = sqrt (product (columns, rows, rank, j, j));
    if (!isfinite (before))
        return false; /* is seen by all, as it would be without compression */
    for (int round = 0; round < 2; round++) /* the second takes away what rounding left */
        for (size_t k = 0; k < j; k++) {
            double part = product (columns, rows, rank, j, k);
            for (size_t i = 0; i < rows; i++)
                columns[i * rank + j] -= (float) (part * (double) columns[i * rank + k]);
        }
    double after = sqrt (product (columns, rows, rank, j, j));
    bool good = !(after <= before * 1e-6);
    for (size_t i = 0; i < rows; i++)
        columns[i * rank + j] = good ? (float) ((double) columns[i * rank + j] / after) : 0;
    return good && !isnan (after);
}

/* Q [m, rank]: useless columns are drawn anew, which comes out the same on all ranks, for all have the same Q. */
static void
orthogonalise_q (struct power_sgd *power, const struct matrix *matrix)
{
    for (size_t j = 0; j < matrix->rank; j++)
        for (int i = 0; i < 3 && !orthogonalise_column (matrix->q, matrix->m, matrix->rank, j); i++)
            for (size_t row = 0; row < matrix->m; row++)
                matrix->q[row * matrix->rank + j] = generator_uniform_float (&power->generator) - 0.5F;
}

/* torch's numbers: numpy's RandomState (0).randint (10^9) seeds torch.randn(). */
static void
draw_q (struct power_sgd *power, const struct matrix *matrix, bool *seeded)
{
    enum { MASK = (1 << 30) - 1, BELOW = 1000000000 };
    uint32_t seed = MASK;
    while (!*seeded && seed >= BELOW)
        seed = generator_next_32 (&power->seeds) & MASK;
    if (!*seeded)
        generator_init (&power->generator, seed);
    *seeded = true;
    (void) !accel_generator_fill_normal_f32 (&power->generator, matrix->q, matrix->m * matrix->rank, 0, 1, NULL);
}

/* P = M Q. */
UNFUSED static void
multiply (float *p, const float *values, const struct matrix *matrix)
{
    size_t rank = matrix->rank;
    for (size_t i = 0; i < matrix->n; i++, values += matrix->m)
        for (size_t k = 0; k < rank; k++) {
            float sum = 0;
            for (size_t j = 0; j < matrix->m; j++)
                sum += values[j] * matrix->q[j * rank + k];
            p[i * rank + k] = sum;
        }
}

/* Q = M^T P. */
UNFUSED static void
multiply_transposed (const struct matrix *matrix, const float *values, const float *p)
{
    size_t rank = matrix->rank;
    memset (matrix->q, 0, matrix->m * rank * sizeof *matrix->q);
    for (size_t i = 0; i < matrix->n; i++, values += matrix->m)
        for (size_t j = 0; j < matrix->m; j++)
            for (size_t k = 0; k < rank; k++)
                matrix->q[j * rank + k] += values[j] * p[i * rank + k];
}

/* M = P Q^T.  The error is what M was less what it becomes. */
UNFUSED static void
expand (const struct matrix *matrix, float *values, const float *p)
{
    size_t rank = matrix->rank;
    for (size_t i = 0; i < matrix->n; i++)
        for (size_t j = 0; j < matrix->m; j++) {
            size_t at = i * matrix->m + j;
            float sum = 0, before = values[at];
            for (size_t k = 0; k < rank; k++)
                sum += p[i * rank + k] * matrix->q[j * rank + k];
            values[at] = sum;
            if (matrix->error)
                matrix->error[at] = isfinite (before - sum) ? before - sum : 0;
        }
}

/* The gradient in float32 with the error of earlier passes: in its own place, or in a copy. */
static float *
begin_matrix (const struct accel_model *model, size_t s, size_t i, float *wide)
{
    const struct matrix *matrix = &model->reducer->power_sgd->matrices[i];
    const DLTensor *grad = model->parameters[i].grad;
    size_t count = matrix->n * matrix->m;
    float *values = grad->data;
    if (model->spans[s].dtype != ACCEL_FLOAT32) {
        values = wide;
        floats_widen (values, grad->data, model->spans[s].dtype, count);
    }
    for (size_t j = 0; matrix->error && j < count; j++)
        values[j] += matrix->error[j];
    return values;
}

/* Draw Q, or start with the last one; collect what is sent first.  @return its elements */
static size_t
begin_span (struct accel_model *model, size_t s, const unsigned char *mask)
{
    struct power_sgd *power = model->reducer->power_sgd;
    bool draws = model->ddp.no_warm_start || !power->started[s], seeded = false;
    float *sent = power->sent, *wide = power->wide;
    power->started[s] = true;
    FOR_GRADIENTS_OF (model, s, i) {
        struct matrix *matrix = &power->matrices[i];
        if (mask && !mask[i])
            continue;
        if (!matrix->rank) {
            floats_widen (sent, model->parameters[i].grad->data, model->spans[s].dtype, matrix->n * matrix->m);
            sent += matrix->n * matrix->m;
            continue;
        }
        if (draws)
            draw_q (power, matrix, &seeded);
        orthogonalise_q (power, matrix);
        matrix->values = begin_matrix (model, s, i, wide);
        wide += matrix->values == wide ? matrix->n * matrix->m : 0;
        multiply (sent, matrix->values, matrix);
        sent += matrix->n * matrix->rank;
    }
    return (size_t) (sent - power->sent);
}

/* What was sent has come back averaged.  With `expands` Q has as well. */
static void
go_on (struct accel_model *model, size_t s, const unsigned char *mask, bool expands)
{
    struct power_sgd *power = model->reducer->power_sgd;
    float *sent = power->sent;
    FOR_GRADIENTS_OF (model, s, i) {
        const struct matrix *matrix = &power->matrices[i];
        size_t count = matrix->n * (matrix->rank ? matrix->rank : matrix->m);
        DLTensor *grad = model->parameters[i].grad;
        if (mask && !mask[i])
            continue;
        if (!expands && !matrix->rank)
            floats_narrow (grad->data, model->spans[s].dtype, sent, count, false);
        for (size_t j = 0; !expands && j < matrix->rank; j++)
            orthogonalise_column (sent, matrix->n, matrix->rank, j);
        if (!expands && matrix->rank)
            multiply_transposed (matrix, matrix->values, sent);
        if (expands && matrix->rank) {
            expand (matrix, matrix->values, sent);
            if (matrix->values != grad->data)
                floats_narrow (grad->data, model->spans[s].dtype, matrix->values, matrix->n * matrix->m, false);
        }
        sent += count;
    }
}

enum accel_status
power_sgd_reduce (struct accel_model *model, size_t s, const unsigned char *mask, struct accel_error *err)
{
    struct reducer *reducer = model->reducer;
    struct power_sgd *power = reducer->power_sgd;
    float *q = NULL, *sent = power->sent;
    size_t elements = 0, count = begin_span (model, s, mask);
    FOR_GRADIENTS_OF (model, s, i) {
        q = q ? q : power->matrices[i].q;
        elements += power->matrices[i].m * power->matrices[i].rank;
    }
    enum accel_status status
        = comm_all_reduce (reducer->comm, reducer->site, sent, sent, count, ACCEL_FLOAT32, ACCEL_AVG, err);
    if (status)
        return status;
    go_on (model, s, mask, false);
    if (!elements)
        return ACCEL_OK;
    status = comm_all_reduce (reducer->comm, reducer->site, q, q, elements, ACCEL_FLOAT32, ACCEL_AVG, err);
    if (!status)
        go_on (model, s, mask, true);
    return status;
}
