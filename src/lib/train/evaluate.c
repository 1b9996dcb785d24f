/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation in the middle of training: everything that a pass over a loader changes is put back at its end. */
#include <config.h>

#include <accel/accumulate.h>

#include "lib/data/loader.h"
#include "lib/data/generator.h"
#include "lib/error.h"
#include "lib/state/state_object.h"
#include "lib/train/model.h"

#include <errno.h>
#include <stdlib.h>

/* What accel_accumulate(), accel_no_sync() and the like change in one model. */
struct model_state {
    struct accel_model *model;
    bool held, triggered;
    unsigned unsynced;
};

struct accel_evaluation {
    struct accel *acc;           /* NULL: none */
    struct accel_loader *loader; /* NULL: none */
    struct loader_memo *memo;    /* of the loader */
    struct accel_generator generator; /* the default one */
    struct scaler scaler;
    bool autocast_off, accumulating;
    uint32_t num_steps;
    uint64_t micro_step;
    struct model_state *models;
    size_t model_count;
};
