/* SPDX-License-Identifier: Apache-2.0 */
/* estimate-memory: models of the hub.  The headers of the files are all that is fetched: kilobytes, not gigabytes. */
#include <config.h>

#include "cli/estimate/estimate.h"
#include "cli/estimate/gguf.h"

#include "files/index.h"
#include "hub/hub.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/text.h"

#include <string.h>

enum {
    FIRST_BYTES = 100000, /* of a safetensors file: most headers are shorter */
    AT_ONCE = 16,         /* files; their headers are in memory at the same time */
    SHOW_AFTER_MS = 400,
    SLOWEST = 50, /* bytes in a millisecond: what is long has more time */
};

/* What is being done, on a terminal.  A file is done when its header is complete. */
struct shown {
    size_t done, count;
    int64_t begun;
    bool is_shown;
};

struct job {
    struct hub hub;
    struct estimate_model *model;
    const char *name; /* of the repository */
    struct hub_model info;
    struct shown shown;
};

static void
note_answer (void *data, size_t number)
{
    struct shown *shown = data;
    (void) number;
    shown->done++;
    if (clock_ms () - shown->begun < SHOW_AFTER_MS || !isatty (STDERR_FILENO))
        return;
    shown->is_shown = true;
    fprintf (stderr, "\rreading headers: %zu of %zu files\33[K", shown->done, shown->count);
}

static void
hide (struct shown *shown)
{
    if (shown->is_shown)
        fputs ("\r\33[K", stderr);
    shown->is_shown = false;
}

/* A file of the main folder. */
static bool
has_file (const struct job *job, const char *name)
{
    for (size_t i = 0; i < job->info.files.count; i++)
        if (!strcmp (job->info.files.items[i], name))
            return true;
    return false;
}

/* ---- fetching ---- */

/* A few files of the repository at once, whole or their beginnings.  The caller releases @responses, [count]. */
static int
fetch (struct job *job, const char *const *files, size_t count, const struct http_request *like,
       struct http_response *responses, struct fail *fail)
{
    struct http_request requests[AT_ONCE];
    int result = 0;
    size_t made = 0;
    for (; made < count; made++) {
        requests[made] = like[made];
        requests[made].bearer = job->hub.token;
        requests[made].url = hub_file_url (&job->hub, job->name, files[made]);
        if (!requests[made].url) {
            result = fail_nomem (fail);
            break;
        }
    }
    if (job->shown.count < job->shown.done + count)
        job->shown.count = job->shown.done + count;
    if (!result)
        result = http_perform (job->hub.http, requests, responses, count, fail);
    for (size_t i = 0; i < count && !result; i++)
        if (responses[i].status == 416 && !requests[i].range_first) { /* an empty file has no first byte */
            strbuf_truncate (&responses[i].body, 0);
            responses[i].total = 0;
        } else if (responses[i].status != 200 && responses[i].status != 206)
            result = hub_refuse (&job->hub, job->name, files[i], &responses[i], fail);
    while (made-- > 0)
        free ((char *) (uintptr_t) requests[made].url);
    return result;
}

static void
release_all (struct http_response *responses, size_t count)
{
    for (size_t i = 0; i < count; i++)
        http_response_release (&responses[i]);
}

/* ---- safetensors ---- */

static uint64_t
header_length (const struct http_response *response)
{
    uint64_t length = 0;
    for (unsigned i = 0; i < SAFETENSORS_LENGTH_BYTES && response->body.length >= SAFETENSORS_LENGTH_BYTES; i++)
        length |= (uint64_t) (unsigned char) response->body.text[i] << 8 * i;
    return length;
}

/* Fetch what the first bytes do not have of a header. */
static int
complete (struct job *job, const char *file, struct http_response *response, struct fail *fail)
{
    uint64_t length = header_length (response), have = response->body.length;
    uint64_t wanted = SAFETENSORS_LENGTH_BYTES + length;
    struct http_response rest = { 0 };
    if (have < SAFETENSORS_LENGTH_BYTES || length > SAFETENSORS_MAX_HEADER || wanted > response->total)
        return fail_set (fail, FAIL_GENERAL, "model '%s': %s is not a safetensors file, or is truncated", job->name,
                         file);
    if (have >= wanted)
        return 0;
    const struct http_request request = { .range_first = have, .range_length = wanted - have,
                                          .total_ms = HTTP_TOTAL_MS + (int64_t) (wanted / SLOWEST) };
    job->shown.done--;
    int result = fetch (job, &file, 1, &request, &rest, fail);
    if (!result)
        strbuf_add_bytes (&response->body, rest.body.text ? rest.body.text : "", rest.body.length);
    if (!result && response->body.failed)
        result = fail_nomem (fail);
    if (!result && response->body.length != wanted)
        result = fail_set (fail, FAIL_GENERAL, "model '%s': %s: the server sent %zu of %llu bytes of the header",
                           job->name, file, response->body.length, (unsigned long long) wanted);
    http_response_release (&rest);
    return result;
}

