/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks, of which the first sends the second what it does not wait for, or what was never made by the library: each
 * gets an error, the sender that its partner gave up, and none waits.  Between two cases the job is opened
 * anew. */
#include <config.h>

#include "tests/conformance/check.h"
#include "util/jobseg.h"

#include <string.h>
#include <unistd.h>

enum { DEADLINE_S = 900, TREE = JOBSEG_CALL_TREE_SEND, OBJECTS = JOBSEG_CALL_SEND_OBJECT_LIST };

/* What precedes a message, and what follows: sizes, then bytes. */
static const struct forgery {
    int64_t notice[3]; /* objects, bytes of all, the call that sends them */
    bool tree;         /* whether the other waits for a tree */
    enum accel_status status;
    const char *words;
    uint64_t sizes[2];
    const char *bytes;
} forgeries[] = {
    { { 1, 1, TREE }, false, ACCEL_ERR_PEER, "from rank 0 was not sent by accel_send_object_list", { 0 }, NULL },
    { { 1, 1, OBJECTS }, true, ACCEL_ERR_PEER, "the message from rank 0 was not sent by accel_tree_send", { 0 }, NULL },
    { { 1, 1, INT64_MAX }, true, ACCEL_ERR_PEER, "was not sent by accel_tree_send", { 0 }, NULL },
    { { -1, 1, OBJECTS }, false, ACCEL_ERR_PEER, "was not sent by accel_send_object_list", { 0 }, NULL },
    { { 1, -1, OBJECTS }, false, ACCEL_ERR_PEER, "was not sent by accel_send_object_list", { 0 }, NULL },
    { { INT64_MAX, 0, OBJECTS }, false, ACCEL_ERR_INVALID, "size overflows", { 0 }, NULL },
    { { 1, INT64_MAX, OBJECTS }, false, ACCEL_ERR_INVALID, "size overflows", { 0 }, NULL },
    { { 0, INT64_MAX / 2, OBJECTS }, false, ACCEL_ERR_NOMEM, "cannot allocate", { 0 }, NULL },
    { { 2, 4, OBJECTS }, false, ACCEL_ERR_INVALID, "sizes of the received objects", { 2, 3 }, "xxxx" },
    { { 2, 4, OBJECTS }, false, ACCEL_ERR_INVALID, "sizes of the received objects", { 2, 1 }, "xxxx" },
    { { 2, 4, OBJECTS }, false, ACCEL_ERR_INVALID, "sizes of the received objects", { UINT64_MAX, 5 }, "xxxx" },
    { { 2, 4, OBJECTS }, false, ACCEL_ERR_INVALID, "sizes of the received objects", { 4, UINT64_MAX }, "xxxx" },
    { { 0, 4, OBJECTS }, false, ACCEL_ERR_INVALID, "sizes of the received objects", { 0 }, "xxxx" },
    { { 1, 4, TREE }, true, ACCEL_ERR_FORMAT, "the structure of a tree is malformed", { 4 }, "none" },
    { { 1, 4, TREE }, true, ACCEL_ERR_FORMAT, "truncated", { 4 }, "ACT1" },
    { { 0, 0, TREE }, true, ACCEL_ERR_FORMAT, "the structure of a tree is malformed", { 0 }, NULL },
    /* A list of 2^40 items, and a tensor of float64 with 2^62 elements. */
    { { 1, 13, TREE }, true, ACCEL_ERR_FORMAT, "a number of items", { 13 }, "ACT1\2\0\0\0\0\0\1\0" },
    { { 1, 15, TREE }, true, ACCEL_ERR_FORMAT, "a tensor", { 15 }, "ACT1\0\1\1\0\0\0\0\0\0\0\x40" },
};

static void
open_job (void)
{
    struct accel_error err;
    if (accel_open (&acc, &(struct accel_options){ .timeout_ms = 200000 }, &err)) {
        fprintf (stderr, "%s\n", err.text);
        _exit (1);
    }
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
}

