/* SPDX-License-Identifier: Apache-2.0 */
/* estimate-memory: models in local files and folders. */
#include <config.h>

#include "cli/estimate/estimate.h"
#include "cli/estimate/gguf.h"

#include "files/weights.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/text.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_CONFIG = 4 << 20 };

/* ---- GGUF ---- */

static int
read_part (struct estimate_model *model, struct gguf_parts *parts, const char *path, struct fail *fail)
{
    struct source source;
    struct accel_error err = { 0 };
    int result = -1;
    bool is_short = true;
    if (source_open (&source, path, &err))
        return fail_set (fail, FAIL_GENERAL, "%s", err.text);
    for (uint64_t length = GGUF_FIRST; is_short; length *= GGUF_GROWTH) {
        uint64_t wanted = length < source.size ? length : source.size;
        AUTO_FREE char *bytes = malloc ((size_t) wanted + 1);
        const struct strbuf header = { .text = bytes, .length = (size_t) wanted };
        is_short = false;
        if (!bytes)
            fail_nomem (fail);
        else if (source_read (&source, 0, bytes, (size_t) wanted, &err))
            fail_set (fail, FAIL_GENERAL, "%s", err.text);
        else
            result = gguf_add (model, parts, path, &header, source.size, &is_short, fail);
        is_short = is_short && wanted < source.size && length < GGUF_MAX_HEADER;
    }
    source_close (&source);
    return result;
}

static int
read_gguf (struct estimate_model *model, const char *path, struct fail *fail)
{
    struct gguf_parts parts = { .count = 1 };
    model->source = "file";
    for (; parts.part < parts.count; parts.part++) {
        AUTO_STRBUF struct strbuf name = { 0 };
        if (!gguf_part_name (path, parts.part, &name, &parts.count))
            return fail_nomem (fail);
        if (read_part (model, &parts, name.text, fail))
            return -1;
    }
    return gguf_end (&parts, path, fail);
}

/* ---- safetensors ---- */

static int
read_weights (struct estimate_model *model, const char *path, bool follow_links, struct fail *fail)
{
    struct weights weights;
    struct accel_error err = { 0 };
    int result = 0;
    if (weights_open (&weights, path, follow_links, &err))
        result = fail_set (fail, FAIL_GENERAL, "%s", err.text);
    for (size_t i = 0; i < weights.file_count && !result; i++)
        result = estimate_add_safetensors (model, &weights.files[i].header, fail);
    weights_close (&weights);
    return result;
}

/* Of the folder of @path. */
static int
read_config (struct estimate_model *model, const char *folder, struct fail *fail)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    AUTO_FREE char *text = NULL;
    size_t length;
    strbuf_printf (&path, "%s/config.json", folder);
    if (path.failed)
        return fail_nomem (fail);
    if (access (path.text, F_OK))
        return 0;
    if (io_read_file (path.text, MOST_CONFIG, &text, &length, fail)
        || estimate_read_config (model, path.text, text, length, fail))
        return -1;
    model->config.path = NULL;
    return 0;
}

static int
read_total (struct estimate_model *model, const char *path, struct fail *fail)
{
    AUTO_FREE char *text = NULL;
    size_t length;
    return io_read_file (path, INDEX_MAX_BYTES, &text, &length, fail)
                   || estimate_read_total (model, path, text, length, fail)
               ? -1
               : 0;
}

/* ---- folders ---- */

struct found {
    char *safetensors, *index, *gguf, *pickled; /* names; of the first in the alphabet */
    unsigned safetensors_count, gguf_count;
};

static void
keep_first (char **kept, const char *name)
{
    if (*kept && strcmp (*kept, name) <= 0)
        return;
    free (*kept);
    *kept = strdup (name);
}