static int
check_entries (const struct index *index, size_t number, const struct safetensors *header, struct fail *fail)
{
    for (size_t i = 0; index && i < index->count; i++)
        if (index->entries[i].file_number == number && !safetensors_find (header, index->entries[i].name))
            return fail_set (fail, FAIL_GENERAL, "tensor '%.80s' is missing, though the index has it",
                             index->entries[i].name);
    return 0;
}

static int
add_header (struct job *job, const char *file, struct http_response *response, const struct index *index,
            size_t number, struct fail *fail)
{
    struct safetensors header = { 0 };
    struct accel_error err = { 0 };
    if (complete (job, file, response, fail))
        return -1;
    uint64_t length = header_length (response);
    int result = 0;
    if (safetensors_parse (&header, response->body.text + SAFETENSORS_LENGTH_BYTES, (size_t) length, &err))
        result = fail_set (fail, FAIL_GENERAL, "%s", err.text);
    else if (response->total != UINT64_MAX && response->total - length - SAFETENSORS_LENGTH_BYTES != header.data_bytes)
        result = fail_set (fail, FAIL_GENERAL, "the file has %llu bytes, but its header describes %llu",
                           (unsigned long long) response->total,
                           (unsigned long long) (header.data_bytes + length + SAFETENSORS_LENGTH_BYTES));
    else
        result = check_entries (index, number, &header, fail);
    if (!result)
        result = estimate_add_safetensors (job->model, &header, fail);
    else
        fail_prefix (fail, "model '%s': %s", job->name, file);
    safetensors_release (&header);
    return result;
}

static int
read_shards (struct job *job, const struct index *index, struct fail *fail)
{
    int result = 0;
    job->shown.count = job->shown.done + index->file_count;
    for (size_t first = 0; first < index->file_count && !result; first += AT_ONCE) {
        size_t count = index->file_count - first < AT_ONCE ? index->file_count - first : AT_ONCE;
        struct http_response responses[AT_ONCE] = { 0 };
        struct http_request requests[AT_ONCE] = { 0 };
        for (size_t i = 0; i < count; i++)
            requests[i].range_length = FIRST_BYTES;
        result = fetch (job, (const char *const *) &index->files[first], count, requests, responses, fail);
        for (size_t i = 0; i < count && !result; i++) {
            result = add_header (job, index->files[first + i], &responses[i], index, first + i, fail);
            http_response_release (&responses[i]); /* a header may have 100 MB */
        }
        release_all (responses, count);
    }
    return result;
}

static int
read_index (struct job *job, const char *file, const struct http_response *response, struct fail *fail)
{
    struct index index;
    struct accel_error err = { 0 };
    int result = index_parse (&index, response->body.text ? response->body.text : "", response->body.length, &err)
                     ? fail_set (fail, FAIL_GENERAL, "model '%s': %s: %s", job->name, file, err.text)
                     : read_shards (job, &index, fail);
    index_release (&index);
    return result;
}

static int
read_config (struct job *job, const struct http_response *response, struct fail *fail)
{
    if (estimate_read_config (job->model, "config.json", response->body.text ? response->body.text : "",
                              response->body.length, fail))
        return fail_prefix (fail, "model '%s'", job->name);
    return 0;
}

static int
read_total (struct job *job, const char *file, const struct http_response *response, struct fail *fail)
{
    const struct strbuf *body = &response->body;
    if (estimate_read_total (job->model, file, body->text ? body->text : "", body->length, fail))
        return fail_prefix (fail, "model '%s'", job->name);
    return 0;
}

/* The configuration and the weights, or their index, in one go. */
static int
read_files (struct job *job, const char *file, struct fail *fail)
{
    bool is_index = text_ends_in (file, ".json"), has_config = has_file (job, "config.json");
    struct http_response responses[2] = { 0 };
    const struct http_request requests[2]
        = { { .range_length = is_index ? 0 : FIRST_BYTES, .most = INDEX_MAX_BYTES }, { 0 } };
    const char *const files[2] = { file, "config.json" };
    int result = fetch (job, files, 1u + has_config, requests, responses, fail);
    if (!result && has_config)
        result = read_config (job, &responses[1], fail);
    if (!result)
        result = text_ends_in (file, ".bin.index.json") ? read_total (job, file, &responses[0], fail)
                 : is_index                        ? read_index (job, file, &responses[0], fail)
                                                   : add_header (job, file, &responses[0], NULL, 0, fail);
    release_all (responses, 2);
    return result;
}

