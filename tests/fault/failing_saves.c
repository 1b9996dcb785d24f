/* SPDX-License-Identifier: Apache-2.0 */
/* failing_saves WHAT FOLDER RANK: a job that saves to FOLDER, where the disk is full for that rank (by a limit for the
 * size of its files; -1: for none).  It ends as careless programs do, or careful ones:
 *
 *   close | return    a save in the background is the last thing; then accel_close(), or the return from main()
 *   wait | end        the same, but its result is looked at: accel_save_state_wait(), or accel_end_training()
 *   state | model     accel_save_state() or accel_save_model(), checked.  The rank whose disk was full stays as it is
 *   later             accel_save_state() may fail; rank 0 exits with status 3 after the next collective
 *   crash             accel_save_model(), and then abort() */
#include <config.h>

#include <accel/accel.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NUMBERS = 4096, FILES = 2000 };

static struct accel *acc;
static struct accel_model *model;
static struct accel_error err;
static float numbers[NUMBERS];
static bool is_full;

/* Enough files that removing them takes longer than the end of a rank. */
static enum accel_status
make_files (void *user, const char *folder, bool *with_models, struct accel_error *error)
{
    char name[4096];
    (void) user, (void) with_models, (void) error;
    for (int i = 0; i < FILES && accel_is_main_process (acc); i++) {
        snprintf (name, sizeof name, "%s/hook-%d", folder, i);
        close (open (name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    return ACCEL_OK;
}

/* Not before the job is open: its shared memory is a file, too. */
static void
begin (int full_rank)
{
    static struct accel_tensor tensor;
    accel_check (accel_open (&acc, NULL, &err), &err);
    accel_check (accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, (int64_t[]){ NUMBERS }, &err), &err);
    tensor.dl.data = numbers;
    const struct accel_parameter parameter = { .name = "numbers", .data = &tensor.dl };
    accel_check (accel_model_create (&model, &parameter, 1, &err), &err);
    accel_check (accel_prepare (acc, &err, model), &err);
    is_full = accel_process_index (acc) == full_rank;
    if (is_full && setrlimit (RLIMIT_FSIZE, &(struct rlimit){ 1024, 1024 }))
        abort ();
}

/* After a failure: others end because of it first. */
static void
check (enum accel_status status)
{
    if (status && is_full)
        pause ();
    accel_check (status, &err);
}

static int
save_in_background (const char *what, const char *folder)
{
    enum accel_status status = ACCEL_OK;
    accel_check (accel_save_state_start (acc, folder, &err), &err);
    if (!strcmp (what, "wait"))
        status = accel_save_state_wait (acc, &err);
    else if (!strcmp (what, "end"))
        status = accel_end_training (acc, &err);
    if (status)
        printf ("told: %s\n", err.text);
    if (strcmp (what, "return") != 0)
        accel_close (acc);
    return 0;
}

static int
save_model (const char *folder)
{
    return (int) accel_save_model (acc, model, folder, NULL, &err);
}

static int
save_state (const char *what, const char *folder)
{
    bool is_later = !strcmp (what, "later");
    if (!is_later)
        accel_check (accel_register_state_hook (acc, ACCEL_BEFORE_SAVE, make_files, NULL, NULL, &err), &err);
    enum accel_status status = accel_save_state (acc, folder, &err);
    if (!is_later)
        check (status);
    accel_check (accel_comm_barrier (accel_world (acc), &err), &err);
    if (accel_is_main_process (acc))
        return 3;
    pause ();
    return 0;
}

int
main (int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "", *folder = argc > 2 ? argv[2] : "";
    begin (argc > 3 ? atoi (argv[3]) : -1);
    if (!strcmp (what, "model"))
        check ((enum accel_status) save_model (folder));
    else if (!strcmp (what, "crash") && !save_model (folder))
        abort ();
    else if (!strcmp (what, "state") || !strcmp (what, "later"))
        return save_state (what, folder);
    else
        return save_in_background (what, folder);
    return 0;
}
