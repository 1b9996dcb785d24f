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
#include "lib/base/option.h"
#include "lib/train/reducer/power_sgd.h"

#include <accel/utility.h>

#include <stdlib.h>

/* Like torch: dimension 0, and all others. */
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
    size_t q, errors, sent, wide, drawn;
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
            size_t q = matrix->m * matrix->rank;
            needs.q += q;
            needs.drawn = q > needs.drawn ? q : needs.drawn;
            needs.errors += flag_or (model->ddp.use_error_feedback, true) ? elements : 0;
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
            if (!matrix->rank || !flag_or (model->ddp.use_error_feedback, true))
                continue;
            matrix->error = error;
            error += matrix->n * matrix->m;
        }
}

/* If a span is not started, its part of `q` is drawn anew. */
void
power_sgd_reset (struct accel_model *model)
{
    struct power_sgd *power = model->reducer->power_sgd;
    power->passes = 0;
    generator_init (&power->seeds, 0);
    generator_init (&power->generator, 0);
    for (size_t s = 0; s < model->span_count; s++)
        power->started[s] = false;
    model->memory->zero (model->device, power->errors, power->error_count * sizeof *power->errors);
}

/* Only what is averaged next is multiplied by a library: ranks with other GPUs, or without it, have the same result.
 * @return NULL: libaccel multiplies */
static const struct memory_products *
choose_products (const struct accel_model *model, struct accel *acc)
{
    struct accel_error err;
    const struct memory_products *products = model->ddp.use_cublas ? model->memory->products : NULL;
    if (!products || !products->open (model->device, &err))
        return products;
    accel_logger_log (acc, ACCEL_LOG_WARNING, "PowerSGD multiplies by libaccel's own kernels: %s", err.text);
    return NULL;
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
    power->matrices = calloc (model->count, sizeof *power->matrices);
    power->started = calloc (model->span_count, sizeof *power->started);
    if (!power->matrices || !power->started)
        goto error;
    struct needs needs = describe (model, power->matrices);
    power->errors = model->memory->create (model->device, (needs.errors + 1) * sizeof *power->errors, true);
    power->wide = model->memory->create (model->device, (needs.wide + 1) * sizeof *power->wide, true);
    power->drawn = calloc (needs.drawn + 1, sizeof *power->drawn);
    if (!power->errors || !power->wide || !power->drawn)
        goto error;
    enum accel_status status = model_alloc (model, acc, &q, (needs.q + 1) * sizeof *power->q, err);
    power->q = status ? NULL : q;
    if (!status)
        status = model_alloc (model, acc, &sent, (needs.sent + 1) * sizeof *power->sent, err);
    power->sent = status ? NULL : sent;
    power->error_count = needs.errors;
    if (!status) {
        power->products = choose_products (model, acc);
        place (model, power);
        power_sgd_reset (model);
    }
    return status;
error:
    return memory_fail (model->device, err, "cannot allocate memory to compress the gradients of %zu parameters",
                        model->count);
}

