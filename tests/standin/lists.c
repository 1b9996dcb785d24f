/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of arrays on a GPU: the table of a list is written anew as it changes, and never while the GPU still reads it.
 * usage: lists [new CALL:N:ERROR | grown CALL:N:ERROR]: a list has an error when it is first used, or when it grows */
#include <config.h>

#include "lib/memory/lists.h"
#include "lib/memory/memory.h"
#include "tests/tap.h"

#include <math.h>
#include <stdlib.h>

enum { COUNT = 1000, MANY = 100, ROUNDS = 20, LISTS = 40, DELAYS = 3 };

static const struct memory_factor twice = { .value = 2 };

static const DLDevice device = { .device_type = kDLCUDA };
static const struct memory *memory;
static float values[COUNT];

/* All 1. */
static float *
make (void)
{
    float *made = memory->create (device, sizeof values, false);
    for (int i = 0; i < COUNT; i++)
        values[i] = 1;
    memory->write (device, made, values, sizeof values);
    return made;
}

static void
create (struct memory_list *list, size_t room)
{
    if (!memory_list_create (list, room))
        abort ();
}

static void
add (struct memory_list *list, float *data, size_t count)
{
    list->items[list->count++] = (struct memory_item){ .data = data, .count = count, .dtype = ACCEL_FLOAT32 };
}

/* How many of them are not @p wanted. */
static int
count_wrong (const float *data, size_t count, float wanted)
{
    struct accel_error err;
    int wrong = memory->read (device, values, data, count * sizeof *values, &err) ? COUNT : 0;
    for (size_t i = 0; i < count; i++)
        wrong += values[i] != wanted;
    return wrong;
}

static void
test_overlaps (void)
{
    struct memory_list list;
    float *data = make ();
    create (&list, 2);
    add (&list, data, COUNT / 2);
    add (&list, data + COUNT / 2, COUNT / 2);
    ok (memory->lists->scale (device, &list, twice, false), "neighbours are changed at once");
    ok (!count_wrong (data, COUNT, 2), "each of them");
    list.items[1].data = data + COUNT / 4;
    ok (!memory->lists->scale (device, &list, twice, false), "arrays that overlap are not changed at once");
    memory_list_scale (&list, memory, device, 2, false);
    ok (!count_wrong (data, COUNT / 4, 4) && !count_wrong (data + COUNT / 4, COUNT / 4, 8)
            && !count_wrong (data + COUNT / 2, COUNT / 4, 4) && !count_wrong (data + COUNT * 3 / 4, COUNT / 4, 2),
        "but one after the other");
    memory_list_destroy (&list, memory, device);
    memory->destroy (device, data);
}

static void
test_growing (void)
{
    struct memory_list list;
    float *data = make ();
    create (&list, MANY);
    add (&list, data, 1);
    ok (memory->lists->scale (device, &list, twice, false), "a list of one array");
    while (list.count < MANY)
        add (&list, data + list.count, 1);
    ok (memory->lists->scale (device, &list, twice, false), "that becomes one of %d", (int) MANY);
    ok (!count_wrong (data, 1, 4) && !count_wrong (data + 1, MANY - 1, 2), "which are all changed");
    list.count--;
    setenv ("STANDIN_FAIL", "cudaMalloc:1:700", true);
    ok (memory->lists->scale (device, &list, twice, false) && !count_wrong (data + 1, MANY - 2, 4),
        "one that is shorter needs no more memory");
    unsetenv ("STANDIN_FAIL");
    memory_list_destroy (&list, memory, device);
    memory->destroy (device, data);
}

/* The GPU is late: the next table is made before the one before has been read. */
static void
test_changing (void)
{
    struct memory_list list;
    float *data[] = { make (), make () }, *other = make ();
    create (&list, 1);
    add (&list, NULL, COUNT);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < DELAYS; i++)
            memory->scale (device, other, ACCEL_FLOAT32, COUNT, 1);
        list.items[0].data = data[round % 2];
        memory->lists->scale (device, &list, twice, false);
    }
    ok (!count_wrong (data[0], COUNT, ldexpf (1, ROUNDS / 2)) && !count_wrong (data[1], COUNT, ldexpf (1, ROUNDS / 2)),
        "a list that changes all the time");
    memory_list_destroy (&list, memory, device);
    memory->destroy (device, data[0]);
    memory->destroy (device, data[1]);
    memory->destroy (device, other);
}

/* With STANDIN_BYTES, there is no room for the tables of all of them. */
static void
test_shutdown (void)
{
    float *data = make ();
    int done = 0;
    for (int i = 0; i < LISTS; i++) {
        struct memory_list list;
        create (&list, COUNT);
        while (list.count < COUNT) /* most are empty, which takes room all the same */
            add (&list, data, list.count ? 0 : COUNT);
        done += memory->lists->scale (device, &list, (struct memory_factor){ .value = 1 }, false);
        memory_list_destroy (&list, memory, device);
    }
    ok (done == LISTS, "%d of %d lists, one after the other, have room on the GPU", done, (int) LISTS);
    memory->destroy (device, data);
}

/* A want of memory means that it is done one by one, and may be different the next time; any other error is one of the
 * GPU, which does nothing any more. */
static void
test_error (bool is_new, const char *plan)
{
    struct memory_list list;
    float *data = make ();
    struct accel_error err;
    create (&list, MANY);
    add (&list, data, 1);
    if (!is_new)
        memory->lists->scale (device, &list, (struct memory_factor){ .value = 1 }, false);
    list.items[0].count = COUNT - MANY + 1;
    while (list.count < MANY)
        add (&list, data + COUNT - MANY + list.count, 1);
    setenv ("STANDIN_FAIL", plan, true);
    bool done = memory->lists->scale (device, &list, twice, false);
    unsetenv ("STANDIN_FAIL");
    enum accel_status status = memory_check (device, &err);
    if (done)
        ok (status == ACCEL_ERR_SYSTEM && strstr (err.text, "cuda:0: cuda")
                && !strncmp (strstr (err.text, "cuda:0: ") + 8, plan, strcspn (plan, ":")),
            "the GPU has an error: %s", err.text);
    else
        ok (!status && !count_wrong (data, COUNT, 1)
                && memory->lists->scale (device, &list, twice, false) && !count_wrong (data, COUNT, 2),
            "nothing was done, until it is tried again");
    memory_list_destroy (&list, memory, device);
    memory->destroy (device, data);
}

int
main (int argc, char **argv)
{
    memory = memory_of (device);
    if (!memory) {
        ok (false, "there is a GPU");
        return done_testing ();
    }
    if (argc > 2) {
        test_error (!strcmp (argv[1], "new"), argv[2]);
        return done_testing ();
    }
    test_overlaps ();
    test_growing ();
    test_changing ();
    test_shutdown ();
    return done_testing ();
}
