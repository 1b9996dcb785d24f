/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: what surrounds a training loop, as far as it communicates. */
#include <config.h>

#include "selftest/selftest.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Memory is short on the highest rank only. */
static enum accel_status
attempt (size_t batch_size, void *user, struct accel_error *err)
{
    const struct self *self = user;
    (void) err;
    return self->rank == self->size - 1 && batch_size > 60 ? ACCEL_ERR_NOMEM : ACCEL_OK;
}

static void
check_batch_size (struct self *self)
{
    size_t found = 128;
    if (CALL (self, accel_find_executable_batch_size (self->acc, &found, attempt, self, &self->err)))
        expect (self, "accel_find_executable_batch_size", 58, (long long) found);
}

/* Nothing is to be seen of it: the line is below the level. */
static void
check_log (struct self *self)
{
    int level = accel_set_log_level (ACCEL_LOG_CRITICAL);
    if (CALL (self, accel_logger_log_in_order (self->acc, &self->err, ACCEL_LOG_DEBUG, "rank %d", self->rank)))
        expect (self, "accel_set_log_level", ACCEL_LOG_CRITICAL, accel_set_log_level (0));
    accel_set_log_level (level);
}

static void
check_profile (struct self *self)
{
    const char *folder = getenv ("TMPDIR");
    char path[4096];
    struct stat file;
    snprintf (path, sizeof path, "%s/accel_selftest.XXXXXX", folder && *folder ? folder : "/tmp");
    int made = self->rank ? -1 : mkstemp (path);
    if (!self->rank && made < 0)
        wrong (self, "cannot create %s", path);
    if (CALL (self, accel_profile_start (self->acc, &(struct accel_profile_options){ .path = path }, &self->err))) {
        accel_profile_begin (self->acc, "span");
        bool met = CALL (self, accel_wait_for_everyone (self->acc, &self->err));
        accel_profile_end (self->acc);
        accel_profile_step (self->acc);
        if (met && CALL (self, accel_profile_stop (self->acc, &self->err)) && !self->rank
            && (stat (path, &file) || !file.st_size))
            wrong (self, "accel_profile_stop wrote nothing");
    }
    if (made >= 0) {
        close (made);
        unlink (path);
    }
}

static int
remove_one (const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void) info, (void) kind, (void) ftw;
    return remove (path);
}

/* A model of two parameters in two files. */
static void
check_model_files (struct self *self, const char *path)
{
    static float numbers[2];
    struct accel_tensor tensors[2];
    struct accel_parameter parameters[2] = { { "a", &tensors[0].dl, NULL }, { "b", &tensors[1].dl, NULL } };
    struct accel_save_model_options options = { .max_shard_bytes = sizeof *numbers };
    struct accel_model *model = NULL;
    for (int i = 0; i < 2; i++) {
        numbers[i] = (float) (i + 1);
        if (!CALL (self, accel_tensor_init (&tensors[i], ACCEL_FLOAT32, 0, NULL, &self->err)))
            return;
        tensors[i].dl.data = &numbers[i];
    }
    if (CALL (self, accel_model_create (&model, parameters, 2, &self->err))
        && CALL (self, accel_save_model (self->acc, model, path, &options, &self->err))) {
        numbers[0] = numbers[1] = 0;
        if (CALL (self, accel_load_model (self->acc, model, path, NULL, NULL, &self->err)))
            expect (self, "a number after accel_load_model", 2, (long long) numbers[1]);
    }
    accel_model_destroy (model);
}

/* What the program does while a save is written does not change it. */
static void
check_save_start (struct self *self, const char *path)
{
    bool done = false;
    if (!CALL (self, accel_save_state_start (self->acc, path, &self->err)))
        return;
    long long next = (long long) accel_generator_next (accel_default_generator ());
    if (CALL (self, accel_save_state_test (self->acc, &done, &self->err))
        && CALL (self, accel_save_state_wait (self->acc, &self->err))
        && CALL (self, accel_load_state (self->acc, path, &self->err)))
        expect (self, "a random number after accel_save_state_start", next,
                (long long) accel_generator_next (accel_default_generator ()));
}

/* What was saved is loaded: here, the numbers of the default generator. */
static void
check_checkpoint (struct self *self)
{
    enum { DESCRIPTORS = 8 };
    const char *folder = getenv ("TMPDIR");
    char path[4096] = "";
    if (!self->rank) {
        snprintf (path, sizeof path, "%s/accel_selftest.XXXXXX", folder && *folder ? folder : "/tmp");
        if (!mkdtemp (path))
            wrong (self, "cannot create %s", path);
    }
    if (!CALL (self, accel_comm_broadcast (self->world, path, sizeof path, ACCEL_UINT8, 0, &self->err))
        || !CALL (self, accel_save_state (self->acc, path, &self->err)))
        return;
    long long next = (long long) accel_generator_next (accel_default_generator ());
    if (CALL (self, accel_load_state (self->acc, path, &self->err)))
        expect (self, "a random number after accel_load_state", next,
                (long long) accel_generator_next (accel_default_generator ()));
    check_save_start (self, path);
    check_model_files (self, path);
    if (CALL (self, accel_wait_for_everyone (self->acc, &self->err)) && !self->rank)
        nftw (path, remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}

const struct step utility_steps[] = {
    { "checkpoint", check_checkpoint },
    { "batch size", check_batch_size },
    { "log lines", check_log },
    { "profile", check_profile },
    { NULL, NULL },
};
