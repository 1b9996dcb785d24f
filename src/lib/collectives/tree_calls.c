/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on every tensor of a tree, and padding across processes; see accel/collectives.h.
 *
 * All tensors are looked at before the first is sent, so that a wrong argument leaves nothing half done. */
#include <config.h>

#include <accel/collectives.h>

#include "lib/base/error.h"
#include "lib/collectives/objects.h"
#include "lib/collectives/tensors.h"
#include "lib/collectives/verify.h"
#include "lib/memory/memory.h"
#include "lib/tree/tree.h"
#include "util/cleanup.h"

#include <stdlib.h>
#include <string.h>

/* One collective over a tree. */
struct task {
    struct accel *acc;
    const struct comm_site *site;
    enum accel_status (*each) (const struct task *task, struct accel_tree *leaf, struct accel_error *err);
    /* What else to look at before the first leaf is sent; NULL: nothing. */
    enum accel_status (*fits) (const struct task *task, struct accel_tree *leaf, struct accel_error *err);
    enum accel_op op;
    bool reduces;
    bool pair; /* of two processes: bytes travel with the structure, and nothing is compared */
    double scale;
    int root; /* or the other process */
    const struct tree_pad *pad;
};

/* Call task->each for every leaf of @tree, in its order. */
static enum accel_status
visit (const struct task *task, const struct tree_place *place, struct accel_tree *tree, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    if (tree->kind == ACCEL_TREE_TENSOR || tree->kind == ACCEL_TREE_BYTES) {
        status = task->each (task, tree, err);
        return status ? tree_fail_at (jobseg_call_name (task->site->call), place, status, err) : ACCEL_OK;
    }
    for (size_t i = 0; !status && i < tree->count; i++) {
        struct tree_place below = { .up = place, .in = tree, .index = i };
        status = visit (task, &below, tree->items[i].tree, err);
    }
    return status;
}

static enum accel_status
check_leaf (const struct task *task, struct accel_tree *leaf, struct accel_error *err)
{
    enum accel_dtype dtype;
    unsigned char element[8];
    if (task->pair && leaf->kind == ACCEL_TREE_BYTES)
        return ACCEL_OK;
    enum accel_status status = task->pair ? tree_need_host_tensor (leaf, err) : tree_need_tensor (leaf, err);
    if (!status)
        status = comm_check_tensor (task->acc, task->site, &leaf->tensor.dl, &dtype, err);
    if (!status && task->pad)
        status = tree_pad_element (dtype, task->pad->value, element, err);
    return status;
}

/* Look at all leaves, and in debug mode compare them with those of all ranks, which padding is not. */
static enum accel_status
check_tree (const struct task *task, const struct accel_tree *tree, struct accel_error *err)
{
    struct task check = *task;
    check.each = check_leaf;
    if (!task->acc || !tree)
        return comm_refuse (task->site, tree ? "the job is NULL" : "the tree is NULL", err);
    enum accel_status status = visit (&check, NULL, (struct accel_tree *) tree, err);
    if (!status && !task->pad && !task->pair)
        status = comm_verify_tree (task->acc, task->site, tree, err);
    check.each = task->fits;
    return status || !task->fits ? status : visit (&check, NULL, (struct accel_tree *) tree, err);
}

/* A rank that has no memory for one tensor must not leave the others waiting for the next. */
static enum accel_status
finish (const struct task *task, enum accel_status status)
{
    if (status == ACCEL_ERR_NOMEM)
        comm_give_up (accel_world (task->acc), "cannot allocate memory for a tensor of a tree");
    return status;
}

static enum accel_status
walk (struct task *task, struct accel_tree **made, const struct accel_tree *tree,
      enum accel_status (*leaf) (const struct tree_walk *walk, const struct tree_place *place,
                                 const struct accel_tree *leaf, struct accel_tree **made, struct accel_error *err),
      struct accel_error *err)
{
    struct tree_walk each = { .call = jobseg_call_name (task->site->call), .leaf = leaf, .user = task };
    if (!made)
        return comm_refuse (task->site, "the output tree is NULL", err);
    *made = NULL;
    enum accel_status status = check_tree (task, tree, err);
    return status ? status : finish (task, tree_walk (&each, made, tree, err));
}

static enum accel_status
gather_leaf (const struct tree_walk *walk, const struct tree_place *place, const struct accel_tree *leaf,
             struct accel_tree **made, struct accel_error *err)
{
    (void) place;
    const struct task *task = walk->user;
    struct accel_tensor out = { .owned_bytes = 0 };
    enum accel_status status = comm_gather_tensor (task->acc, task->site, &leaf->tensor.dl, &out, err);
    if (!status)
        return tree_own (made, &out, err);
    accel_tensor_release (&out);
    return status;
}

