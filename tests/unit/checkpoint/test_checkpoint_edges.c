/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints in unusual company: files that hooks write, numbers that begin again, optimizers with other options, a
 * locale with a comma, folders that do not exist. */
#include <config.h>

#include "tests/must.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <accel/accel.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COUNT = 5 };

int __real_fstatat (int folder, const char *restrict path, struct stat *restrict info, int flags);
int __wrap_fstatat (int folder, const char *restrict path, struct stat *restrict info, int flags);

static struct accel *acc;
static struct accel_model *model;

static bool
fails (enum accel_status status, enum accel_status wanted, const char *text)
{
    if (status == wanted && strstr (err.text, text))
        return true;
    diag ("status %d: %s", (int) status, status ? err.text : "");
    return false;
}

static bool
works (enum accel_status status)
{
    if (status)
        diag ("%s", err.text);
    return !status;
}

static void
make_model (void)
{
    static float values[COUNT], gradients[COUNT] = { 1, 2, 3, 4, 5 };
    static int64_t shape[] = { COUNT };
    static DLTensor data = { .data = values, .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape }, grad;
    data.dtype = accel_dtype_to_dl (ACCEL_FLOAT32);
    grad = data;
    grad.data = gradients;
    MUST (accel_model_create (&model, &(struct accel_parameter){ "weight", &data, &grad }, 1, &err));
}

/* ---- what hooks write ---- */

static void
write_file (const char *path)
{
    FILE *out = fopen (path, "w");
    if (!out || fputs ("text", out) < 0 || fclose (out)) {
        printf ("Bail out! cannot write %s\n", path);
        exit (99);
    }
}

/* Make a file in the folder of a checkpoint, or a folder if the name ends in '/'. */
static enum accel_status
add (void *user, const char *folder, bool *with_models, struct accel_error *error)
{
    char path[600];
    (void) with_models, (void) error;
    int length = snprintf (path, sizeof path, "%s/%s", folder, (const char *) user);
    if (path[length - 1] != '/')
        write_file (path);
    else if (mkdir (path, 0777))
        return ACCEL_ERR_SYSTEM;
    return ACCEL_OK;
}

static enum accel_status
save_with (const char *name, const char *place)
{
    uint64_t handle;
    MUST (accel_register_state_hook (acc, ACCEL_BEFORE_SAVE, add, (void *) (uintptr_t) name, &handle, &err));
    enum accel_status status = accel_save_state (acc, place, &err);
    accel_remove_state_hook (acc, handle);
    return status;
}

static int
count_open (void)
{
    int count = 0;
    for (int fd = 0; fd < 200; fd++)
        count += fcntl (fd, F_GETFD) >= 0;
    return count;
}

static void
test_hooks (void)
{
    uint64_t handle;
    MUST (accel_save_state (acc, "hooked", &err));
    ok (fails (save_with ("manifest.json", "hooked"), ACCEL_ERR_INVALID, "this name is the checkpoint's own"),
        "a hook cannot write the manifest");
    ok (fails (save_with ("\xff", "hooked"), ACCEL_ERR_INVALID, "is not UTF-8"), "nor a file without a valid name");
    int before = count_open ();
    ok (works (accel_load_state (acc, "hooked", &err)), "the former checkpoint is still there");
    ok (count_open () == before, "and no file of it stays open");
    MUST (save_with ("logs/", "hooked"));
    ok (path_exists ("hooked/logs") && works (save_with ("logs/", "hooked")),
        "an empty folder of a hook can be replaced");
    MUST (accel_register_state_hook (acc, ACCEL_BEFORE_SAVE, add, (void *) (uintptr_t) "logs/", &handle, &err));
    MUST (save_with ("logs/note", "hooked"));
    MUST (mkdir ("hooked/logs/deep", 0777) ? ACCEL_ERR_SYSTEM : ACCEL_OK);
    ok (works (save_with ("logs/note", "hooked")), "nor do empty folders below matter");
    write_file ("hooked/logs/mine");
    ok (fails (save_with ("logs/note", "hooked"), ACCEL_ERR_INVALID, "'logs/mine' in it is not part of the checkpoint"),
        "a file that was added to it cannot");
    accel_remove_state_hook (acc, handle);
    ok (path_exists ("hooked/logs/mine"), "and stays");
}

