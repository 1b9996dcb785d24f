/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate merge-weights: a sharded checkpoint becomes one safetensors file.  One piece of memory, or one tensor of a
 * distributed checkpoint, is held at a time. */
#include <config.h>

#include "cli/command.h"
#include "cli/inspect/tensors.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "config/load.h"
#include "files/safetensors_writer.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

enum {
    PIECE_BYTES = 4 << 20,
    DESCRIPTORS = 16, /* of nftw() */
};

/* ---- Ctrl-C: the unfinished file must go ---- */

static volatile sig_atomic_t caught;

static void
catch (int number)
{
    caught = number;
}

static void
catch_signals (void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = catch }, old;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!sigaction (numbers[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaction (numbers[i], &action, NULL);
}

/* ---- what may be written where ---- */

static int
check_words (const struct settings *settings, const struct strlist *words, struct fail *fail)
{
    struct stat info;
    if (words->count < 2)
        return fail_set (fail, FAIL_USAGE, "missing %s: accelerate merge-weights CHECKPOINT_DIR OUTPUT_DIR",
                         words->count ? "OUTPUT_DIR" : "CHECKPOINT_DIR");
    if (settings->unsafe_serialization)
        return fail_set (fail, FAIL_USAGE, "--unsafe_serialization: pickled weights (pytorch_model.bin) are not "
                         "written, because loading such a file can execute code; leave the option out to get "
                         "model.safetensors");
    if (settings->remove_checkpoint_dir && !lstat (words->items[0], &info) && !S_ISDIR (info.st_mode))
        return fail_set (fail, FAIL_GENERAL, "--remove_checkpoint_dir: %s is not a folder", words->items[0]);
    return 0;
}

/* Removing the checkpoint must not remove the result, nor the root. */
static int
check_removal (const char *checkpoint, const char *output, struct fail *fail)
{
    AUTO_FREE char *from = realpath (checkpoint, NULL);
    AUTO_FREE char *to = realpath (output, NULL);
    if (!from || !to)
        return fail_set (fail, FAIL_GENERAL, "%s: %s", from ? output : checkpoint, strerror (errno));
    size_t length = strlen (from);
    if (!strncmp (to, from, length) && (!to[length] || to[length] == '/' || length == 1))
        return fail_set (fail, FAIL_GENERAL, "--remove_checkpoint_dir would remove the output, too: %s is in %s",
                         output, checkpoint);
    return 0;
}

static int
make_folder (const char *path, struct fail *fail)
{
    struct stat info;
    AUTO_STRBUF struct strbuf inside = { 0 };
    strbuf_printf (&inside, "%s/", path);
    if (inside.failed)
        return fail_nomem (fail);
    if (!stat (path, &info) && !S_ISDIR (info.st_mode))
        return fail_set (fail, FAIL_GENERAL, "%s: is not a folder", path);
    return io_make_parents (inside.text, fail);
}

/* ---- merging ---- */

static int
check_tensors (const struct tensors *tensors, const char *path, struct fail *fail)
{
    const struct strlist *objects = tensors->dcp ? &tensors->dcp->dcp.objects : NULL;
    if (objects && objects->count)
        return fail_set (fail, FAIL_GENERAL, "%s: '%s'%s not a tensor, and safetensors stores only tensors%s", path,
                         objects->items[0], objects->count > 1 ? " and other entries are" : " is",
                         objects->count > 1 ? " (is this an optimizer's checkpoint?)" : "");
    if (!tensors->count)
        return fail_set (fail, FAIL_GENERAL, "%s: has no tensors", path);
    return 0;
}

static int
write_tensor (struct tensors *tensors, size_t number, struct safetensors_writer *writer, unsigned char *piece,
              struct progress *progress, struct fail *fail)
{
    struct accel_error err = { 0 };
    uint64_t bytes = tensors->items[number].bytes;
    for (uint64_t done = 0; done < bytes;) {
        size_t length = bytes - done < PIECE_BYTES ? (size_t) (bytes - done) : PIECE_BYTES;
        if (tensors_read (tensors, number, done, piece, length, fail))
            return -1;
        if (safetensors_writer_write (writer, number, piece, length, &err))
            return fail_set (fail, FAIL_GENERAL, "%s", err.text);
        if (caught)
            return fail_set (fail, FAIL_BY_SIGNAL + caught, "interrupted by %s; nothing was written",
                             strsignal (caught));
        done += length;
        progress_add (progress, length);
    }
    return 0;
}

static int
write_tensors (struct tensors *tensors, struct safetensors_writer *writer, struct fail *fail)
{
    struct accel_error err = { 0 };
    struct progress progress = { .verb = "merging", .total = tensors->bytes };
    AUTO_FREE unsigned char *piece = malloc (PIECE_BYTES);
    int result = piece ? 0 : fail_nomem (fail);
    for (size_t i = 0; i < tensors->count && !result; i++)
        result = write_tensor (tensors, safetensors_writer_order (writer, i), writer, piece, &progress, fail);
    progress_end (&progress);
    if (!result && safetensors_writer_commit (writer, &err))
        result = fail_set (fail, FAIL_GENERAL, "%s", err.text);
    return result;
}

/* The metadata of the first shard that has some; otherwise what Accelerate writes. */
static void
choose_metadata (const struct tensors *tensors, struct safetensors_plan *plan)
{
    static char format[] = "format", pt[] = "pt";
    static const struct safetensors_pair pair = { format, pt };
    plan->metadata = &pair;
    plan->pairs = 1;
    for (size_t i = 0; tensors->set_count && i < tensors->sets[0].file_count; i++) {
        const struct safetensors *header = &tensors->sets[0].files[i].header;
        if (header->pairs) {
            plan->metadata = header->metadata;
            plan->pairs = header->pairs;
            return;
        }
    }
}

static int
merge (struct tensors *tensors, const char *path, struct fail *fail)
{
    struct accel_error err = { 0 };
    struct safetensors_writer *writer = NULL;
    struct safetensors_plan plan = { .count = tensors->count };
    AUTO_FREE struct safetensors_entry *entries = calloc (tensors->count, sizeof *entries);
    if (!entries)
        return fail_nomem (fail);
    for (size_t i = 0; i < tensors->count; i++)
        entries[i] = (struct safetensors_entry){ tensors->items[i].name, tensors->items[i].dtype,
                                                 tensors->items[i].ndim, tensors->items[i].shape };
    plan.entries = entries;
    choose_metadata (tensors, &plan);
    catch_signals ();
    int result = safetensors_writer_create (&writer, path, &plan, &err) ? fail_set (fail, FAIL_GENERAL, "%s", err.text)
                                                                        : write_tensors (tensors, writer, fail);
    safetensors_writer_destroy (writer);
    return result;
}

/* ---- afterwards ---- */

static int
remove_one (const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void) info, (void) kind, (void) ftw;
    return remove (path);
}

