/* SPDX-License-Identifier: Apache-2.0 */
/* PowerSGD (T. Vogels, S. P. Karimireddy, M. Jaggi, NeurIPS 2019, algorithm 2), as torch's powerSGD_hook does it
 * (torch/distributed/algorithms/ddp_comm_hooks/powerSGD_hook.py): a gradient M [n, m] is sent as P [n, r] and Q [m, r]
 * with M ~ P Q^T; what that loses is added to the next gradient.  Vectors, and matrices that would not get smaller, are
 * averaged whole.
 *
 * Other than torch: whole gradients and P travel together, and what is averaged whole leaves no error to remember,
 * where torch remembers differences that add up to 0.  A direction that gradients do not have, such as all those of a
 * gradient of zeros, gets the vector 0, and Q a new random one; with torch's epsilon of 0 everything becomes NaN, for
 * good.  For the same reason what is not finite is neither remembered as an error nor as a Q.
 *
 * On a device that orders buckets, the kernels and all-reduces of each bucket are a chain on a stream beside the
 * program's, which goes on meanwhile; the host waits for none of it. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/base/option.h"
#include "lib/kernels/matrix_element.h"
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
    if (!status && model->memory->side_stream)
        status = model->memory->side_stream (model->device, &power->side_stream, err);
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
    if (power)
        power->passes++;
}

/* Q [m, rank] of parameter @i: useless columns are drawn anew where Q is.  That comes out the same on all ranks, for
 * all have the same Q and have made as many passes. */
static void
orthogonalise_q (const struct accel_model *model, size_t i)
{
    const struct power_sgd *power = model->reducer->power_sgd;
    const struct matrix *matrix = &power->matrices[i];
    uint64_t seed = matrix_mix (matrix_mix (power->passes + 1) + i);
    for (size_t j = 0; j < matrix->rank; j++)
        model->memory->orthogonalise (model->device, matrix->q, matrix->m, matrix->rank, j, &seed);
}

/* torch's numbers: numpy's RandomState (0).randint (10^9) seeds torch.randn(). */
static void
seed_generator (struct power_sgd *power, struct accel_generator *generator)
{
    enum { MASK = (1 << 30) - 1, BELOW = 1000000000 };
    uint32_t seed = MASK;
    while (seed >= BELOW)
        seed = generator_next_32 (&power->seeds) & MASK;
    generator_init (generator, seed);
}