/* Both must be out of the job, and hear of it. */
static void
check_end (const char *words)
{
    struct accel_error err = { 0 };
    enum accel_status status = accel_wait_for_everyone (acc, &err);
    check (status == ACCEL_ERR_PEER, "%s: afterwards status %d: %s", words, (int) status, err.text);
}

static void
send_forgery (const struct forgery *forgery)
{
    struct accel_error err = { 0 };
    struct accel_comm *world = accel_world (acc);
    char message[64];
    size_t head = (size_t) forgery->notice[0] * sizeof *forgery->sizes, bytes = (size_t) forgery->notice[1];
    enum accel_status status = accel_comm_send (world, forgery->notice, 3, ACCEL_INT64, 1, &err);
    check (!status, "the notice: %s", err.text);
    if (!forgery->bytes)
        return;
    memcpy (message, forgery->sizes, head);
    memcpy (message + head, forgery->bytes, bytes);
    status = accel_comm_send (world, message, head + bytes, ACCEL_UINT8, 1, &err);
    check (!status, "the message: %s", err.text);
}

static void
try_forgery (const struct forgery *forgery)
{
    struct accel_error err = { 0 };
    struct accel_tree *tree = NULL;
    struct accel_object_list list = { 0 };
    if (!rank)
        send_forgery (forgery);
    else {
        enum accel_status status = forgery->tree ? accel_tree_recv (&tree, acc, 0, &err)
                                                 : accel_recv_object_list (&list, acc, 0, &err);
        check (status == forgery->status && err.code == status && strstr (err.text, forgery->words)
                   && strstr (err.text, "message_faults.c:") && !tree && !list.items,
               "%s: status %d: %s", forgery->words, (int) status, err.text);
    }
    check_end (forgery->words);
}

/* The sender waits for its message to be taken.  Where it hears of the end late, the other has opened anew, and it
 * hears the reason all the same. */
static void
try_other_call (void)
{
    struct accel_error err = { 0 };
    struct accel_tree *tree = NULL;
    struct accel_object_list list = { 0 };
    enum accel_status status = accel_tree_create (&tree, ACCEL_TREE_DICT, &err);
    if (!status)
        status = rank ? accel_recv_object_list (&list, acc, 0, &err) : accel_tree_send (acc, tree, 1, &err);
    check (status == ACCEL_ERR_PEER && strstr (err.text, "from rank 0 was not sent by accel_send_object_list"),
           "a tree for objects: status %d: %s", (int) status, err.text);
    accel_tree_destroy (tree);
    check_end ("a tree for objects");
}

/* Both sides are named, each with its call. */
static void
try_tensor (void)
{
    float number = 0;
    struct accel_tensor tensor;
    struct accel_tree *tree = NULL;
    struct accel_error err = { 0 };
    enum accel_status status = accel_tensor_init (&tensor, ACCEL_FLOAT32, 0, NULL, &err);
    tensor.dl.data = &number;
    if (!status)
        status = rank ? accel_tree_recv (&tree, acc, 0, &err) : accel_send (acc, &tensor.dl, 1, &err);
    check (status == ACCEL_ERR_PEER
               && strstr (err.text, "rank 0 sends float32 x 1 in accel_send at")
               && strstr (err.text, "rank 1 expects int64 x 3 in accel_tree_recv at"),
           "a tensor for a tree: status %d: %s", (int) status, err.text);
    check_end ("a tensor for a tree");
}

int
main (void)
{
    enum { FORGERIES = sizeof forgeries / sizeof *forgeries };
    alarm (DEADLINE_S);
    for (int i = 0; i < FORGERIES + 2; i++) {
        open_job ();
        if (size != 2)
            return 2;
        if (i < FORGERIES)
            try_forgery (&forgeries[i]);
        else if (i == FORGERIES)
            try_other_call ();
        else
            try_tensor ();
        accel_close (acc);
    }
    return wrong != 0;
}