/* ---- GGUF ---- */

/* Fetch @length bytes of a header, of which some are there.  @return 1: that is all there is */
static int
fetch_more (struct job *job, const char *file, uint64_t length, struct strbuf *header, uint64_t *size,
            struct fail *fail)
{
    struct http_response response = { 0 };
    const struct http_request request = { .range_first = header->length, .range_length = length - header->length,
                                          .total_ms = HTTP_TOTAL_MS + (int64_t) (length / SLOWEST) };
    job->shown.done -= header->length > 0;
    int result = fetch (job, &file, 1, &request, &response, fail);
    if (!result) {
        *size = response.total;
        strbuf_add_bytes (header, response.body.text ? response.body.text : "", response.body.length);
        result = header->failed ? fail_nomem (fail) : header->length < length || header->length == *size;
    }
    http_response_release (&response);
    return result;
}

static int
read_part (struct job *job, struct gguf_parts *parts, const char *file, struct fail *fail)
{
    AUTO_STRBUF struct strbuf header = { 0 };
    bool is_short = true;
    int result = -1;
    for (uint64_t length = GGUF_FIRST, size; is_short; length *= GGUF_GROWTH) {
        int fetched = fetch_more (job, file, length, &header, &size, fail);
        if (fetched < 0)
            return -1;
        result = gguf_add (job->model, parts, file, &header, size, &is_short, fail);
        is_short = is_short && !fetched && length < GGUF_MAX_HEADER;
    }
    return result ? fail_prefix (fail, "model '%s'", job->name) : 0;
}

static int
read_gguf (struct job *job, const char *file, struct fail *fail)
{
    struct gguf_parts parts = { .count = 1 };
    for (; parts.part < parts.count; parts.part++) {
        AUTO_STRBUF struct strbuf name = { 0 };
        if (!gguf_part_name (file, parts.part, &name, &parts.count))
            return fail_nomem (fail);
        job->shown.count = parts.count;
        if (read_part (job, &parts, name.text, fail))
            return -1;
    }
    return gguf_end (&parts, file, fail);
}

/* ---- which files ---- */

static int
refuse_files (const struct job *job, struct fail *fail)
{
    for (size_t i = 0; i < job->info.files.count; i++) {
        const char *file = job->info.files.items[i];
        if (text_ends_in (file, ".bin") || text_ends_in (file, ".bin.index.json") || text_ends_in (file, ".h5")
            || text_ends_in (file, ".msgpack"))
            return fail_set (fail, FAIL_GENERAL, "model '%s' has no safetensors files, only %s, whose tensors are not "
                             "known without loading it: ask its authors to convert it, or use a copy in safetensors",
                             job->name, file);
    }
    return fail_set (fail, FAIL_GENERAL, "model '%s' was to be read%s%s, but has no safetensors or GGUF file",
                     job->name, job->model->library ? " with " : "", job->model->library ? job->model->library : "");
}

static int
choose_gguf (struct job *job, const char *first, size_t count, struct fail *fail)
{
    if (count == 1)
        return read_gguf (job, first, fail);
    return fail_set (fail, FAIL_GENERAL, "model '%s' has %zu GGUF files: name one, such as %s/%s", job->name, count,
                     job->name, first);
}

static int
choose (struct job *job, struct fail *fail)
{
    static const char *const usual[] = { WEIGHTS_NAME, WEIGHTS_INDEX_NAME };
    const char *index = NULL, *only = NULL, *gguf = NULL;
    size_t gguf_count = 0, weights_count = 0;
    for (size_t i = 0; i < 2; i++)
        if (has_file (job, usual[i]))
            return read_files (job, usual[i], fail);
    for (size_t i = 0; i < job->info.files.count; i++) {
        const char *file = job->info.files.items[i];
        unsigned parts;
        AUTO_STRBUF struct strbuf first = { 0 };
        bool is_inside = strchr (file, '/') != NULL;
        if (!is_inside && text_ends_in (file, ".safetensors.index.json"))
            index = file;
        else if (!is_inside && text_ends_in (file, ".safetensors") && !weights_count++)
            only = file;
        else if (text_ends_in (file, ".gguf") && gguf_part_name (file, 0, &first, &parts) && !strcmp (first.text, file)
                 && !gguf_count++)
            gguf = file;
    }
    if (!index && weights_count > 1)
        return fail_set (fail, FAIL_GENERAL, "model '%s' has %zu safetensors files (%s ...) and no index: download it "
                         "and name one of them", job->name, weights_count, only);
    if (index || only)
        return read_files (job, index ? index : only, fail);
    if (!gguf && has_file (job, ESTIMATE_TOTAL_NAME))
        return read_files (job, ESTIMATE_TOTAL_NAME, fail);
    return gguf ? choose_gguf (job, gguf, gguf_count, fail) : refuse_files (job, fail);
}