/* ---- what hooks take away ---- */

static enum accel_status
save_value (void *user, struct accel_state_dict *state, struct accel_error *error)
{
    (void) user, (void) error;
    accel_state_dict_set_int64 (state, "value", 7);
    return ACCEL_OK;
}

/* Whatever the state has suits it. */
static enum accel_status
load_anything (void *user, const struct accel_state_dict *state, struct accel_error *error)
{
    (void) state, (void) error;
    ++*(int *) user;
    return ACCEL_OK;
}

static enum accel_status
cut (void *user, const char *folder, bool *with_models, struct accel_error *error)
{
    char path[600];
    (void) user, (void) with_models, (void) error;
    snprintf (path, sizeof path, "%s/custom_checkpoint_0.json", folder);
    return truncate (path, 3) ? ACCEL_ERR_SYSTEM : ACCEL_OK;
}

/* A file that is cut after its checksum was compared; then nothing is made of the rest of it. */
static void
test_cut (void)
{
    struct accel *other;
    uint64_t handle;
    int loads = 0;
    const struct accel_checkpoint_object object = { .save = save_value, .load = load_anything, .user = &loads };
    MUST (accel_open (&other, NULL, &err));
    MUST (accel_register_for_checkpointing (other, &object, &err));
    MUST (accel_save_state (other, "cut", &err));
    ok (works (accel_load_state (other, "cut", &err)) && loads == 1, "an object is loaded");
    MUST (accel_register_state_hook (other, ACCEL_BEFORE_LOAD, cut, NULL, &handle, &err));
    ok (fails (accel_load_state (other, "cut", &err), ACCEL_ERR_FORMAT, "custom_checkpoint_0.json") && loads == 1,
        "but not from a file that is cut meanwhile");
    accel_close (other);
}

/* The file is removed just after it was listed. */
int
__wrap_fstatat (int folder, const char *restrict path, struct stat *restrict info, int flags)
{
    if (!strcmp (path, "vanishes") || !strcmp (path, ".nfs0123456789"))
        unlinkat (folder, path, 0);
    return __real_fstatat (folder, path, info, flags);
}

static void
test_vanishing (void)
{
    MUST (accel_save_state (acc, "vanishing", &err));
    write_file ("vanishing/vanishes");
    write_file ("vanishing/.nfs0123456789");
    ok (works (accel_save_state (acc, "vanishing", &err)), "a file that is removed meanwhile prevents nothing");
    ok (works (save_with (".nfs0123456789", "vanishing")), "nor does one of NFS in the new checkpoint");
}

/* NFS calls files so that were removed while a process has them open; their names are 24 digits long on Linux. */
static void
test_nfs (void)
{
    static const struct {
        const char *name;
        bool passes; /* over it */
    } rows[] = { { ".nfs000000000012abcd00000001", true }, { ".nfs0000001", false }, { ".nfs01234567x", false },
                 { ".nfs00000000/", false }, { ".nfsX/", false }, { ".nfs", false } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char folder[32], path[100];
        snprintf (folder, sizeof folder, "nfs-%zu", i);
        MUST (accel_save_state (acc, folder, &err));
        snprintf (path, sizeof path, "%s/%s", folder, rows[i].name);
        if (path[strlen (path) - 1] == '/') {
            MUST (mkdir (path, 0777) ? ACCEL_ERR_SYSTEM : ACCEL_OK);
            strcat (path, "mine");
        }
        write_file (path);
        ok (rows[i].passes ? works (accel_save_state (acc, folder, &err))
                           : fails (accel_save_state (acc, folder, &err), ACCEL_ERR_INVALID, "is not part of"),
            "%s %s", rows[i].name, rows[i].passes ? "is NFS's own" : "is a user's");
    }
    uint64_t handle;
    MUST (accel_register_state_hook (acc, ACCEL_BEFORE_SAVE, add, (void *) (uintptr_t) ".nfs00000000/", &handle, &err));
    MUST (save_with (".nfs00000000/note", "nfs-hook"));
    accel_remove_state_hook (acc, handle);
    MUST (unlink ("nfs-hook/.nfs00000000/note") ? ACCEL_ERR_SYSTEM : ACCEL_OK);
    ok (accel_load_state (acc, "nfs-hook", &err) && strstr (err.text, ".nfs00000000/note"),
        "a hook's folder of such a name is part of the checkpoint");
}

