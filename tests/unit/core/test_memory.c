/* SPDX-License-Identifier: Apache-2.0 */
/* What the library does with memory of any kind: bytes in pieces, lists where a device has no functions for them, and
 * who frees what. */
#include <config.h>

#include "lib/memory/lists.h"
#include "tests/engines/standin_memory.h"

enum { MOST_PIECES = 16, MIB = 1 << 20 };

static struct accel_error err;

/* ---- pieces ---- */

static unsigned char data[20 * MIB];

struct pieces {
    size_t count, lengths[MOST_PIECES], bytes, wrong;
};

static enum accel_status
take (void *user, const void *bytes, size_t length, struct accel_error *error)
{
    struct pieces *pieces = user;
    (void) error;
    if (pieces->count < MOST_PIECES)
        pieces->lengths[pieces->count++] = length;
    pieces->wrong += memcmp (bytes, data + pieces->bytes, length) != 0;
    pieces->bytes += length;
    return ACCEL_OK;
}

/* A hash that is made piece by piece must not depend on where the tensor is. */
static void
test_pieces (void)
{
    const int64_t shape[] = { sizeof data };
    static const size_t rooms[] = { 3 * MIB, 5 * MIB + 1, 4 * MIB, SIZE_MAX };
    struct accel_tensor host, there;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char) (i % 251);
    if (accel_tensor_init (&host, ACCEL_UINT8, 1, shape, &err))
        abort ();
    host.dl.data = data;
    if (memory_send (&there, &host.dl, standin_device, &err))
        abort ();
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        struct pieces wanted = { 0 }, got = { 0 };
        enum accel_status status = memory_read_pieces (&host.dl, rooms[i], take, &wanted, &err);
        status = status ? status : memory_read_pieces (&there.dl, rooms[i], take, &got, &err);
        /* Larger ones than the library's own are cut. */
        bool same = rooms[i] > 8 * MIB || !memcmp (wanted.lengths, got.lengths, sizeof got.lengths);
        ok (!status && same && !got.wrong && !wanted.wrong && got.bytes == sizeof data,
            "pieces of at most %zu bytes, on a device as on the host", rooms[i]);
    }
    accel_tensor_release (&there);
}

/* ---- lists ---- */

static void
test_lists (void)
{
    float whole[2] = { 1, 3 };
    uint16_t half[2] = { 0x3f80, 0x4040 }; /* 1 and 3 in bfloat16 */
    struct memory_list list;
    if (!memory_list_create (&list, 2))
        abort ();
    list.items[0] = (struct memory_item){ .data = whole, .count = 2, .dtype = ACCEL_FLOAT32 };
    list.items[1] = (struct memory_item){ .data = half, .count = 2, .dtype = ACCEL_BFLOAT16 };
    list.count = 2;
    const DLDevice host = { .device_type = kDLCPU };
    memory_list_scale (&list, &memory_host, host, 2, true);
    ok (whole[0] == 2 && whole[1] == 6 && half[0] == 0x3f80 && half[1] == 0x4040, "only float32 is multiplied");
    memory_list_scale (&list, &memory_host, host, 2, false);
    ok (whole[0] == 4 && whole[1] == 12 && half[0] == 0x4000 && half[1] == 0x40c0, "all are multiplied");
    memory_list_destroy (&list, &memory_host, host);
}

/* ---- what tensors own ---- */

static void
test_release (void)
{
    float numbers[3] = { 1, 2, 3 };
    const int64_t shape[] = { 3 };
    struct accel_tensor tensor;
    void *memory = memory_standin.create (standin_device, sizeof numbers, false);
    size_t live = standin_live;
    if (accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, shape, &err))
        abort ();
    tensor.dl.data = memory;
    tensor.dl.device = standin_device;
    accel_tensor_release (&tensor);
    ok (standin_live == live && !tensor.dl.data && !tensor.dl.ndim, "memory that is not a tensor's own is not freed");
    if (memory_allocate (&tensor, ACCEL_FLOAT32, 1, shape, standin_device, &err))
        abort ();
    ok (standin_live == live + 1, "a tensor has memory of its own");
    accel_tensor_release (&tensor);
    ok (standin_live == live && !tensor.dl.data, "which is freed");
    memory_standin.destroy (standin_device, memory);
}

/* A tensor with strides goes by way of a copy on its device. */
static void
test_send (void)
{
    float numbers[6] = { 0, 1, 2, 3, 4, 5 };
    const int64_t shape[] = { 2, 3 }, turned[] = { 3, 2 };
    int64_t strides[] = { 1, 3 };
    struct accel_tensor tensor, there, back;
    size_t live = standin_live;
    if (accel_tensor_init (&tensor, ACCEL_FLOAT32, 2, shape, &err))
        abort ();
    tensor.dl.data = numbers;
    if (memory_send (&there, &tensor.dl, standin_device, &err))
        abort ();
    there.dl.shape = (int64_t *) (uintptr_t) turned;
    there.dl.strides = strides;
    const DLDevice host = { .device_type = kDLCPU };
    enum accel_status status = memory_send (&back, &there.dl, host, &err);
    const float *got = status ? numbers : back.dl.data;
    ok (!status && got[0] == 0 && got[1] == 3 && got[2] == 1 && got[3] == 4 && got[4] == 2 && got[5] == 5,
        "a tensor with strides comes from a device");
    ok (standin_live == live + 1, "and nothing but the tensor is left there");
    if (!status)
        accel_tensor_release (&back);
    there.dl.strides = NULL;
    accel_tensor_release (&there);
}

int
main (void)
{
    memory_register (kDLExtDev, &memory_standin);
    test_pieces ();
    test_lists ();
    test_release ();
    test_send ();
    return done_testing ();
}
