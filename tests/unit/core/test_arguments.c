/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong arguments of collectives are refused with words, and nothing breaks by them. */
#include <config.h>

#include "tests/tap.h"

#include <accel/accel.h>

#include <stdlib.h>

static struct accel *acc;
static struct accel_comm *world;
static struct accel_error err;
static float numbers[8];

static void
refused (enum accel_status status, const char *words)
{
    ok (status == ACCEL_ERR_INVALID && err.code == status && strstr (err.text, words), "refused: %s", words);
    if (status != ACCEL_ERR_INVALID || !strstr (err.text, words))
        diag ("status %d: %s", (int) status, err.text);
    memset (&err, 0, sizeof err);
}

static void
test_buffers (void)
{
    refused (accel_comm_all_reduce (world, NULL, numbers, 8, ACCEL_FLOAT32, ACCEL_SUM, &err), "a buffer is NULL");
    refused (accel_comm_all_reduce (world, numbers, NULL, 8, ACCEL_FLOAT32, ACCEL_SUM, &err), "a buffer is NULL");
    refused (accel_comm_all_reduce (world, numbers, numbers, 8, (enum accel_dtype) 99, ACCEL_SUM, &err),
             "element type");
    refused (accel_comm_all_reduce (world, numbers, numbers, 8, ACCEL_FLOAT32, (enum accel_op) 7, &err), "operation");
    refused (accel_comm_all_reduce (world, numbers, numbers, 8, ACCEL_INT32, ACCEL_AVG, &err), "cannot average int32");
    refused (accel_comm_all_reduce (world, numbers, numbers, 8, ACCEL_BOOL, ACCEL_AVG, &err), "cannot average bool");
    refused (accel_comm_all_gather (world, numbers, numbers, SIZE_MAX / 2, ACCEL_INT64, &err), "size overflows");
    refused (accel_comm_broadcast (world, numbers, 8, ACCEL_FLOAT32, 1, &err), "no rank 1 in a communicator of size 1");
    refused (accel_comm_broadcast (world, numbers, 8, ACCEL_FLOAT32, -1, &err), "the root is negative");
    refused (accel_comm_reduce_scatter (world, NULL, numbers, 8, ACCEL_FLOAT32, ACCEL_SUM, &err), "a buffer is NULL");
    ok (!accel_comm_all_reduce (world, NULL, NULL, 0, ACCEL_FLOAT32, ACCEL_SUM, &err), "NULL is fine with no elements");
    ok (accel_comm_all_reduce (world, NULL, numbers, 8, ACCEL_FLOAT32, ACCEL_SUM, NULL) == ACCEL_ERR_INVALID,
        "err may be NULL");
    ok (!accel_comm_barrier (world, &err), "and the communicator still works");
}

static void
test_tensors (void)
{
    struct accel_tensor tensor, out = { 0 };
    int64_t shape[] = { 2, 4 }, strides[] = { 0, 1 }, dense[] = { 4, 1 }, negative[] = { -1 };
    ok (!accel_tensor_init (&tensor, ACCEL_FLOAT32, 2, shape, &err), "a tensor");
    tensor.dl.data = numbers;
    refused (accel_gather (&out, acc, NULL, &err), "the tensor is NULL");
    refused (accel_gather (NULL, acc, &tensor.dl, &err), "the output is NULL");
    refused (accel_gather (&tensor, acc, &tensor.dl, &err), "memory that it does not own");
    refused (accel_reduce_scatter (&out, acc, NULL, ACCEL_SUM, &err), "the tensor is NULL");
    refused (accel_reduce_scatter (NULL, acc, &tensor.dl, ACCEL_SUM, &err), "the output is NULL");
    refused (accel_reduce_scatter (&out, acc, &tensor.dl, ACCEL_OP_COUNT, &err), "invalid operation");
    refused (accel_all_to_all (&tensor, acc, &tensor.dl, &err), "memory that it does not own");
    refused (accel_all_to_all (&out, NULL, &tensor.dl, &err), "NULL");
    refused (accel_send (acc, NULL, 0, &err), "the tensor is NULL");
    refused (accel_recv (acc, NULL, 0, &err), "the tensor is NULL");
    tensor.dl.ndim = 0;
    refused (accel_all_to_all (&out, acc, &tensor.dl, &err), "a tensor without dimensions has no rows");
    tensor.dl.ndim = 2;
    tensor.dl.strides = strides;
    refused (accel_reduce (acc, &tensor.dl, ACCEL_SUM, 1, &err), "stride 0");
    refused (accel_recv (acc, &tensor.dl, 0, &err), "stride 0");
    tensor.dl.strides = dense;
    ok (!accel_reduce (acc, &tensor.dl, ACCEL_SUM, 1, &err), "strides of a contiguous tensor are fine");
    tensor.dl.device = (DLDevice){ .device_type = kDLCUDA, .device_id = 3 };
    ok (accel_broadcast (acc, &tensor.dl, 0, &err) == ACCEL_ERR_UNSUPPORTED
            && strstr (err.text, "tensor of rank 0 is on cuda:3, but this build has no code for cuda memory"),
        "as for models and trees, a tensor on a GPU is not supported: %s", err.text);
    tensor.dl.device = (DLDevice){ .device_type = kDLCPU };
    tensor.dl.dtype.lanes = 2;
    refused (accel_broadcast (acc, &tensor.dl, 0, &err), "element type");
    refused (accel_tensor_init (&tensor, ACCEL_FLOAT32, 9, shape, &err), "ndim is 9");
    refused (accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, negative, &err), "is negative");
    refused (accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, NULL, &err), "shape is NULL");
    refused (accel_tensor_init (&tensor, ACCEL_FLOAT64, 2, (int64_t[]){ INT64_MAX, 4 }, &err), "size overflows");
    refused (accel_main_process_first (acc, NULL, NULL, &err), "the task is NULL");
}

