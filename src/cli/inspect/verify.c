/* SPDX-License-Identifier: Apache-2.0 */
/* What the manifest of a checkpoint says, and checksums; see inspect.h. */
#include <config.h>

#include "cli/inspect/inspect.h"
#include "files/manifest.h"
#include "util/cleanup.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The archives of a distributed checkpoint have a CRC for each chunk, which is compared when it is read. */
static int
verify_dcp (struct tensors *tensors, struct fail *fail)
{
    struct progress progress = { .verb = "verifying", .total = tensors->bytes };
    unsigned char first;
    int result = 0;
    for (size_t i = 0; i < tensors->count && !result; i++)
        if (tensors->items[i].bytes) {
            result = tensors_read (tensors, i, 0, &first, 1, fail);
            progress_add (&progress, tensors->items[i].bytes);
        }
    progress_end (&progress);
    return result;
}

/* All files of a checkpoint of libaccel, those without tensors too. */
static int
verify_manifest (const char *folder, struct fail *fail)
{
    struct manifest manifest;
    struct accel_error err;
    struct progress progress = { .verb = "verifying" };
    bool good = !manifest_read (&manifest, folder, &err) && !manifest_check_sizes (&manifest, folder, &err);
    for (size_t i = 0; i < manifest.count; i++)
        progress.total += manifest.files[i].bytes;
    for (size_t i = 0; good && i < manifest.count; i++) {
        good = !manifest_check_file (&manifest.files[i], folder, &err);
        progress_add (&progress, manifest.files[i].bytes);
    }
    progress_end (&progress);
    manifest_release (&manifest);
    return good ? 0 : fail_set (fail, FAIL_GENERAL, "%s", err.text);
}

/* @return whether @folder is one, and has a manifest */
static bool
has_manifest (const char *folder)
{
    AUTO_FREE char *path = text_printf ("%s/" MANIFEST_NAME, folder);
    return path && !access (path, F_OK);
}

int
inspect_verify (struct tensors *tensors, const char *path, struct findings *findings, struct fail *fail)
{
    bool manifest = !tensors->dcp && has_manifest (path);
    if (!tensors->dcp && !manifest)
        return fail_set (fail, FAIL_GENERAL, "%s: has no checksums: expected a folder with manifest.json, or a "
                         "distributed checkpoint", path);
    findings->checksums = "verified";
    return manifest ? verify_manifest (path, fail) : verify_dcp (tensors, fail);
}

char *
inspect_find_nonfinite (const char *path)
{
    struct manifest manifest;
    struct accel_error err;
    char *found = NULL;
    if (!has_manifest (path))
        return NULL;
    if (!manifest_read (&manifest, path, &err) && manifest.nonfinite)
        found = strdup (manifest.nonfinite);
    manifest_release (&manifest);
    return found;
}
