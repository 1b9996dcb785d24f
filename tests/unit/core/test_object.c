/* SPDX-License-Identifier: Apache-2.0 */
/* The life of objects (lib/base/object.h), and tensors that own memory of any kind (lib/memory/memory.h). */
#include <config.h>

#include "lib/base/object.h"
#include "lib/memory/memory.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int ended;

static void
end (struct object *object)
{
    (void) object;
    ended++;
    errno = EIO;
}

static const struct object_kind kind = { .name = "trial", .end = end };

static struct object *
make (void)
{
    struct object *made = malloc (sizeof *made);
    if (!made)
        exit (99);
    *made = (struct object) OBJECT_INIT (&kind);
    ended = 0;
    return made;
}

static void
test_pins (void)
{
    struct object *object = make ();
    object_hold (object); /* so that it can be looked at after its end */
    object->pins = 2;
    object_destroy (object);
    ok (!ended && object_is_gone (object) && object_is (object, kind.name), "with pins, it does not end");
    object_unpin (object);
    ok (!ended, "with a pin left, it does not end");
    object_unpin (object);
    ok (ended == 1 && !object_is (object, kind.name), "with its last pin, it ends");
    object_destroy (object);
    ok (ended == 1, "it ends once");
    object_let_go (object);
    object = make ();
    object->pins = 1;
    object_unpin (object);
    ok (!ended && object_is (object, kind.name), "without its last pin, it stays");
    errno = ENOENT;
    object_destroy (object);
    ok (ended == 1 && errno == ENOENT, "errno stays: %s", strerror (errno));
    object_destroy (NULL);
    object_unpin (NULL);
}

static void
test_clone (void)
{
    static float values[2] = { 1, 2 };
    int64_t shape[1] = { 2 };
    DLTensor tensor = { .data = values, .device = { .device_type = kDLCUDAHost }, .ndim = 1, .shape = shape,
                        .dtype = { .code = kDLFloat, .bits = 32, .lanes = 1 } };
    struct accel_tensor copy;
    struct accel_error err = { 0 };
    enum accel_status status = memory_clone (&copy, &tensor, &err);
    ok (!status && copy.dl.device.device_type == kDLCUDAHost && copy.owned_bytes == sizeof values
            && !memcmp (copy.dl.data, values, sizeof values), "a copy is in the same kind of memory: %s", err.text);
    accel_tensor_release (&copy);
}

int
main (void)
{
    test_pins ();
    test_clone ();
    return done_testing ();
}
