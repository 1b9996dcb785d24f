/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: who this process is, control of what runs where, and what needs no peer. */
#include <config.h>

#include "selftest/selftest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What a launcher said, where it said it. */
static void
expect_variable (struct self *self, const char *name, int got)
{
    const char *text = getenv (name);
    if (text)
        expect (self, name, strtoll (text, NULL, 10), got);
}

static void
check_identity (struct self *self)
{
    const struct accel *acc = self->acc;
    int local = accel_local_process_index (acc), local_size = accel_local_num_processes (acc);
    expect_variable (self, "RANK", self->rank);
    expect_variable (self, "WORLD_SIZE", self->size);
    expect_variable (self, "LOCAL_RANK", local);
    expect_variable (self, "LOCAL_WORLD_SIZE", local_size);
    if (self->rank < 0 || self->rank >= self->size || local < 0 || local >= local_size || local_size > self->size)
        wrong (self, "rank %d of %d, local rank %d of %d", self->rank, self->size, local, local_size);
    expect (self, "accel_comm_rank", self->rank, accel_comm_rank (self->world));
    expect (self, "accel_comm_size", self->size, accel_comm_size (self->world));
    expect (self, "accel_is_main_process", self->rank == 0, accel_is_main_process (acc));
    expect (self, "accel_is_local_main_process", local == 0, accel_is_local_main_process (acc));
    expect (self, "accel_is_last_process", self->rank == self->size - 1, accel_is_last_process (acc));
    bool on_gpu = accel_device (acc).device_type != kDLCPU;
    expect_text (self, "accel_distributed_type", self->size == 1 ? "NO" : on_gpu ? "MULTI_GPU" : "MULTI_CPU",
                 accel_distributed_type (acc));
    const char *cpu = getenv ("ACCELERATE_USE_CPU");
    bool may_be_gpu = !cpu || strcmp (cpu, "true") != 0;
    DLDeviceType device = accel_device (acc).device_type;
    expect (self, "accel_device", may_be_gpu && device == kDLCUDA ? kDLCUDA : kDLCPU, device);
}

static void
check_precision (struct self *self)
{
    const char *wanted = getenv ("ACCELERATE_MIXED_PRECISION");
    expect_text (self, "accel_mixed_precision", wanted && *wanted ? wanted : "no", accel_mixed_precision (self->acc));
    expect_text (self, "accel_status_string", "success", accel_status_string (ACCEL_OK));
}

/* Standard output becomes a file in memory for one call. */
static void
check_print (struct self *self)
{
    char got[64] = "", wanted[64] = "";
    fflush (stdout);
    int saved = dup (STDOUT_FILENO), file = memfd_create ("accel_print", MFD_CLOEXEC);
    if (saved < 0 || file < 0 || dup2 (file, STDOUT_FILENO) < 0)
        wrong (self, "cannot redirect standard output");
    else {
        accel_print (self->acc, "host of rank %d: %s\n", self->rank, "hello");
        dup2 (saved, STDOUT_FILENO);
        ssize_t length = pread (file, got, sizeof got - 1, 0);
        got[length > 0 ? length : 0] = '\0';
        if (accel_is_local_main_process (self->acc))
            snprintf (wanted, sizeof wanted, "host of rank %d: hello\n", self->rank);
        expect_text (self, "accel_print", wanted, got);
    }
    if (saved >= 0)
        close (saved);
    if (file >= 0)
        close (file);
}

static void
check_split (struct self *self)
{
    static const size_t lengths[] = { 0, 1, 7, 100, 1001 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t length = lengths[i], ranks = (size_t) self->size, at = (size_t) self->rank;
        size_t each = length / ranks, more = length % ranks;
        size_t begin = at * each + (at < more ? at : more), end = begin + each + (at < more);
        struct accel_split split = accel_split_between_processes (self->acc, length, false);
        struct accel_split padded = accel_split_between_processes (self->acc, length, true);
        expect (self, "begin", (long long) begin, (long long) split.begin);
        expect (self, "end", (long long) end, (long long) split.end);
        expect (self, "padding", 0, (long long) split.padding);
        expect (self, "requested padding", length ? (long long) (each + (more > 0) - (end - begin)) : 0,
                (long long) padded.padding);
    }
}

/* Numbers of MT19937 that are known everywhere. */
static void
check_generator (struct self *self)
{
    struct accel_generator *generator;
    int64_t first[50], second[50];
    if (!CALL (self, accel_generator_create (&generator, 5489, &self->err)))
        return;
    expect (self, "first number of seed 5489", 3499211612, accel_generator_next (generator));
    expect (self, "second number of seed 5489", 581869302, accel_generator_next (generator));
    accel_generator_seed (generator, 5489);
    expect_near (self, "accel_generator_uniform", (3499211612U & 0xffffff) / 16777216.0,
                 (double) accel_generator_uniform (generator), 1e-9);
    accel_generator_seed (generator, 42);
    accel_generator_permutation (generator, first, 50);
    accel_generator_seed (generator, 42);
    accel_generator_permutation (generator, second, 50);
    bool seen[50] = { false };
    for (int i = 0; i < 50; i++) {
        expect (self, "the permutation is repeatable", first[i], second[i]);
        if (first[i] >= 0 && first[i] < 50)
            seen[first[i]] = true;
    }
    for (int i = 0; i < 50; i++)
        expect (self, "the permutation contains each number", 1, seen[i]);
    accel_generator_destroy (generator);
}

static void
check_tensor (struct self *self)
{
    static const int64_t shape[] = { 2, 3, 4 };
    struct accel_tensor tensor;
    if (!CALL (self, accel_tensor_init (&tensor, ACCEL_FLOAT64, 3, shape, &self->err)))
        return;
    expect (self, "accel_tensor_count", 24, (long long) accel_tensor_count (&tensor.dl));
    for (int i = 0; i < ACCEL_DTYPE_COUNT; i++) {
        DLDataType type = accel_dtype_to_dl ((enum accel_dtype) i);
        expect (self, "accel_dtype_from_dl", i, accel_dtype_from_dl (type));
        expect (self, "accel_dtype_bytes", type.bits / 8, (long long) accel_dtype_bytes ((enum accel_dtype) i));
    }
    expect_text (self, "accel_dtype_name", "float64", accel_dtype_name (ACCEL_FLOAT64));
    accel_tensor_release (&tensor);
}

const struct step state_steps[] = {
    { "rank and world", check_identity },
    { "mixed precision", check_precision },
    { "print", check_print },
    { "split between processes", check_split },
    { "random numbers", check_generator },
    { "tensors", check_tensor },
    { NULL, NULL },
};
