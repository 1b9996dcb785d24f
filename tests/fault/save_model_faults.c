/* SPDX-License-Identifier: Apache-2.0 */
/* A model that replaces a former one in a directory, or makes that, while the process is killed, the disk fails and the
 * power is lost, at each call in turn: there is always one whole model, the former or the new one.  So it loads from
 * bad disks.
 *
 *   save_model_faults kills | disk    with `all` after `kills`: at each call, not each third one */
#include <config.h>

#include "tests/fault/disk.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <accel/accel.h>
#include <sys/wait.h>

enum { TENSORS = 4, NUMBERS = 64, PATH_ROOM = SCRATCH_SIZE + 128, MOST_CALLS = 200 };

/* How a model is saved. */
static const char *const sizes[] = { "10GB", "600", "300" }; /* 1, 2 and 4 files */
enum { NOTHING = -1, WAYS = 3, LOSSES = 10 };
static const int reasons[] = { EIO, ENOSPC, EACCES };

static struct accel *acc;
static struct accel_model *model;
static struct accel_tensor tensors[TENSORS];
static float numbers[TENSORS][NUMBERS];
static struct accel_error err;
static char folder[PATH_ROOM];
static char root[PATH_ROOM]; /* two levels above it, and all that a disk has */
static const char model_folder[] = "new/model";

static void
set_numbers (float value)
{
    for (size_t i = 0; i < TENSORS * NUMBERS; i++)
        numbers[i / NUMBERS][i % NUMBERS] = value;
}

static void
make_model (void)
{
    static const char *const names[TENSORS] = { "a", "b", "c", "d" };
    struct accel_parameter parameters[TENSORS];
    bool good = !accel_open (&acc, NULL, &err);
    for (int i = 0; i < TENSORS && good; i++) {
        good = !accel_tensor_init (&tensors[i], ACCEL_FLOAT32, 1, (int64_t[]){ NUMBERS }, &err);
        tensors[i].dl.data = numbers[i];
        parameters[i] = (struct accel_parameter){ .name = names[i], .data = &tensors[i].dl };
    }
    if (!good || accel_model_create (&model, parameters, TENSORS, &err)) {
        printf ("Bail out! %s\n", err.text);
        exit (99);
    }
}

static enum accel_status
save (float value, int way)
{
    struct accel_save_model_options options = { .max_shard_size = sizes[way] };
    set_numbers (value);
    return accel_save_model (acc, model, folder, &options, &err);
}

/* @return what the directory has: one number in all tensors; 0: no model; -1: a mixture; -2: another failure */
static float
load (const char *path)
{
    set_numbers (0);
    enum accel_status status = accel_load_model (acc, model, path, NULL, NULL, &err);
    if (status)
        return strstr (err.text, "has neither") || strstr (err.text, "No such file") ? 0 : -2;
    for (size_t i = 1; i < TENSORS * NUMBERS; i++)
        if (numbers[i / NUMBERS][i % NUMBERS] != numbers[0][0])
            return -1;
    return numbers[0][0];
}

/* What a program finds that knows only the names of the original: hidden files are out of its sight. */
static float
load_as_others (void)
{
    char new_index[PATH_ROOM + 64], hidden[PATH_ROOM + 64];
    snprintf (new_index, sizeof new_index, "%s/.model.safetensors.index.json.new", folder);
    snprintf (hidden, sizeof hidden, "%s/hidden", folder);
    bool moved = !__real_rename (new_index, hidden);
    float found = load (folder);
    if (moved && __real_rename (hidden, new_index))
        abort ();
    return found;
}

/* The directory itself stays: what was synced of it is known by its inode. */
static void
clear (const char *path)
{
    char inner[DISK_PATH + 256];
    DIR *dir = opendir (path);
    for (struct dirent *entry; dir && (entry = readdir (dir)); ) {
        if (!strcmp (entry->d_name, ".") || !strcmp (entry->d_name, ".."))
            continue;
        snprintf (inner, sizeof inner, "%.500s/%s", path, entry->d_name);
        if (entry->d_type == DT_DIR)
            clear (inner);
        if (__real_unlinkat (AT_FDCWD, inner, entry->d_type == DT_DIR ? AT_REMOVEDIR : 0))
            abort ();
    }
    if (dir)
        closedir (dir);
}

static void
start_with (int former)
{
    const char *shadow = disk_shadow;
    clear (root);
    if (shadow)
        clear (shadow);
    if (former != NOTHING && save (1, former))
        diag ("the former model: %s", err.text);
}

/* After a fault: what is there, and can it be replaced? */
static bool
is_whole (int former, int way, long at)
{
    float found = load (folder), others = load_as_others ();
    bool good = found == 2 || found == (former == NOTHING ? 0 : 1);
    bool seen = others == 0 || others == 1 || others == 2 || (others == -2 && strstr (err.text, "is not in"));
    float known = found;
    size_t files = way ? (way == 1 ? 2 : 4) + 1 : 1;
    bool again = !save (3, way) && load (folder) == 3 && scratch_count (folder) == files;
    if (!good || !seen || !again)
        diag ("from %d to %d, call %ld: found %g, others find %g; then %zu files, %s", former, way, at, (double) known,
              (double) others, scratch_count (folder), err.text);
    return good && seen && again;
}