static int
check_library (struct job *job, const struct settings *settings, struct fail *fail)
{
    struct estimate_model *model = job->model;
    const char *library = settings->library_name ? settings->library_name : job->info.library;
    if (!library)
        return fail_set (fail, FAIL_GENERAL, "model '%s' has no library metadata on the hub: give --library_name "
                         "(transformers or timm)", job->name);
    if (!(model->library = strdup (library)))
        return fail_nomem (fail);
    if (!strcmp (library, "transformers") && !has_file (job, "config.json") && job->info.files.count)
        return fail_set (fail, FAIL_GENERAL, "model '%s' was to be read with transformers, but has no config.json",
                         job->name);
    return 0;
}

static int
read_online (struct job *job, const struct settings *settings, const char *file, struct fail *fail)
{
    if (file)
        return read_gguf (job, file, fail);
    for (size_t i = 0; i < job->info.files.count && !settings->library_name && !job->info.library; i++)
        if (text_ends_in (job->info.files.items[i], ".gguf"))
            return choose (job, fail);
    return check_library (job, settings, fail) || choose (job, fail) ? -1 : 0;
}

/* What the cache has, if the hub cannot be asked. @return 1: nothing */
static int
read_cached (struct job *job, const struct settings *settings, const char *file, struct fail *fail)
{
    AUTO_FREE char *folder = hub_cached (&job->hub, job->name);
    AUTO_STRBUF struct strbuf path = { 0 };
    if (!folder)
        return 1;
    strbuf_printf (&path, "%s%s%s", folder, file ? "/" : "", file ? file : "");
    if (settings->library_name && !(job->model->library = strdup (settings->library_name)))
        return fail_nomem (fail);
    if (path.failed)
        return fail_nomem (fail);
    if (estimate_read_local (job->model, path.text, true, fail))
        return -1;
    job->model->source = "cache";
    return 0;
}

static int
read_model (struct job *job, const struct settings *settings, const char *file, struct fail *fail)
{
    enum http_trouble trouble = HTTP_FINE;
    struct fail unused = { 0 };
    if (job->hub.is_offline) {
        int result = read_cached (job, settings, file, fail);
        return result <= 0 ? result
                           : fail_set (fail, FAIL_GENERAL,
                                       "HF_HUB_OFFLINE is set, and model '%s' is not in the cache (%s)", job->name,
                                       job->hub.cache);
    }
    job->model->source = "hub";
    int result = hub_model (&job->hub, job->name, &job->info, &trouble, fail);
    job->shown.done = 0; /* that was not a file of the model */
    if (!result)
        return read_online (job, settings, file, fail);
    if (trouble == HTTP_NO_HOST || trouble == HTTP_NO_CONNECTION || trouble == HTTP_TIMED_OUT) {
        int cached = read_cached (job, settings, file, &unused);
        if (cached <= 0) {
            if (cached) {
                *fail = unused;
                fail_prefix (fail, "cannot reach the hub, and cannot use the cache");
            }
            return cached;
        }
        fail_prefix (fail, "cannot reach the hub, and model '%s' is not in the cache", job->name);
    }
    return result;
}

int
estimate_read_hub (struct estimate_model *model, const struct settings *settings, const char *name, struct fail *fail)
{
    AUTO_FREE char *repository = strdup (name);
    struct job job = { .model = model, .shown = { .count = 1, .begun = clock_ms () } };
    const struct http_options options = { .stop_fd = -1, .data = &job.shown, .answered = note_answer };
    const char *file = NULL;
    if (!repository)
        return fail_nomem (fail);
    char *slash = strchr (repository, '/');
    if (slash && (slash = strchr (slash + 1, '/')) && text_ends_in (slash, ".gguf")) {
        *slash = '\0';
        file = slash + 1;
    }
    if (!hub_is_name (repository) || (file && strstr (file, "..")))
        return fail_set (fail, FAIL_GENERAL,
                         "'%s' is neither a file or folder nor the name of a model (NAME or ORG/NAME)", name);
    job.name = repository;
    int result = hub_open (&job.hub, &options, fail);
    if (!result)
        result = read_model (&job, settings, file, fail);
    hide (&job.shown);
    hub_model_release (&job.info);
    hub_close (&job.hub);
    return result;
}