static void
test_memory (void)
{
    void *memory = numbers;
    ok (accel_alloc (acc, SIZE_MAX - 4096, &memory, &err) == ACCEL_ERR_NOMEM && !memory && *err.text,
        "too much memory: %s", err.text);
    ok (!accel_alloc (acc, 0, &memory, &err) && memory, "nothing is an address too");
    accel_free (acc, memory);
    accel_free (acc, NULL);
}

static void
note_run (void *user)
{
    ++*(int *) user;
}

/* What accel_open() leaves where it fails. */
static void
test_null (void)
{
    struct accel_tensor tensor, out = { 0 };
    int64_t shape[] = { 8 };
    int runs = 0;
    bool fired;
    void *memory;
    const struct {
        const char *what;
        int64_t got, wanted;
    } getters[] = {
        { "num_processes", accel_num_processes (NULL), 1 },
        { "process_index", accel_process_index (NULL), 0 },
        { "local_num_processes", accel_local_num_processes (NULL), 1 },
        { "local_process_index", accel_local_process_index (NULL), 0 },
        { "is_main_process", accel_is_main_process (NULL), true },
        { "is_local_main_process", accel_is_local_main_process (NULL), true },
        { "is_last_process", accel_is_last_process (NULL), true },
        { "distributed_type", strcmp (accel_distributed_type (NULL), "NO"), 0 },
        { "activation_checkpointing", accel_activation_checkpointing (NULL), false },
        { "device", accel_device (NULL).device_type, kDLCPU },
        { "mixed_precision", strcmp (accel_mixed_precision (NULL), "no"), 0 },
        { "split", (int64_t) accel_split_between_processes (NULL, 5, true).end, 5 },
        { "world", accel_world (NULL) == NULL, true },
        { "comm_rank", accel_comm_rank (NULL), 0 },
        { "comm_size", accel_comm_size (NULL), 1 },
        { "comm_engine", *accel_comm_engine (NULL), 0 },
    };
    for (size_t i = 0; i < sizeof getters / sizeof *getters; i++)
        ok (getters[i].got == getters[i].wanted, "%s of no job", getters[i].what);
    accel_set_trigger (NULL);
    accel_free (NULL, numbers);
    ok (!accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, shape, &err), "a tensor");
    tensor.dl.data = numbers;
    refused (accel_alloc (NULL, 8, &memory, &err), "the job is NULL");
    refused (accel_comm_barrier (NULL, &err), "is NULL");
    refused (accel_comm_all_reduce (NULL, numbers, numbers, 8, ACCEL_FLOAT32, ACCEL_SUM, &err), "is NULL");
    refused (accel_comm_all_gather (NULL, numbers, numbers, 8, ACCEL_FLOAT32, &err), "is NULL");
    refused (accel_comm_broadcast (NULL, numbers, 8, ACCEL_FLOAT32, 0, &err), "is NULL");
    refused (accel_comm_reduce_scatter (NULL, numbers, numbers, 8, ACCEL_FLOAT32, ACCEL_SUM, &err), "is NULL");
    refused (accel_wait_for_everyone (NULL, &err), "is NULL");
    refused (accel_gather (&out, NULL, &tensor.dl, &err), "is NULL");
    refused (accel_reduce (NULL, &tensor.dl, ACCEL_SUM, 1, &err), "is NULL");
    refused (accel_broadcast (NULL, &tensor.dl, 0, &err), "is NULL");
    refused (accel_main_process_first (NULL, note_run, &runs, &err), "the job is NULL");
    refused (accel_check_trigger (NULL, &fired, &err), "is NULL");
    ok (!runs, "no task ran");
    accel_tensor_release (&out);
}

int
main (void)
{
    struct accel *second;
    setenv ("ACCEL_ENGINE", "shm", 1);
    if (!ok (!accel_open (&acc, NULL, &err), "open: %s", err.text))
        return done_testing ();
    world = accel_world (acc);
    test_buffers ();
    test_tensors ();
    test_memory ();
    test_null ();
    accel_close (acc);
    ok (!accel_open (&second, NULL, &err), "opening again after closing");
    accel_close (second);
    accel_close (NULL);
    for (int status = 0; status <= 8; status++)
        ok (*accel_status_string ((enum accel_status) status), "status %d: %s", status,
            accel_status_string ((enum accel_status) status));
    ok (accel_status_string ((enum accel_status) 99) != NULL, "an invalid status");
    return done_testing ();
}