static long
count_calls (int former, int way)
{
    start_with (former);
    disk_calls = 0;
    bool good = !save (2, way);
    long calls = disk_calls;
    return good && load (folder) == 2 ? calls : -1;
}

/* @param over  the save has said that it went well */
static bool
survives_power_loss (int former, long at, bool over)
{
    char recovered[PATH_ROOM], path[PATH_ROOM + 16];
    bool good = true;
    snprintf (recovered, sizeof recovered, "%s/recovered", scratch_folder ());
    snprintf (path, sizeof path, "%s/%s", recovered, model_folder);
    for (int i = 0; i < LOSSES; i++) {
        enum disk_part part = i < DISK_SOME ? (enum disk_part) i : DISK_SOME;
        clear (recovered);
        disk_recover (root, part, recovered);
        float found = load (path);
        bool whole = found == 2 || (!over && found == (former == NOTHING ? 0 : 1));
        if (!whole)
            diag ("power lost from %d, call %ld, way %d: found %g: %s", former, at, i, (double) found, err.text);
        good = good && whole;
    }
    return good;
}

/* Of the calls at which a save is killed; from each kind of model to each other, it begins at another one. */
static int stride = 5;

static void
test_kills (int former, int way)
{
    long calls = count_calls (former, way), tried = 0, bad = 0, lost = 0;
    for (long i = (former + way + 1) % stride; i <= calls; i = i < calls && i + stride > calls ? calls : i + stride) {
        bool over = i >= calls; /* it is not killed */
        start_with (former);
        srandom ((unsigned) i);
        pid_t child = fork ();
        if (!child) {
            disk_left = i;
            _exit (save (2, way) ? 1 : 0);
        }
        int status = 0;
        waitpid (child, &status, 0);
        bad += over ? status : !WIFSIGNALED (status);
        lost += !survives_power_loss (former, i, over);
        bad += !is_whole (former, way, i);
        tried++;
    }
    ok (calls > 5 && !bad, "killed at %ld of %ld calls and after them, from %s to %s: a whole model", tried - 1, calls,
        former == NOTHING ? "nothing" : sizes[former], sizes[way]);
    ok (calls > 5 && !lost, "and from %ld disks without power", LOSSES * tried);
}

static void
test_disk (int former, int way)
{
    long calls = count_calls (former, way), bad = 0, failed = 0;
    for (long i = 0; i < calls; i++) {
        start_with (former);
        disk_left = i;
        disk_errno = reasons[(i + way) % 3];
        enum accel_status status = save (2, way);
        disk_left = -1;
        failed += status != ACCEL_OK;
        bad += status && (err.code != status || strchr (err.text, '\n'));
        bad += !is_whole (former, way, i);
    }
    disk_errno = 0;
    ok (calls > 5 && !bad && failed > calls / 3, "each of %ld calls fails, from %s to %s: a whole model", calls,
        former == NOTHING ? "nothing" : sizes[former], sizes[way]);
}

/* Each call of a load fails once; then it loads. */
static void
test_load (int way)
{
    long calls = 0, bad = 0, failed = 0;
    start_with (way);
    for (bool over = false; !over; calls++) {
        disk_left = calls;
        disk_errno = reasons[calls % 3];
        set_numbers (0);
        enum accel_status status = accel_load_model (acc, model, folder, NULL, NULL, &err);
        over = disk_left >= 0;
        disk_left = -1;
        failed += status != ACCEL_OK;
        bad += status ? err.code != status || strchr (err.text, '\n') != NULL : numbers[TENSORS - 1][0] != 1;
        bad += load (folder) != 1;
    }
    disk_errno = 0;
    ok (calls > 5 && !bad && failed > calls / 2, "each of %ld calls of a load of %s fails", calls, sizes[way]);
}

int
main (int argc, char **argv)
{
    static char shadow[PATH_ROOM];
    snprintf (root, sizeof root, "%s/root", scratch_folder ());
    snprintf (folder, sizeof folder, "%.*s/%s", PATH_ROOM - 16, root, model_folder);
    snprintf (shadow, sizeof shadow, "%s/shadow", scratch_folder ());
    bool kills = argc > 1 && !strcmp (argv[1], "kills");
    if (argc > 2 && !strcmp (argv[2], "all"))
        stride = 1;
    snprintf (disk_root, sizeof disk_root, "%s", root);
    make_model ();
    if (__real_mkdir (root, 0700) || (kills && __real_mkdir (shadow, 0700)))
        return 99;
    disk_shadow = kills ? shadow : NULL;
    disk_reads = !kills;
    for (int former = NOTHING; former < WAYS; former++)
        for (int way = 0; way < WAYS; way++)
            (kills ? test_kills : test_disk) (former, way);
    for (int way = 0; way < WAYS && !kills; way++)
        test_load (way);
    accel_model_destroy (model);
    accel_close (acc);
    return done_testing ();
}
