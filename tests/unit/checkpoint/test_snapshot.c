/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of tensors by several threads: every byte, whatever the sizes, the processors, and whether threads can be
 * had; and memory that is reserved. */
#include <config.h>

#include "lib/checkpoint/snapshot.h"
#include "tests/tap.h"

#include <accel/accel.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MIB = 1 << 20, TENSORS = 9 };

typedef void *thread_function (void *user);

int __real_pthread_create (pthread_t *thread, const pthread_attr_t *attributes, thread_function *run, void *user);
int __wrap_pthread_create (pthread_t *thread, const pthread_attr_t *attributes, thread_function *run, void *user);
int __real_pthread_join (pthread_t thread, void **result);
int __wrap_pthread_join (pthread_t thread, void **result);
int __wrap_sched_getaffinity (pid_t pid, size_t bytes, cpu_set_t *set);
long __real_sysconf (int name);
long __wrap_sysconf (int name);

static int cpus;       /* that this process may use; 0: unknown */
static int threads;    /* started since */
static int joined;     /* of these, waited for */
static int most = 100; /* that can be started */

int
__wrap_pthread_create (pthread_t *thread, const pthread_attr_t *attributes, thread_function *run, void *user)
{
    if (threads == most)
        return EAGAIN;
    threads++;
    return __real_pthread_create (thread, attributes, run, user);
}

int
__wrap_pthread_join (pthread_t thread, void **result)
{
    joined++;
    return __real_pthread_join (thread, result);
}

int
__wrap_sched_getaffinity (pid_t pid, size_t bytes, cpu_set_t *set)
{
    (void) pid;
    if (!cpus)
        return errno = ENOSYS, -1;
    CPU_ZERO_S (bytes, set);
    for (int i = 0; i < cpus; i++)
        CPU_SET_S (i, bytes, set);
    return 0;
}

/* Neither does the system say how many processors there are. */
long
__wrap_sysconf (int name)
{
    return name == _SC_NPROCESSORS_ONLN ? -1 : __real_sysconf (name);
}

/* Sizes of all kinds: on both sides of a cache line, of a page and of a thread's chunk, and one of many chunks. */
static const int64_t sizes[TENSORS] = { 1, 64, 65, 0, 4 * MIB - 192, 4 * MIB + 1, 3, 100 * MIB + 7, 40 * MIB };
static unsigned char *memory[TENSORS];
static struct accel_error err;

static void
make_memory (void)
{
    unsigned next = 1;
    for (int i = 0; i < TENSORS; i++) {
        memory[i] = malloc ((size_t) sizes[i] + 1);
        if (!memory[i])
            exit (99);
        for (int64_t at = 0; at < sizes[i]; at++)
            memory[i][at] = (unsigned char) ((next = next * 1664525 + 1013904223) >> 24);
    }
}

static void
make_state (struct accel_state_dict *state)
{
    char name[8];
    state_dict_init (state);
    for (int i = 0; i < TENSORS; i++) {
        int64_t shape[1] = { sizes[i] };
        const DLTensor tensor = { .data = memory[i], .device = { kDLCPU, 0 }, .ndim = 1,
                                  .dtype = accel_dtype_to_dl (ACCEL_UINT8), .shape = shape };
        snprintf (name, sizeof name, "t%d", i);
        accel_state_dict_set_tensor (state, name, &tensor);
    }
}

/* @return the first tensor that is wrong; TENSORS: none */
static int
first_wrong (const struct accel_state_dict *state, const struct snapshot *snapshot)
{
    const char *pages = snapshot->pages;
    for (int i = 0; i < TENSORS; i++) {
        const char *copy = state->tensors[i].view.dl.data;
        if (sizes[i] && (copy < pages || copy + sizes[i] > pages + snapshot->bytes || (size_t) copy % 64
                         || memcmp (copy, memory[i], (size_t) sizes[i])))
            return i;
    }
    return TENSORS;
}

