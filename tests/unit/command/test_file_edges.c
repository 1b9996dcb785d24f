/* SPDX-License-Identifier: Apache-2.0 */
/* Files at their edges: modes that stay, saves that were killed at any point, folders of checkpoints, texts for people,
 * and files that are engines or not. */
#include <config.h>

#include "files/atomic_file.h"
#include "files/checkpoints.h"
#include "files/error.h"
#include "files/index.h"
#include "files/manifest.h"
#include "files/weights_save.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/engine_files.h"
#include "util/envnames.h"
#include "util/jobseg.h"
#include "util/printable.h"
#include "util/procfs.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct accel_error err;

static void
put_file (const char *path, const char *text)
{
    FILE *file = fopen (path, "w");
    if (!file || fputs (text, file) < 0 || fclose (file))
        abort ();
}

static void
test_mode (void)
{
    struct atomic_file atomic = ATOMIC_FILE_NONE;
    struct stat info = { 0 };
    mode_t before = umask (077);
    put_file ("old.bin", "old");
    chmod ("old.bin", 0664);
    enum accel_status status = atomic_file_create (&atomic, "old.bin", false, 4, &err);
    if (!status)
        status = atomic_file_write (&atomic, 0, "text", 4, &err);
    if (!status)
        status = atomic_file_finish (&atomic, &err);
    atomic_file_close (&atomic);
    ok (!status && !stat ("old.bin", &info) && (info.st_mode & 0777) == 0664 && info.st_size == 4,
        "a file that is replaced keeps its mode: %o", (unsigned) info.st_mode);
    umask (before);
}

/* What a killed process left is removed; a link, or a pipe, of such a name is not ours. */
static void
test_sweep (void)
{
    struct atomic_file atomic = ATOMIC_FILE_NONE;
    enum accel_status status = atomic_file_create (&atomic, "swept.bin", false, 4, &err);
    char *left = atomic.beside ? strdup (atomic.beside) : NULL;
    atomic_file_close (&atomic);
    if (!ok (!status && left && !path_exists (left), "a file is made beside, and removed"))
        return;
    char *digit = strchr (left, '-') + 1;
    put_file (left, "left");
    put_file ("target", "target");
    *digit = '8';
    bool made = !symlink ("target", left);
    *digit = '9';
    made = made && !mkfifo (left, 0666);
    status = atomic_file_create (&atomic, "swept.bin", false, 4, &err);
    atomic_file_close (&atomic);
    struct stat info;
    *digit = '0';
    ok (made && !status && !path_exists (left), "what was left is swept");
    *digit = '8';
    ok (!lstat (left, &info) && S_ISLNK (info.st_mode) && path_exists ("target"), "a link is not");
    *digit = '9';
    unlink (left);
    free (left);
}

/* ---- saves that were killed ---- */

#define SHARD "model-00001-of-00001.safetensors"

/* A save of one shard was complete, but for its names. */
static void
leave_save (const char *folder)
{
    if (mkdir (folder, 0777) || chdir (folder))
        abort ();
    put_file (WEIGHTS_INDEX_NAME, "old");
    put_file (WEIGHTS_NEW_INDEX_NAME, "{\"metadata\": {\"total_size\": 4}, \"weight_map\": {\"w\": \"" SHARD "\"}}");
}

static void
test_killed (void)
{
    struct weights_save save;
    leave_save ("renamed");
    put_file (SHARD, "shard"); /* and all its names but the last */
    bool good = !weights_save_begin (&save, ".", &err) && !path_exists (WEIGHTS_NEW_INDEX_NAME) && path_exists (SHARD);
    ok (good, "a save that was killed among its names is finished: %s", err.text);
    weights_save_end (&save);
    good = !chdir ("..");
    leave_save ("blocked");
    put_file ("." SHARD ".new", "shard");
    good = good && !mkdir (SHARD, 0777) && !mkdir (SHARD "/full", 0777);
    good = good && weights_save_begin (&save, ".", &err) && strstr (err.text, "cannot rename to " SHARD);
    ok (good && !path_exists (WEIGHTS_INDEX_NAME) && path_exists (WEIGHTS_NEW_INDEX_NAME),
        "while files get their names, there is no index: %s", err.text);
    if (chdir (".."))
        abort ();
}

static void
test_stale (void)
{
    struct weights_save save;
    bool good = !mkdir ("stale", 0777) && !weights_save_begin (&save, "stale", &err);
    put_file ("stale/." SHARD ".new", "shard");
    put_file ("stale/.notes.new", "notes");
    put_file ("stale/" SHARD, "shard");
    weights_save_end (&save);
    ok (good && !path_exists ("stale/." SHARD ".new"), "files of a save that is given up go");
    ok (path_exists ("stale/.notes.new") && path_exists ("stale/" SHARD), "other files stay");
}

/* ---- checkpoints ---- */

