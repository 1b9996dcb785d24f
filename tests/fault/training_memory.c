/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of training_memory.sh.
 *
 * training_memory: alone; a life of training is led again and again, each time one allocation later fails: an error, no
 * crash and nothing lost (a sanitizer looks), and at last a life in which all succeed.
 * training_memory N: in a job; the highest rank fails its Nth allocation after accel_open(), gets ACCEL_ERR_NOMEM and
 * leaves, and the others get ACCEL_ERR_PEER.  It says "unreached" if there are fewer. */
#include <config.h>

#include "tests/allocators.h"

#include <accel/accel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEADLINE_S = 900, TENSORS = 3 };

/* All that a life makes. */
struct life {
    DLTensor data[TENSORS], grads[TENSORS];
    struct accel_model *model;
    struct accel_optimizer *optimizers[4];
    struct accel_scheduler *scheduler;
    struct accel_comm *group;
    struct accel_mesh *mesh;
    struct accel_tree *tree, *gathered, *message;
    struct accel_tensor part, exchanged;
    struct accel_tensor out, padded;
    struct accel_object_list objects, heard, given, came;
};

static struct accel *acc;
static float own[8];

static enum accel_status
update (void *user, const struct accel_update *one, struct accel_error *err)
{
    (void) user, (void) one, (void) err;
    return ACCEL_OK;
}

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    struct life *life = user;
    (void) err;
    for (int i = 0; i < TENSORS; i++)
        for (size_t j = 0; j < accel_tensor_count (&life->grads[i]); j++)
            ((float *) life->grads[i].data)[j] += scale;
    return ACCEL_OK;
}