static void
test_copies (struct snapshot *snapshot)
{
    static const struct {
        const char *name;
        int cpus, most, threads;
    } cases[] = {
        { "one processor", 1, 100, 0 },      { "two processors", 2, 100, 1 },
        { "64 processors", 64, 100, 3 },     { "no more threads can be had", 64, 0, 0 },
        { "only one can be had", 64, 1, 1 }, { "an unknown number of processors", 0, 100, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct accel_state_dict state;
        size_t bytes = 0, tensors = 0;
        cpus = cases[i].cpus;
        most = cases[i].most;
        threads = joined = 0;
        make_state (&state);
        snapshot_measure (&state, &bytes, &tensors);
        bool good = tensors == TENSORS && !snapshot_begin (snapshot, bytes, tensors, &err);
        if (good)
            memset (snapshot->pages, 0xee, snapshot->bytes);
        if (good) {
            snapshot_add (snapshot, &state);
            good = !snapshot_copy (snapshot, &err);
        }
        int wrong = good ? first_wrong (&state, snapshot) : -1;
        ok (wrong == TENSORS && threads == cases[i].threads && joined == threads && snapshot->used == bytes,
            "%s: all is copied, by %d threads more, which are waited for", cases[i].name, cases[i].threads);
        if (wrong != TENSORS || threads != cases[i].threads)
            diag ("the first that is wrong is %d; %d threads, %d waited for", wrong, threads, joined);
        state_dict_release (&state);
    }
}

static void
test_small (struct snapshot *snapshot)
{
    struct accel_state_dict state;
    size_t bytes = 0, tensors = 0;
    unsigned char byte = 7;
    int64_t shape[1] = { 1 };
    const DLTensor tensor = { .data = &byte, .device = { kDLCPU, 0 }, .ndim = 1,
                              .dtype = accel_dtype_to_dl (ACCEL_UINT8), .shape = shape };
    cpus = most = 64;
    threads = 0;
    state_dict_init (&state);
    accel_state_dict_set_tensor (&state, "byte", &tensor);
    snapshot_measure (&state, &bytes, &tensors);
    const void *before = snapshot->pages;
    ok (!snapshot_begin (snapshot, bytes, tensors, &err) && snapshot->pages == before, "pages are kept");
    snapshot_add (snapshot, &state);
    bool good = !snapshot_copy (snapshot, &err);
    byte = 8;
    ok (good && *(unsigned char *) state.tensors[0].view.dl.data == 7 && !threads,
        "a small state is copied without threads");
    state_dict_release (&state);
}

/* @return how many pages of memory are there */
static size_t
count_resident (const struct snapshot *snapshot)
{
    size_t count = snapshot->bytes / (size_t) sysconf (_SC_PAGESIZE), there = 0;
    unsigned char *each = calloc (count, 1);
    if (each && !mincore (snapshot->pages, snapshot->bytes, each))
        for (size_t i = 0; i < count; i++)
            there += each[i] & 1;
    free (each);
    return there;
}

static void
test_reserve (void)
{
    struct snapshot snapshot = { 0 };
    size_t bytes = 70 * MIB, page = (size_t) sysconf (_SC_PAGESIZE);
    cpus = 2;
    threads = 0;
    ok (!snapshot_begin (&snapshot, MIB, 1, &err) && count_resident (&snapshot) * page < MIB,
        "memory that is not reserved comes when it is used");
    free (snapshot.copies);
    snapshot.copies = NULL;
    ok (!snapshot_reserve (&snapshot, bytes, &err) && snapshot.bytes >= bytes
            && count_resident (&snapshot) * page >= bytes,
        "memory that is reserved is there");
    ok (threads == 1, "several threads get it");
    const void *pages = snapshot.pages;
    ok (!snapshot_begin (&snapshot, bytes, 1, &err) && snapshot.pages == pages, "the save uses it");
    free (snapshot.copies);
    snapshot.copies = NULL;
    threads = 0;
    ok (!snapshot_reserve (&snapshot, MIB, &err) && snapshot.pages == pages && !threads, "it is not got again");
    snapshot_release (&snapshot);
}

int
main (void)
{
    struct snapshot snapshot = { 0 };
    make_memory ();
    test_copies (&snapshot);
    test_small (&snapshot);
    snapshot_release (&snapshot);
    test_reserve ();
    for (int i = 0; i < TENSORS; i++)
        free (memory[i]);
    return done_testing ();
}