static void
note_name (struct found *found, const char *name)
{
    unsigned count;
    AUTO_STRBUF struct strbuf first = { 0 };
    if (text_ends_in (name, ".safetensors.index.json"))
        keep_first (&found->index, name);
    else if (text_ends_in (name, ".safetensors")) {
        keep_first (&found->safetensors, name);
        found->safetensors_count++;
    } else if (text_ends_in (name, ".gguf") && gguf_part_name (name, 0, &first, &count) && !strcmp (first.text, name)) {
        keep_first (&found->gguf, name);
        found->gguf_count++;
    } else if (text_ends_in (name, ".bin") || text_ends_in (name, ".pt") || text_ends_in (name, ".pth"))
        keep_first (&found->pickled, name);
}

static int
choose (struct estimate_model *model, const char *folder, const struct found *found, bool follow_links,
        struct fail *fail)
{
    AUTO_STRBUF struct strbuf path = { 0 };
    const char *name = found->index ? found->index : found->safetensors ? found->safetensors : found->gguf;
    strbuf_printf (&path, "%s/%s", folder, name ? name : ESTIMATE_TOTAL_NAME);
    if (path.failed)
        return fail_nomem (fail);
    if (!name && found->pickled && !access (path.text, F_OK))
        return read_total (model, path.text, fail);
    if (!name && found->pickled)
        return fail_set (fail, FAIL_GENERAL, "%s: has only pickled weights (%s), whose tensors are not known without "
                         "loading them; convert them to safetensors", folder, found->pickled);
    if (!name && estimate_has_architecture (model))
        return estimate_build (model, fail) ? fail_prefix (fail, "%s", folder) : 0;
    if (!name)
        return fail_set (fail, FAIL_GENERAL, "%s: has no safetensors or GGUF file", folder);
    if (!found->index && (found->safetensors ? found->safetensors_count : found->gguf_count) > 1)
        return fail_set (fail, FAIL_GENERAL, "%s: has more than one model, such as %s; name the file", folder, name);
    if (found->index || found->safetensors)
        return read_weights (model, path.text, follow_links, fail);
    return read_gguf (model, path.text, fail);
}

static int
read_folder (struct estimate_model *model, const char *folder, bool follow_links, struct fail *fail)
{
    struct found found = { 0 };
    DIR *dir = opendir (folder);
    int result;
    if (!dir)
        return fail_set (fail, FAIL_GENERAL, "%s: %s", folder, strerror (errno));
    for (struct dirent *entry; (entry = readdir (dir));)
        note_name (&found, entry->d_name);
    closedir (dir);
    /* The usual names come before others. */
    AUTO_STRBUF struct strbuf usual = { 0 };
    strbuf_printf (&usual, "%s/" WEIGHTS_NAME, folder);
    result = read_config (model, folder, fail);
    if (!result && !usual.failed && !access (usual.text, F_OK))
        result = read_weights (model, usual.text, follow_links, fail);
    else if (!result)
        result = choose (model, folder, &found, follow_links, fail);
    free (found.safetensors);
    free (found.index);
    free (found.gguf);
    free (found.pickled);
    return result;
}

int
estimate_read_local (struct estimate_model *model, const char *path, bool follow_links, struct fail *fail)
{
    struct stat info;
    if (stat (path, &info))
        return fail_set (fail, FAIL_GENERAL, "%s: %s", path, strerror (errno));
    model->source = "folder";
    if (S_ISDIR (info.st_mode))
        return read_folder (model, path, follow_links, fail);
    if (text_ends_in (path, ".gguf"))
        return read_gguf (model, path, fail);
    AUTO_FREE char *folder = strdup (path);
    if (!folder)
        return fail_nomem (fail);
    char *slash = strrchr (folder, '/');
    if (slash)
        *slash = '\0';
    model->source = "file";
    if (read_config (model, slash ? (*folder ? folder : "/") : ".", fail))
        return -1;
    return text_ends_in (path, ".bin.index.json") ? read_total (model, path, fail)
                                             : read_weights (model, path, follow_links, fail);
}