static enum accel_status
make_model (struct life *life, struct accel_error *err)
{
    static int64_t shape[] = { 4, 2 };
    static const char *const names[] = { "a", "b", "c" };
    struct accel_parameter parameters[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        life->data[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = i, .shape = shape,
                                    .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
        life->grads[i] = life->data[i];
        parameters[i] = (struct accel_parameter){ names[i], &life->data[i], &life->grads[i] };
    }
    life->grads[2].data = own;
    return accel_model_create (&life->model, parameters, TENSORS, err);
}

static enum accel_status
train (struct life *life, struct accel_error *err)
{
    static const char *const states[] = { "velocity", "count" };
    struct accel_optimizer_options sgd = { .lr = 0.1, .momentum = 0.9 };
    struct accel_optimizer_options adam = { .amsgrad = true };
    struct accel_custom_optimizer custom = { .lr = 1, .step = update, .state_names = states, .state_count = 2 };
    struct accel_scheduler_options options = { .schedule = ACCEL_SCHEDULE_STEP, .step_size = 2 };
    enum accel_status status = make_model (life, err);
    if (status || (status = accel_optimizer_create (&life->optimizers[0], life->model, ACCEL_SGD, &sgd, err))
        || (status = accel_optimizer_create (&life->optimizers[1], life->model, ACCEL_ADAM, &adam, err))
        || (status = accel_optimizer_create (&life->optimizers[2], life->model, ACCEL_LION, NULL, err))
        || (status = accel_optimizer_create_custom (&life->optimizers[3], life->model, &custom, err))
        || (status = accel_scheduler_create (&life->scheduler, life->optimizers[1], &options, err))
        || (status = accel_prepare (acc, err, life->model, life->scheduler, life->optimizers[0], life->optimizers[1],
                                    life->optimizers[2], life->optimizers[3])))
        return status;
    const struct accel_clip_options clip = { .norm_type = 3, .error_if_nonfinite = true };
    for (int step = 0; step < 2; step++) {
        if ((status = accel_backward (acc, life->model, 0, backward, life, err))
            || (status = accel_clip_grad_norm (life->model, 1, NULL, &clip, err))
            || (status = accel_clip_grad_value (life->model, 0.1, err)))
            return status;
        for (int i = 0; i < 4; i++)
            if ((status = accel_optimizer_step (life->optimizers[i], err))
                || (status = accel_optimizer_zero_grad (life->optimizers[i], err)))
                return status;
        if ((status = accel_scheduler_step (life->scheduler, err)))
            return status;
    }
    return ACCEL_OK;
}

static enum accel_status
exchange (struct life *life, struct accel_error *err)
{
    static const char *const names[] = { "data" };
    static int64_t numbers[] = { 1, 2, 3 }, shape[] = { 3 };
    DLTensor tensor = { .data = numbers, .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                        .dtype = accel_dtype_to_dl (ACCEL_INT64) };
    struct accel_object words[] = { { "one", 3 }, { "three", 5 } };
    struct accel_tree *leaf = NULL;
    int size = accel_num_processes (acc);
    enum accel_status status;
    if ((status = accel_comm_split (&life->group, accel_world (acc), 0, 0, err))
        || (status = accel_comm_all_reduce (life->group, own, own, 8, ACCEL_FLOAT32, ACCEL_SUM, err))
        || (status = accel_mesh_create (&life->mesh, acc, names, &size, 1, err))
        || (status = accel_gather (&life->out, acc, &tensor, err))
        || (status = accel_pad_across_processes (&life->padded, acc, &tensor, 0, 0, false, err))
        || (status = accel_gather_object (&life->objects, acc, words, 2, err))
        || (status = accel_broadcast_object_list (&life->heard, acc, words, 2, 0, err))
        || (status = accel_tree_create (&life->tree, ACCEL_TREE_LIST, err))
        || (status = accel_tree_copy_tensor (&leaf, &tensor, err)))
        return status;
    if ((status = accel_tree_append (life->tree, leaf, err))) {
        accel_tree_destroy (leaf);
        return status;
    }
    return accel_tree_gather (&life->gathered, acc, life->tree, err);
}

/* What both send the other, the second one first.  A tensor that is not contiguous needs memory on its way. */
static enum accel_status
talk (struct life *life, const struct accel_object *words, struct accel_error *err)
{
    int peer = !accel_process_index (acc);
    enum accel_status status = ACCEL_OK;
    for (int step = 0; step < 2 && !status; step++) {
        if (peer != step) {
            if (!(status = accel_tree_send (acc, life->tree, peer, err)))
                status = accel_send_object_list (acc, words, 2, peer, err);
        } else if (!(status = accel_tree_recv (&life->message, acc, peer, err)))
            status = accel_recv_object_list (&life->came, acc, peer, err);
    }
    return status;
}

static enum accel_status
exchange_parts (struct life *life, struct accel_error *err)
{
    static int64_t shape[] = { 2, 2 }, strides[] = { 1, 2 };
    DLTensor tensor = { .data = own, .device = { kDLCPU, 0 }, .ndim = 2, .shape = shape, .strides = strides,
                        .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    struct accel_object words[] = { { "one", 3 }, { "three", 5 } };
    struct accel_tree *dict = NULL, *leaf = NULL, *bytes = NULL;
    enum accel_status status;
    accel_tree_destroy (life->tree);
    life->tree = NULL;
    if ((status = accel_tree_create (&dict, ACCEL_TREE_DICT, err))
        || (status = accel_tree_borrow_tensor (&leaf, &tensor, err))
        || (status = accel_tree_set (dict, "tensor", leaf, err))) {
        accel_tree_destroy (leaf);
        accel_tree_destroy (dict);
        return status;
    }
    life->tree = dict;
    if ((status = accel_reduce_scatter (&life->part, acc, &tensor, ACCEL_MAX, err))
        || (status = accel_all_to_all (&life->exchanged, acc, &tensor, err))
        || (status = accel_all_to_all_object (&life->given, acc, words, err))
        || (status = accel_tree_create_bytes (&bytes, "bytes", 5, err)))
        return status;
    if ((status = accel_tree_set (dict, "bytes", bytes, err))) {
        accel_tree_destroy (bytes);
        return status;
    }
    return accel_num_processes (acc) == 2 ? talk (life, words, err) : ACCEL_OK;
}

static void
end (struct life *life)
{
    accel_tree_destroy (life->message);
    accel_tensor_release (&life->exchanged);
    accel_tensor_release (&life->part);
    accel_object_list_release (&life->came);
    accel_object_list_release (&life->given);
    accel_tree_destroy (life->gathered);
    accel_tree_destroy (life->tree);
    accel_object_list_release (&life->heard);
    accel_object_list_release (&life->objects);
    accel_tensor_release (&life->padded);
    accel_tensor_release (&life->out);
    accel_mesh_destroy (life->mesh);
    accel_comm_destroy (life->group);
    accel_scheduler_destroy (life->scheduler);
    for (int i = 0; i < 4; i++)
        accel_optimizer_destroy (life->optimizers[i]);
    accel_model_destroy (life->model);
}

/* A life in which allocation @p number, counted from 0, fails; whether there were that many. */
static bool
live (long number, enum accel_status *status, struct accel_error *err)
{
    struct life life = { 0 };
    *err = (struct accel_error){ 0 };
    calls_left = number;
    *status = train (&life, err);
    if (!*status)
        *status = exchange (&life, err);
    if (!*status)
        *status = exchange_parts (&life, err);
    bool reached = calls_left < 0;
    calls_left = -1;
    end (&life);
    return reached;
}

static void
open_job (void)
{
    struct accel_error err;
    if (accel_open (&acc, &(struct accel_options){ .timeout_ms = 200000 }, &err)) {
        printf ("WRONG: open: %s\n", err.text);
        exit (1);
    }
}

static int
live_alone (void)
{
    struct accel_error err;
    enum accel_status status;
    long number = 0;
    open_job (); /* anew for each: where peers would wait for what has failed, a communicator is given up */
    for (; live (number, &status, &err); number++, accel_close (acc), open_job ())
        if (status != ACCEL_ERR_NOMEM || err.code != status || !*err.text) {
            printf ("WRONG: allocation %ld: status %d: %s\n", number, (int) status, err.text);
            return 1;
        }
    printf ("%ld allocations failed, and then none: status %d: %s\n", number, (int) status, err.text);
    return status != ACCEL_OK || number < 20;
}

static int
live_together (long number)
{
    struct accel_error err;
    enum accel_status status;
    int rank = accel_process_index (acc), victim = accel_num_processes (acc) - 1;
    bool reached = live (rank == victim ? number : -1, &status, &err);
    if (rank == victim && !reached) {
        puts ("unreached");
        return status != ACCEL_OK;
    }
    /* What fails after the last message does not concern the others; in accel_prepare(), all have the same error. */
    bool is_told = status == ACCEL_ERR_NOMEM && strstr (err.text, "of rank 1: ");
    bool good = rank == victim ? status == ACCEL_ERR_NOMEM : status == ACCEL_ERR_PEER || !status || is_told;
    printf ("rank %d: allocation %ld: %sstatus %d: %s\n", rank, number, good ? "" : "WRONG ", (int) status, err.text);
    return !good;
}

int
main (int argc, char **argv)
{
    alarm (DEADLINE_S);
    if (argc > 1)
        open_job ();
    int wrong = argc > 1 ? live_together (strtol (argv[1], NULL, 10)) : live_alone ();
    accel_close (acc);
    return wrong;
}