/* Also of gradients that are not used, so that numbers do not depend on which are. */
static void
draw_span (const struct accel_model *model, size_t s)
{
    struct power_sgd *power = model->reducer->power_sgd;
    struct accel_generator generator;
    bool is_seeded = false;
    FOR_GRADIENTS_OF (model, s, i) {
        const struct matrix *matrix = &power->matrices[i];
        size_t count = matrix->m * matrix->rank;
        if (!count)
            continue;
        if (!is_seeded)
            seed_generator (power, &generator);
        is_seeded = true;
        (void) !accel_generator_fill_normal (&generator, power->drawn, count, ACCEL_FLOAT32, 0, 1, NULL);
        model->memory->write (model->device, matrix->q, power->drawn, count * sizeof *power->drawn);
    }
    power->started[s] = true;
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

/* On a device, in the order of its stream: writing may wait for what is there, but for no other rank. */
void
power_sgd_begin (struct accel_model *model)
{
    for (size_t s = 0; power_sgd_is_due (model) && s < model->span_count; s++)
        if (!flag_or (model->ddp.warm_start, true) || !model->reducer->power_sgd->started[s])
            draw_span (model, s);
}

/* Collect what is sent first.  @return elements of it */
static size_t
begin_span (struct accel_model *model, size_t s, const unsigned char *mask)
{
    const struct memory *memory = model->memory;
    struct power_sgd *power = model->reducer->power_sgd;
    float *sent = power->sent, *wide = power->wide;
    FOR_GRADIENTS_OF (model, s, i) {
        struct matrix *matrix = &power->matrices[i];
        if (mask && !mask[i])
            continue;
        if (!matrix->rank) {
            memory->widen (model->device, sent, model->parameters[i].grad->data, model->spans[s].dtype,
                           matrix->n * matrix->m, 1);
            sent += matrix->n * matrix->m;
            continue;
        }
        orthogonalise_q (model, i);
        matrix->values = begin_matrix (model, s, i, wide);
        wide += matrix->values == wide ? matrix->n * matrix->m : 0;
        multiply (model, sent, matrix);
        sent += matrix->n * matrix->rank;
    }
    return (size_t) (sent - power->sent);
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

/* Stretches of neighbours that take part; a Q that does not stays as it is, to the last bit. */
static enum accel_status
average_q (const struct accel_model *model, size_t s, const unsigned char *mask, const struct comm_site *site,
           struct accel_error *err)
{
    struct accel_comm *comm = model->reducer->comm;
    enum accel_status status = ACCEL_OK;
    float *q = NULL;
    size_t count = 0;
    FOR_GRADIENTS_OF (model, s, i) {
        const struct matrix *matrix = &model->reducer->power_sgd->matrices[i];
        bool is_out = matrix->rank && mask && !mask[i];
        if (is_out && count && !status)
            status = comm_all_reduce (comm, site, q, q, count, ACCEL_FLOAT32, ACCEL_AVG, err);
        count = is_out ? 0 : count + matrix->m * matrix->rank;
        q = is_out ? NULL : q ? q : matrix->q;
    }
    return count && !status ? comm_all_reduce (comm, site, q, q, count, ACCEL_FLOAT32, ACCEL_AVG, err) : status;
}

/* @site: of all collectives, and their stream */
static enum accel_status
reduce (struct accel_model *model, size_t s, const unsigned char *mask, const struct comm_site *site,
        struct accel_error *err)
{
    float *sent = model->reducer->power_sgd->sent;
    size_t count = begin_span (model, s, mask);
    enum accel_status status
        = comm_all_reduce (model->reducer->comm, site, sent, sent, count, ACCEL_FLOAT32, ACCEL_AVG, err);
    if (status)
        return status;
    go_on (model, s, mask, false);
    status = average_q (model, s, mask, site, err);
    if (!status)
        go_on (model, s, mask, true);
    return status;
}

enum accel_status
power_sgd_reduce (struct accel_model *model, size_t s, const unsigned char *mask, struct accel_error *err)
{
    return reduce (model, s, mask, &model->reducer->there, err);
}

/* ---- in the order of a device ---- */

bool
power_sgd_can_be_ordered (const struct accel_model *model)
{
    return !power_sgd_is_due (model) || model->reducer->power_sgd->side_stream;
}

void *
power_sgd_memory (const struct accel_model *model, size_t index, unsigned array, size_t *bytes)
{
    const struct matrix *matrix = power_sgd_is_due (model) ? &model->reducer->power_sgd->matrices[index] : NULL;
    if (!matrix || !matrix->rank || array > 1)
        return NULL;
    *bytes = matrix->m * (array ? matrix->n : matrix->rank) * sizeof (float);
    return array ? matrix->error : matrix->q;
}

enum accel_status
power_sgd_follow (const struct accel_model *model, struct accel_error *err)
{
    const struct memory *memory = model->memory;
    DLDevice device = model->device;
    if (!power_sgd_is_due (model))
        return ACCEL_OK;
    return memory->order (device, memory->stream (device), model->reducer->power_sgd->side_stream, err);
}

enum accel_status
power_sgd_join (const struct accel_model *model, struct accel_error *err)
{
    const struct memory *memory = model->memory;
    DLDevice device = model->device;
    if (!power_sgd_is_due (model))
        return ACCEL_OK;
    return memory->order (device, model->reducer->power_sgd->side_stream, memory->stream (device), err);
}

void
power_sgd_copy (const struct accel_model *model, void *to, const void *from, size_t bytes)
{
    model->memory->use_side_stream (model->device, true);
    model->memory->copy (model->device, to, from, bytes);
    model->memory->use_side_stream (model->device, false);
}

/* All kernels are on the side stream, one bucket after the other, so they share memory. */
enum accel_status
power_sgd_start (struct accel_model *model, size_t s, struct accel_error *err)
{
    struct comm_site site = model->reducer->there;
    enum accel_status status = power_sgd_follow (model, err);
    if (status)
        return status;
    site.stream = model->reducer->power_sgd->side_stream;
    model->memory->use_side_stream (model->device, true);
    status = reduce (model, s, NULL, &site, err);
    model->memory->use_side_stream (model->device, false);
    return status;
}