/* ---- what others put there while it is saved ---- */

/* Put a file into the checkpoint that is about to be replaced. */
static enum accel_status
disturb (void *user, const char *folder, bool *with_models, struct accel_error *error)
{
    (void) folder, (void) with_models, (void) error;
    write_file (user);
    return ACCEL_OK;
}

static size_t
matches (const char *pattern)
{
    glob_t found;
    size_t count = glob (pattern, GLOB_PERIOD, NULL, &found) ? 0 : found.gl_pathc;
    globfree (&found);
    return count;
}

/* What a save says on standard error. */
static bool
warns (const char *place, const char *text)
{
    char said[2000] = "";
    int before = dup (STDERR_FILENO), log = open ("warning", O_CREAT | O_RDWR | O_TRUNC, 0666);
    if (before < 0 || log < 0 || dup2 (log, STDERR_FILENO) < 0)
        MUST (ACCEL_ERR_SYSTEM);
    enum accel_status status = accel_save_state (acc, place, &err);
    dup2 (before, STDERR_FILENO);
    if (pread (log, said, sizeof said - 1, 0) < 0)
        MUST (ACCEL_ERR_SYSTEM);
    close (before);
    close (log);
    diag ("%s", said);
    return works (status) && strstr (said, text);
}

static void
test_meanwhile (void)
{
    uint64_t handle;
    MUST (accel_save_state (acc, "late", &err));
    MUST (accel_register_state_hook (acc, ACCEL_BEFORE_SAVE, disturb, (void *) (uintptr_t) "late/notes", &handle,
                                     &err));
    ok (warns ("late", "late.kept-"), "a file is put into the former checkpoint meanwhile: a warning says where it is");
    accel_remove_state_hook (acc, handle);
    ok (matches ("late.kept-*/notes") == 1 && matches ("late.kept-*/manifest.json") == 1 && !matches ("late/notes"),
        "the former checkpoint is kept with it");
    ok (works (accel_load_state (acc, "late", &err)), "the new one is complete");
    ok (works (accel_save_state (acc, "late", &err)) && matches ("late.kept-*/notes") == 1 && !matches ("late.tmp-*"),
        "and can be replaced");
    MUST (mkdir ("bare", 0777) ? ACCEL_ERR_SYSTEM : ACCEL_OK);
    MUST (accel_register_state_hook (acc, ACCEL_BEFORE_SAVE, disturb, (void *) (uintptr_t) "bare/notes", &handle,
                                     &err));
    ok (warns ("bare", "bare.kept-") && matches ("bare.kept-*/notes") == 1, "so is a folder that was empty");
    accel_remove_state_hook (acc, handle);
}

/* A process was killed before it removed what it had replaced. */
static void
test_remainder (void)
{
    MUST (accel_save_state (acc, "rest", &err));
    MUST (accel_save_state (acc, "rest.tmp-00000001", &err));
    MUST (accel_save_state (acc, "rest.tmp-00000002", &err));
    write_file ("rest.tmp-00000001/notes");
    MUST (accel_save_state (acc, "rest", &err));
    ok (matches ("rest.kept-00000001/notes") == 1 && !matches ("rest.tmp-*"),
        "what a killed process left is kept if it has a file of others, and otherwise removed");
}