static int
remove_folder (const char *path, struct fail *fail)
{
    if (nftw (path, remove_one, DESCRIPTORS, FTW_DEPTH | FTW_PHYS))
        return fail_set (fail, FAIL_GENERAL, "the weights are merged, but %s cannot be removed: %s", path,
                         strerror (errno));
    return 0;
}

static int
run (struct config *config, struct tensors *tensors, int argc, char **argv, struct fail *fail)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    const struct settings *settings = &config->settings;
    if (config_load_command (config, COMMAND_MERGE_WEIGHTS, argc, argv, 2, fail)
        || check_words (settings, &config->words, fail))
        return -1;
    const char *from = config->words.items[0], *to = config->words.items[1];
    if (tensors_open (tensors, from, TENSORS_OF_MODEL, settings->follow_links, fail)
        || check_tensors (tensors, from, fail) || make_folder (to, fail)
        || (settings->remove_checkpoint_dir && check_removal (from, to, fail)))
        return -1;
    strbuf_printf (&path, "%s/" WEIGHTS_NAME, to);
    if (path.failed)
        return fail_nomem (fail);
    if (merge (tensors, path.text, fail))
        return -1;
    if (settings->remove_checkpoint_dir && remove_folder (from, fail))
        return -1;
    print_line ("saved in ", path.text, "");
    return 0;
}

int
cmd_merge_weights (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    struct tensors tensors = { 0 };
    int status = run (&config, &tensors, argc, argv, fail);
    tensors_close (&tensors);
    return status;
}
