/* SPDX-License-Identifier: Apache-2.0 */
/* What checkpoints have of PowerSGD: of each compressed gradient Q, which is the same on all ranks, and the error that
 * this rank has yet to send. */
#include <config.h>

#include "lib/base/error.h"
#include "lib/train/reducer/power_sgd.h"
#include "lib/train/reducer/rank_state.h"

#include <stdio.h>

enum { NAME_SIZE = 512 };

/* A matrix of floats as a tensor; @shape [2] becomes its sizes. */
static DLTensor
as_tensor (const struct accel_model *model, float *values, size_t rows, size_t columns, int64_t *shape)
{
    shape[0] = (int64_t) rows;
    shape[1] = (int64_t) columns;
    return (DLTensor){ .data = values, .device = model->device, .ndim = 2,
                       .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .shape = shape };
}

static void
save_seeds (const struct accel_generator *seeds, size_t number, struct accel_state_dict *state)
{
    char name[NAME_SIZE];
    uint8_t bytes[ACCEL_GENERATOR_STATE_BYTES];
    snprintf (name, sizeof name, "seeds.%zu", number);
    accel_generator_get_state (seeds, bytes);
    accel_state_dict_set_bytes (state, name, bytes, sizeof bytes);
}

static void
save_model (const struct accel_model *model, struct accel_state_dict *state)
{
    const struct power_sgd *power = model->reducer->power_sgd;
    size_t number = rank_state_number (model);
    state_dict_set_uint64 (state, power->passes, "passes.%zu", number);
    save_seeds (&power->seeds, number, state);
    for (size_t s = 0; s < model->span_count; s++)
        FOR_GRADIENTS_OF (model, s, i) {
            const struct matrix *matrix = &power->matrices[i];
            const char *name = model->parameters[i].name;
            int64_t shape[2];
            if (!power->started[s] || !matrix->rank)
                continue;
            DLTensor q = as_tensor (model, matrix->q, matrix->m, matrix->rank, shape);
            state_dict_set_tensor (state, &q, "q.%zu.%s", number, name);
            if (!matrix->error)
                continue;
            DLTensor error = as_tensor (model, matrix->error, matrix->n, matrix->m, shape);
            state_dict_set_tensor (state, &error, "error.%zu.%s", number, name);
        }
}

static void
save_power_sgd (const struct part *part, struct accel_state_dict *state)
{
    for (const struct accel_model *model = model_first (part->acc); model; model = model_next (model))
        if (model->reducer->power_sgd)
            save_model (model, state);
}

static enum accel_status
load_seeds (struct accel_generator *seeds, size_t number, const struct accel_state_dict *state,
            struct accel_error *err)
{
    char name[NAME_SIZE];
    uint8_t bytes[ACCEL_GENERATOR_STATE_BYTES];
    snprintf (name, sizeof name, "seeds.%zu", number);
    enum accel_status status = accel_state_dict_get_bytes (state, name, bytes, sizeof bytes, err);
    return status ? status : accel_generator_set_state (seeds, bytes, sizeof bytes, err);
}

/* @return whether the state has a matrix of parameter @index; the name is too long: it has not */
static bool
find_name (const struct accel_model *model, size_t index, const char *what, const struct accel_state_dict *state,
           char name[NAME_SIZE])
{
    int length = snprintf (name, NAME_SIZE, "%s.%zu.%s", what, rank_state_number (model),
                           model->parameters[index].name);
    return length < NAME_SIZE && accel_state_dict_has (state, name);
}

static enum accel_status
load_matrix (struct accel_model *model, size_t index, const struct accel_state_dict *states, size_t count,
             struct accel_error *err)
{
    const struct matrix *matrix = &model->reducer->power_sgd->matrices[index];
    char name[NAME_SIZE];
    int64_t shape[2];
    DLTensor q = as_tensor (model, matrix->q, matrix->m, matrix->rank, shape);
    enum accel_status status = ACCEL_OK;
    if (find_name (model, index, "q", &states[0], name))
        status = rank_state_read (model, &q, states, 1, name, err);
    if (status || !matrix->error || !find_name (model, index, "error", &states[0], name))
        return status;
    DLTensor error = as_tensor (model, matrix->error, matrix->n, matrix->m, shape);
    return rank_state_read (model, &error, states, count, name, err);
}

/* A bucket begins anew if one of its matrices was not saved: other buckets, or another rank of the approximation. */
static enum accel_status
load_span (struct accel_model *model, size_t s, const struct accel_state_dict *states, size_t count,
           struct accel_error *err)
{
    struct power_sgd *power = model->reducer->power_sgd;
    enum accel_status status = ACCEL_OK;
    char name[NAME_SIZE];
    bool found = true;
    FOR_GRADIENTS_OF (model, s, i)
        found = found && (!power->matrices[i].rank || find_name (model, i, "q", &states[0], name));
    power->started[s] = found;
    FOR_GRADIENTS_OF (model, s, i)
        if (found && !status && power->matrices[i].rank)
            status = load_matrix (model, i, states, count, err);
    return status;
}

static enum accel_status
load_model (struct accel_model *model, const struct accel_state_dict *states, size_t count, struct accel_error *err)
{
    struct power_sgd *power = model->reducer->power_sgd;
    char name[NAME_SIZE];
    size_t number = rank_state_number (model);
    power_sgd_reset (model);
    snprintf (name, sizeof name, "passes.%zu", number);
    if (!count || !accel_state_dict_has (&states[0], name))
        return ACCEL_OK;
    enum accel_status status = state_dict_read_uint64 (&states[0], name, &power->passes, err);
    if (!status)
        status = load_seeds (&power->seeds, number, &states[0], err);
    for (size_t s = 0; !status && s < model->span_count; s++)
        status = load_span (model, s, states, count, err);
    return status;
}

static enum accel_status
reshard_power_sgd (struct part *part, const struct accel_state_dict *states, size_t count, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (struct accel_model *model = model_first (part->acc); !status && model; model = model_next (model))
        if (model->reducer->power_sgd)
            status = load_model (model, states, count, err);
    return status;
}

static enum accel_status
load_power_sgd (struct part *part, const struct accel_state_dict *state, struct accel_error *err)
{
    return reshard_power_sgd (part, state, state != NULL, err);
}

const struct part_kind part_power_sgd
    = { .size_bytes = sizeof (struct part), .save = save_power_sgd,
        .load = load_power_sgd, .reshard = reshard_power_sgd, .file = "power_sgd", .of_each_rank = true };