/* ---- what hooks do to each other ---- */

/* A hook for one save, and one that comes after it. */
static uint64_t once;
static int later_runs;

static enum accel_status
run_once (void *user, const char *folder, bool *with_models, struct accel_error *error)
{
    (void) user, (void) folder, (void) with_models, (void) error;
    accel_remove_state_hook (acc, once);
    return ACCEL_OK;
}

static enum accel_status
run_later (void *user, const char *folder, bool *with_models, struct accel_error *error)
{
    (void) user, (void) folder, (void) with_models, (void) error;
    later_runs++;
    return ACCEL_OK;
}

static void
test_once (void)
{
    uint64_t later;
    MUST (accel_register_state_hook (acc, ACCEL_BEFORE_SAVE, run_once, NULL, &once, &err));
    MUST (accel_register_state_hook (acc, ACCEL_BEFORE_SAVE, run_later, NULL, &later, &err));
    MUST (accel_save_state (acc, "once", &err));
    ok (later_runs == 1, "a hook that removes itself does not hide the next one");
    accel_remove_state_hook (acc, later);
}

/* ---- numbers ---- */

static void
configure (uint64_t iteration)
{
    const struct accel_project_configuration configuration
        = { .project_dir = "project", .automatic_checkpoint_naming = true, .total_limit = 2, .iteration = iteration };
    MUST (accel_set_project_configuration (acc, &configuration, &err));
}

static void
test_limit (void)
{
    for (uint64_t i = 7; i < 9; i++) {
        configure (i);
        MUST (accel_save_state (acc, NULL, &err));
    }
    configure (0);
    MUST (accel_save_state (acc, NULL, &err));
    ok (path_exists ("project/checkpoints/checkpoint_0") && path_exists ("project/checkpoints/checkpoint_8")
            && !path_exists ("project/checkpoints/checkpoint_7"),
        "numbers that begin again: the new checkpoint counts");
    MUST (accel_save_state (acc, NULL, &err));
    ok (path_exists ("project/checkpoints/checkpoint_1") && path_exists ("project/checkpoints/checkpoint_8")
            && !path_exists ("project/checkpoints/checkpoint_0"),
        "and there are never more than the limit");
    write_file ("project/checkpoints/checkpoint_1/notes");
    MUST (accel_save_state (acc, NULL, &err));
    ok (!path_exists ("project/checkpoints/checkpoint_1") && !matches ("project/checkpoints/*.*-*"),
        "an old one is removed with everything in it");
    MUST (accel_set_project_configuration (acc, &(struct accel_project_configuration){ 0 }, &err));
}

/* ---- what is missing ---- */

/* @return the errno of a load that has to fail; -1: it has not */
static enum accel_status
missing (const char *path)
{
    enum accel_status status = accel_load_state (acc, path, &err);
    diag ("%s", err.text);
    return status;
}

/* A status of its own lets programs begin without a checkpoint. */
static void
test_missing (void)
{
    MUST (accel_save_state (acc, "damaged", &err));
    MUST (unlink ("damaged/model.safetensors") ? ACCEL_ERR_SYSTEM : ACCEL_OK);
    ok (missing ("damaged") == ACCEL_ERR_SYSTEM, "a checkpoint without one of its files");
    ok (missing ("none") == ACCEL_ERR_INVALID, "a folder that does not exist");
    ok (missing ("none/none") == ACCEL_ERR_INVALID, "nor does the one above");
    ok (missing ("") == ACCEL_ERR_INVALID, "no name");
    const struct accel_project_configuration configuration
        = { .project_dir = "new", .automatic_checkpoint_naming = true };
    MUST (accel_set_project_configuration (acc, &configuration, &err));
    ok (missing (NULL) == ACCEL_ERR_NOT_FOUND, "a project without checkpoints is a beginning");
    MUST (accel_set_project_configuration (acc, &(struct accel_project_configuration){ 0 }, &err));
}