static void
test_checkpoints (void)
{
    static const char *const names[] = { "checkpoint_10", "checkpoint_9", "checkpoint_2" };
    struct checkpoint_list list;
    mkdir ("list", 0777);
    for (int i = 0; i < 3; i++) { /* the least number was saved last */
        char path[64];
        AUTO_STRBUF struct strbuf text = { 0 };
        const struct manifest written = { .processes = 1, .saved_ns = 1000 + (uint64_t) i };
        snprintf (path, sizeof path, "list/%s", names[i]);
        mkdir (path, 0777);
        snprintf (path, sizeof path, "list/%s/" MANIFEST_NAME, names[i]);
        manifest_write (&written, &text);
        put_file (path, text.text);
    }
    bool good = !checkpoint_list_read (&list, "list", &err) && list.count == 3;
    for (int i = 0; good && i < 3; i++)
        good = !strcmp (list.entries[i].name, names[i]);
    ok (good, "numbered checkpoints come by their numbers, the greatest first");
    checkpoint_list_release (&list);
    struct manifest manifest;
    ok (manifest_parse (&manifest, "{}", 2, &err) == ACCEL_ERR_FORMAT && strstr (err.text, "is missing"),
        "a manifest without members: %s", err.text);
    manifest_release (&manifest);
}

/* ---- texts ---- */

static void
test_texts (void)
{
    char shown[PRINTABLE_BYTES] = "x", *text = NULL;
    const char *nothing = "", *at = nothing;
    size_t length = 0;
    accel_fail (&err, ACCEL_ERR_FORMAT, "%s", "one\r\ntwo");
    is_text (err.text, "one  two", "an error is one line");
    ok (!*printable_next (&at, shown) && at == nothing, "nothing is shown of an empty text");
    FILE *out = open_memstream (&text, &length);
    printable_put (out, "a\33[2J\n\xff\xc3\xa9");
    fclose (out);
    is_text (text, "a\\x1b[2J\\n\\xff\xc3\xa9", "control characters and bytes that are not UTF-8 are shown");
    free (text);
}

/* ---- what a rank does ---- */

static void
test_stopped (void)
{
    static struct jobseg_slot slot;
    char text[256] = "";
    int status;
    pid_t child = fork ();
    if (!child) {
        raise (SIGSTOP);
        _exit (0);
    }
    waitpid (child, &status, WUNTRACED);
    atomic_store (&slot.state, JOBSEG_READY);
    atomic_store (&slot.pid, child);
    atomic_store (&slot.pid_space, procfs_pid_space ());
    jobseg_describe (&slot, text, sizeof text);
    is_text (text, "stopped by a signal, no collective yet", "a rank that was stopped");
    kill (child, SIGKILL);
    waitpid (child, &status, 0);
    atomic_store (&slot.exited, 1);
    jobseg_describe (&slot, text, sizeof text);
    is_text (text, "computing, no collective yet", "a rank that was not");
}

/* ---- engines ---- */

static void
test_engines (void)
{
    char path[1024];
    struct engine_files files;
    mkdir ("one", 0755);
    mkdir ("two", 0755);
    put_file ("one/accel_engine_both.so", "");
    put_file ("two/accel_engine_both.so", "");
    put_file ("two/accel_engine_b_2.so", "");
    put_file ("two/accel_engine_Upper.so", "");
    put_file ("two/accel_engine_a-b.so", "");
    put_file ("two/accel_engine_shm.so", "");
    put_file ("two/accel_engine_.so", "");
    chmod ("one/accel_engine_both.so", 0644);
    chmod ("two/accel_engine_b_2.so", 0666);
    snprintf (path, sizeof path, "%s/one:%s/two", scratch_folder (), scratch_folder ());
    setenv (ENV_ENGINE_PATH, path, 1);
    bool root = !geteuid ();
    if (root && chown ("one/accel_engine_both.so", 12345, 12345))
        abort ();
    engine_files_find (&files);
    const struct engine_file *both = NULL, *b_2 = NULL;
    size_t others = 0;
    for (size_t i = 0; i < files.count; i++) {
        const struct engine_file *file = &files.items[i];
        if (strncmp (file->path, scratch_folder (), strlen (scratch_folder ())))
            continue; /* installed here */
        if (!strcmp (file->name, "both") && !both)
            both = file;
        else if (!strcmp (file->name, "b_2"))
            b_2 = file;
        else
            others++;
    }
    ok (both && strstr (both->path, "/one/"), "the first folder of a name counts");
    ok (b_2 && !others, "names have lower-case letters, digits and '_', and are not built in: %zu others", others);
    ok (b_2 && b_2->refusal && strstr (b_2->refusal, "others may write to "), "refused: %s",
        b_2 && b_2->refusal ? b_2->refusal : "(not)");
    if (root)
        ok (both && both->refusal && strstr (both->refusal, "belongs to user 12345"), "refused: %s",
            both && both->refusal ? both->refusal : "(not)");
    else
        ok (both && !both->refusal, "one's own may be loaded");
    engine_files_release (&files);
}

int
main (void)
{
    scratch_enter ();
    test_mode ();
    test_sweep ();
    test_killed ();
    test_stale ();
    test_checkpoints ();
    test_texts ();
    test_stopped ();
    test_engines ();
    return done_testing ();
}
