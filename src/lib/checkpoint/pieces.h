/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a model as they are in files: under which names, of which types, and where tied ones are. */
#ifndef LIB_CHECKPOINT_PIECES_H
#define LIB_CHECKPOINT_PIECES_H

#include <accel/model_file.h>

#include "lib/train/model_object.h"

/** What is appended to the name of an 8-bit parameter for the number that its elements are to be multiplied by. */
#define SCALE_SUFFIX "_scale"

/** A tensor of a file. */
struct piece {
    char *name;
    DLTensor from; /* where its numbers are */
    bool transposed;
    int64_t turned[2];    /* then the shape in the file */
    DLDataType to; /* what they become in the file */
};

struct pieces {
    struct piece *all; /* [count] in the order of the parameters */
    size_t count;
    size_t *same_as;   /* [parameters] the first parameter with the same memory: itself unless it is tied */
    size_t *piece_of;  /* [parameters] */
    size_t parameters;
    float *scales;     /* [parameters] */
};

/** List what is saved of @p model.  Its memory stays where it is. */
enum accel_status pieces_list (struct pieces *pieces, struct accel_model *model,
                               const struct accel_save_model_options *options, struct accel_error *err);

/** @return the size of a piece in the file. */
uint64_t piece_bytes (const struct piece *piece);

/** Find which parameters share their memory.  @param[out] same_as  [parameters], as above */
void pieces_find_tied (const struct accel_model *model, size_t *same_as);

/** Also after pieces_list() failed. */
void pieces_release (struct pieces *pieces);

#endif