/* ---- optimizers ---- */

static struct accel_optimizer *
make_adam (bool amsgrad)
{
    struct accel_optimizer *optimizer;
    MUST (accel_optimizer_create (&optimizer, model, ACCEL_ADAM,
                                  &(struct accel_optimizer_options){ .amsgrad = amsgrad }, &err));
    return optimizer;
}

static struct accel_optimizer *
make_sgd (bool momentum)
{
    struct accel_optimizer *optimizer;
    const struct accel_optimizer_options options = { .lr = 0.1, .momentum = momentum ? 0.5 : 0 };
    MUST (accel_optimizer_create (&optimizer, model, ACCEL_SGD, &options, &err));
    return optimizer;
}

static void
test_optimizer (struct accel_optimizer *(*make) (bool more), const char *text)
{
    struct accel_optimizer *optimizer = make (true);
    MUST (accel_prepare (acc, &err, optimizer));
    MUST (accel_optimizer_step (optimizer, &err));
    MUST (accel_save_state (acc, "optimizer", &err));
    accel_optimizer_destroy (optimizer);
    optimizer = make (false);
    MUST (accel_prepare (acc, &err, optimizer));
    ok (fails (accel_load_state (acc, "optimizer", &err), ACCEL_ERR_FORMAT, text), "%s", text);
    ok (works (accel_optimizer_step (optimizer, &err)), "the optimizer still has its own options");
    accel_optimizer_destroy (optimizer);
    optimizer = make (true);
    MUST (accel_prepare (acc, &err, optimizer));
    ok (works (accel_load_state (acc, "optimizer", &err)), "the same options do");
    accel_optimizer_destroy (optimizer);
}

/* ---- a locale ---- */

/* @return whether numbers now have a comma; it takes localedef(1), which comes with glibc */
static bool
enter_comma (void)
{
    FILE *out = fopen ("comma.src", "w");
    if (!out || fputs ("LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\n", out) < 0
        || fclose (out))
        return false;
    char text[8];
    if (system ("localedef -c -i comma.src -f ANSI_X3.4-1968 ./comma >localedef.log 2>&1") < 0
        || setenv ("LOCPATH", scratch_folder (), 1) || !setlocale (LC_NUMERIC, "comma"))
        return false;
    snprintf (text, sizeof text, "%.1f", 1.5);
    return !strcmp (text, "1,5");
}

static void
test_locale (void)
{
    struct accel_optimizer *optimizer = make_adam (false);
    MUST (accel_prepare (acc, &err, optimizer));
    if (enter_comma ()) {
        const struct accel_save_model_options options = { .max_shard_size = "1.5KB" };
        ok (works (accel_save_state (acc, "comma-state", &err)) && works (accel_load_state (acc, "comma-state", &err)),
            "a state is saved and loaded in a locale with a decimal comma");
        ok (works (accel_save_model (acc, model, "comma-model", &options, &err)), "sizes have a point there too");
        setlocale (LC_NUMERIC, "C");
        ok (works (accel_load_state (acc, "comma-state", &err)), "and it is the same file in other locales");
    } else
        skip ("cannot make a locale with a decimal comma");
    accel_optimizer_destroy (optimizer);
}

int
main (void)
{
    scratch_enter ();
    make_model ();
    MUST (accel_open (&acc, NULL, &err));
    MUST (accel_prepare (acc, &err, model));
    test_hooks ();
    test_vanishing ();
    test_nfs ();
    test_meanwhile ();
    test_remainder ();
    test_once ();
    test_limit ();
    test_missing ();
    test_optimizer (make_adam, "without: set .amsgrad in its options");
    test_optimizer (make_sgd, "without: set .momentum in its options");
    test_locale ();
    accel_model_destroy (model);
    accel_close (acc);
    test_cut ();
    return done_testing ();
}