enum accel_status
comm_gather_tree (struct accel *acc, const struct comm_site *site, struct accel_tree **gathered,
                  const struct accel_tree *tree, struct accel_error *err)
{
    struct task task = { .acc = acc, .site = site };
    return walk (&task, gathered, tree, gather_leaf, err);
}

enum accel_status
accel_tree_gather_at (const char *file, int line, struct accel_tree **gathered, struct accel *acc,
                      const struct accel_tree *tree, struct accel_error *err)
{
    return comm_gather_tree (acc, SITE (TREE_GATHER), gathered, tree, err);
}

static enum accel_status
reduce_leaf (const struct task *task, struct accel_tree *leaf, struct accel_error *err)
{
    return comm_reduce_tensor (task->acc, task->site, &leaf->tensor.dl, task->op, task->scale, err);
}

static enum accel_status
check_reduction (const struct task *task, struct accel_tree *leaf, struct accel_error *err)
{
    return comm_check_reduction (task->site, accel_dtype_from_dl (leaf->tensor.dl.dtype), task->op, task->scale, err);
}

enum accel_status
accel_tree_reduce_at (const char *file, int line, struct accel_tree **reduced, struct accel *acc,
                      const struct accel_tree *tree, enum accel_op op, double scale, struct accel_error *err)
{
    struct task task = {
        .acc = acc, .site = SITE (TREE_REDUCE), .each = reduce_leaf, .fits = check_reduction, .op = op, .scale = scale,
    };
    struct accel_tree *copy = NULL;
    if (!reduced)
        return comm_refuse (task.site, "the output tree is NULL", err);
    *reduced = NULL;
    enum accel_status status = check_tree (&task, tree, err);
    if (!status)
        status = accel_tree_copy (&copy, tree, err);
    if (!status)
        status = finish (&task, visit (&task, NULL, copy, err));
    if (status)
        accel_tree_destroy (copy);
    else
        *reduced = copy;
    return status;
}

static enum accel_status
broadcast_leaf (const struct task *task, struct accel_tree *leaf, struct accel_error *err)
{
    return comm_broadcast_tensor (task->acc, task->site, &leaf->tensor.dl, task->root, err);
}

enum accel_status
accel_tree_broadcast_at (const char *file, int line, struct accel *acc, struct accel_tree *tree, int from_process,
                         struct accel_error *err)
{
    struct task task = { .acc = acc, .site = SITE (TREE_BROADCAST), .each = broadcast_leaf, .root = from_process };
    enum accel_status status = check_tree (&task, tree, err);
    return status ? status : finish (&task, visit (&task, NULL, tree, err));
}

static enum accel_status
send_leaf (const struct task *task, struct accel_tree *leaf, struct accel_error *err)
{
    if (leaf->kind == ACCEL_TREE_BYTES)
        return ACCEL_OK;
    return comm_send_tensor (task->acc, task->site, &leaf->tensor.dl, task->root, err);
}

/* The structure goes first, as one object of bytes. */
enum accel_status
accel_tree_send_at (const char *file, int line, struct accel *acc, const struct accel_tree *tree, int to_process,
                    struct accel_error *err)
{
    struct task task = { .acc = acc, .site = SITE (TREE_SEND), .each = send_leaf, .root = to_process, .pair = true };
    AUTO_STRBUF struct strbuf text = { 0 };
    enum accel_status status = check_tree (&task, tree, err);
    if (!status && (status = tree_encode (tree, &text, err)))
        comm_fail_in (task.site, status, err);
    struct accel_object object = { .data = text.text, .size_bytes = text.length };
    if (!status)
        status = comm_send_objects (accel_world (acc), task.site, &object, 1, to_process, err);
    return status ? status : finish (&task, visit (&task, NULL, (struct accel_tree *) tree, err));
}

static enum accel_status
recv_leaf (const struct task *task, struct accel_tree *leaf, struct accel_error *err)
{
    const DLTensor *tensor = &leaf->tensor.dl;
    if (leaf->kind == ACCEL_TREE_BYTES)
        return ACCEL_OK;
    return comm_recv (accel_world (task->acc), task->site, tensor->data, accel_tensor_count (tensor),
                      accel_dtype_from_dl (tensor->dtype), task->root, err);
}