void
power_sgd_free (struct accel_model *model)
{
    struct power_sgd *power = model->reducer->power_sgd;
    if (!power)
        return;
    model_free (model, power->q);
    model_free (model, power->sent);
    free (power->matrices);
    free (power->started);
    model->memory->destroy (model->device, power->errors);
    model->memory->destroy (model->device, power->wide);
    free (power->drawn);
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

/* Column @j of Q, drawn anew. */
static enum accel_status
redraw_column (const struct accel_model *model, struct power_sgd *power, const struct matrix *matrix, size_t j,
               struct accel_error *err)
{
    size_t bytes = matrix->m * matrix->rank * sizeof *power->drawn;
    enum accel_status status = model->memory->read (model->device, power->drawn, matrix->q, bytes, err);
    for (size_t row = 0; row < matrix->m; row++)
        power->drawn[row * matrix->rank + j] = generator_uniform_float (&power->generator) - 0.5F;
    model->memory->write (model->device, matrix->q, power->drawn, bytes);
    return status;
}

/* Q [m, rank]: useless columns are drawn anew, which comes out the same on all ranks, for all have the same Q. */
static enum accel_status
orthogonalise_q (const struct accel_model *model, struct power_sgd *power, const struct matrix *matrix,
                 struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (size_t j = 0; j < matrix->rank; j++)
        for (int i = 0; !status && i < 3; i++) {
            bool good;
            model->memory->orthogonalise (model->device, matrix->q, matrix->m, matrix->rank, j, &good);
            if (good)
                break;
            status = redraw_column (model, power, matrix, j, err);
        }
    return status;
}

/* torch's numbers: numpy's RandomState (0).randint (10^9) seeds torch.randn(). */
static void
draw_q (const struct accel_model *model, struct power_sgd *power, const struct matrix *matrix, bool *seeded)
{
    enum { MASK = (1 << 30) - 1, BELOW = 1000000000 };
    uint32_t seed = MASK;
    size_t count = matrix->m * matrix->rank;
    while (!*seeded && seed >= BELOW)
        seed = generator_next_32 (&power->seeds) & MASK;
    if (!*seeded)
        generator_init (&power->generator, seed);
    *seeded = true;
    (void) !accel_generator_fill_normal (&power->generator, power->drawn, count, ACCEL_FLOAT32, 0, 1, NULL);
    model->memory->write (model->device, matrix->q, power->drawn, count * sizeof *power->drawn);
}

/* The gradient in float32 with the error of earlier passes: in its own place, or in a copy. */
static float *
begin_matrix (const struct accel_model *model, size_t s, size_t i, float *wide)
{
    const struct matrix *matrix = &model->reducer->power_sgd->matrices[i];
    const DLTensor *grad = model->parameters[i].grad;
    size_t count = matrix->n * matrix->m;
    float *values = wide;
    if (model->spans[s].dtype == ACCEL_FLOAT32)
        values = memory_data (grad);
    else
        model->memory->widen (model->device, values, grad->data, model->spans[s].dtype, count, 1);
    if (matrix->error)
        model->memory->add (model->device, values, matrix->error, count);
    return values;
}

/* P = M Q; or Q = M^T P. @{ */
static void
multiply (const struct accel_model *model, float *p, const struct matrix *of)
{
    const struct memory_products *products = model->reducer->power_sgd->products;
    if (!products || !products->multiply (model->device, p, of->values, of->q, of->n, of->m, of->rank))
        model->memory->multiply (model->device, p, of->values, of->q, of->n, of->m, of->rank);
}

static void
multiply_transposed (const struct accel_model *model, const float *p, const struct matrix *of)
{
    const struct memory_products *products = model->reducer->power_sgd->products;
    if (!products || !products->multiply_transposed (model->device, of->q, of->values, p, of->n, of->m, of->rank))
        model->memory->multiply_transposed (model->device, of->q, of->values, p, of->n, of->m, of->rank);
}
/* @} */

/* Draw Q, or start with the last one; collect what is sent first: @elements. */
static enum accel_status
begin_span (struct accel_model *model, size_t s, const unsigned char *mask, size_t *elements, struct accel_error *err)
{
    const struct memory *memory = model->memory;
    enum accel_status status = ACCEL_OK;
    struct power_sgd *power = model->reducer->power_sgd;
    bool draws = !flag_or (model->ddp.warm_start, true) || !power->started[s], seeded = false;
    float *sent = power->sent, *wide = power->wide;
    power->started[s] = true;
    FOR_GRADIENTS_OF (model, s, i) {
        struct matrix *matrix = &power->matrices[i];
        if (status || (mask && !mask[i]))
            continue;
        if (!matrix->rank) {
            memory->widen (model->device, sent, model->parameters[i].grad->data, model->spans[s].dtype,
                           matrix->n * matrix->m, 1);
            sent += matrix->n * matrix->m;
            continue;
        }
        if (draws)
            draw_q (model, power, matrix, &seeded);
        status = orthogonalise_q (model, power, matrix, err);
        matrix->values = begin_matrix (model, s, i, wide);
        wide += matrix->values == wide ? matrix->n * matrix->m : 0;
        multiply (model, sent, matrix);
        sent += matrix->n * matrix->rank;
    }
    *elements = (size_t) (sent - power->sent);
    return status;
}

/* What was sent has come back averaged.  With `expands` Q has as well. */
static void
go_on (struct accel_model *model, size_t s, const unsigned char *mask, bool expands)
{
    struct power_sgd *power = model->reducer->power_sgd;
    const struct memory *memory = model->memory;
    DLDevice device = model->device;
    float *sent = power->sent;
    FOR_GRADIENTS_OF (model, s, i) {
        const struct matrix *matrix = &power->matrices[i];
        size_t count = matrix->n * (matrix->rank ? matrix->rank : matrix->m);
        DLTensor *grad = model->parameters[i].grad;
        if (mask && !mask[i])
            continue;
        if (!expands && !matrix->rank)
            memory->narrow (device, grad->data, model->spans[s].dtype, sent, count);
        for (size_t j = 0; !expands && j < matrix->rank; j++)
            memory->orthogonalise (device, sent, matrix->n, matrix->rank, j, NULL);
        if (!expands && matrix->rank)
            multiply_transposed (model, sent, matrix);
        if (expands && matrix->rank) {
            memory->expand (device, matrix->values, matrix->error, sent, matrix->q, matrix->n, matrix->m,
                            matrix->rank);
            if (matrix->values != grad->data)
                memory->narrow (device, grad->data, model->spans[s].dtype, matrix->values, matrix->n * matrix->m);
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
    size_t elements = 0, count;
    enum accel_status status = begin_span (model, s, mask, &count, err);
    FOR_GRADIENTS_OF (model, s, i) {
        q = q ? q : power->matrices[i].q;
        elements += power->matrices[i].m * power->matrices[i].rank;
    }
    if (!status)
        status = comm_all_reduce (reducer->comm, &reducer->there, sent, sent, count, ACCEL_FLOAT32, ACCEL_AVG, err);
    if (status)
        return status;
    go_on (model, s, mask, false);
    if (!elements)
        return ACCEL_OK;
    status = comm_all_reduce (reducer->comm, &reducer->there, q, q, elements, ACCEL_FLOAT32, ACCEL_AVG, err);
    if (!status)
        go_on (model, s, mask, true);
    return status;
}