enum accel_status
accel_tree_recv_at (const char *file, int line, struct accel_tree **tree, struct accel *acc, int from_process,
                    struct accel_error *err)
{
    struct task task = { .acc = acc, .site = SITE (TREE_RECV), .each = recv_leaf, .root = from_process };
    struct accel_object_list list = { 0 };
    struct accel_tree *made = NULL;
    if (!tree)
        return comm_refuse (task.site, "the output tree is NULL", err);
    *tree = NULL;
    enum accel_status status
        = comm_recv_objects (accel_world (acc), task.site, from_process, JOBSEG_CALL_TREE_SEND, &list, err);
    if (status)
        return status;
    struct accel_object text = list.count ? *list.items : (struct accel_object){ 0 };
    status = tree_decode (&made, text.data, text.size_bytes, PTRDIFF_MAX, err);
    if (status)
        comm_fail_in (task.site, status, err);
    accel_object_list_release (&list);
    if (!status)
        status = visit (&task, NULL, made, err);
    if (status) {
        /* who sends does not know */
        comm_give_up (accel_world (acc), err ? err->text : "it could not process the data it received");
        accel_tree_destroy (made);
    } else
        *tree = made;
    return status;
}

/* The greatest size of dimension @dim on any rank.  All sizes travel, so that ranks whose tensors have another number
 * of dimensions are found. */
static enum accel_status
longest (struct accel *acc, const struct comm_site *site, const DLTensor *tensor, int dim, size_t *size,
         struct accel_error *err)
{
    size_t ranks = (size_t) accel_num_processes (acc), ndim = (size_t) tensor->ndim;
    AUTO_FREE int64_t *all = calloc (ranks, ndim * sizeof *all);
    if (!all)
        return comm_no_memory (site, err);
    struct comm_form form = { .argument = COMM_DIM, .value = dim };
    struct comm_site formed = comm_site_of (site, &form);
    enum accel_status status = comm_all_gather (accel_world (acc), &formed, tensor->shape, all, ndim, ACCEL_INT64, err);
    *size = 0;
    for (size_t r = 0; r < ranks; r++)
        if ((size_t) all[r * ndim + (size_t) dim] > *size)
            *size = (size_t) all[r * ndim + (size_t) dim];
    return status;
}

/* @made stays empty if @tensor can stay as it is. */
static enum accel_status
pad_tensor (struct accel *acc, const struct comm_site *site, const DLTensor *tensor, const struct tree_pad *wanted,
            struct accel_tensor *made, struct accel_error *err)
{
    struct tree_pad pad = *wanted;
    int dim = tree_dim (tensor, pad.dim);
    if (dim < 0)
        return ACCEL_OK;
    enum accel_status status = longest (acc, site, tensor, dim, &pad.size, err);
    if (status || (size_t) tensor->shape[dim] == pad.size)
        return status;
    return tree_pad_tensor (made, tensor, dim, &pad, err);
}

static enum accel_status
pad_leaf (const struct tree_walk *walk, const struct tree_place *place, const struct accel_tree *leaf,
          struct accel_tree **made, struct accel_error *err)
{
    (void) place;
    const struct task *task = walk->user;
    struct accel_tensor padded = { .owned_bytes = 0 };
    enum accel_status status = pad_tensor (task->acc, task->site, &leaf->tensor.dl, task->pad, &padded, err);
    if (status)
        return status;
    return padded.owned_bytes ? tree_own (made, &padded, err) : tree_share (made, leaf, err);
}

enum accel_status
accel_tree_pad_across_processes_at (const char *file, int line, struct accel_tree **padded, struct accel *acc,
                                    const struct accel_tree *tree, int dim, double pad_index, bool pad_first,
                                    struct accel_error *err)
{
    struct tree_pad pad = { .dim = dim, .value = pad_index, .first = pad_first };
    struct task task = { .acc = acc, .site = SITE (TREE_PAD_ACROSS_PROCESSES), .pad = &pad };
    return walk (&task, padded, tree, pad_leaf, err);
}

enum accel_status
accel_pad_across_processes_at (const char *file, int line, struct accel_tensor *out, struct accel *acc,
                               const DLTensor *tensor, int dim, double pad_index, bool pad_first,
                               struct accel_error *err)
{
    const struct comm_site *site = SITE (PAD_ACROSS_PROCESSES);
    struct tree_pad pad = { .dim = dim, .value = pad_index, .first = pad_first };
    struct accel_tensor padded = { .owned_bytes = 0 };
    unsigned char element[8];
    enum accel_dtype dtype;
    if (!acc || !out || (out->dl.data && !out->owned_bytes))
        return comm_refuse (site, "the job or the output is NULL, or the output holds memory that it does not own",
                            err);
    enum accel_status status = comm_check_tensor (acc, site, tensor, &dtype, err);
    if (status)
        return status;
    status = tree_pad_element (dtype, pad_index, element, err);
    if (status)
        return comm_fail_in (site, status, err);
    status = pad_tensor (acc, site, tensor, &pad, &padded, err);
    if (!status && !padded.owned_bytes)
        status = memory_clone (&padded, tensor, err);
    if (status)
        return status;
    accel_tensor_release (out);
    *out = padded;
    out->dl.shape = out->shape;
    return ACCEL_OK;
}
