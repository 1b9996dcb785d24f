/* SPDX-License-Identifier: Apache-2.0 */
/* Several token files as one data set: samples within and across files, a bounded number of open files, threads, files
 * that are broken or change, patterns, and llm.c's order. */
#include <config.h>

#include "tests/unit/data/datasets.h"

#include "lib/data/loader.h"
#include "lib/data/datasets/set_tokens.h"

#include <accel/loader.h>
#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <sys/stat.h>

enum { FILES = 3, LENGTH = 4, TOKENS = 100 };

static const size_t counts[FILES] = { 25, 41, 34 }; /* tokens: 0 to 99 in all */
static char paths[FILES][PATH_MAX];
static const char *path_list[FILES];

/* Files s_0.bin to s_2.bin; the tokens of all are consecutive numbers. */
static void
write_shards (bool header)
{
    uint16_t token = 0;
    for (size_t f = 0; f < FILES; f++) {
        char bytes[1024 + 2 * 64] = { 0 }, name[16];
        size_t at = header ? 1024 : 0;
        memcpy (bytes, (int32_t[]){ 20240520, 1, (int32_t) counts[f] }, header ? 12 : 0);
        for (size_t i = 0; i < counts[f]; i++, token++, at += 2)
            memcpy (bytes + at, &token, 2);
        snprintf (name, sizeof name, "s_%zu.bin", f);
        snprintf (paths[f], sizeof paths[f], "%s", write_file (name, bytes, at));
        path_list[f] = paths[f];
    }
}

static const char *
in_scratch (const char *text)
{
    static char full[PATH_MAX];
    snprintf (full, sizeof full, "%s/%s", scratch_folder (), text);
    return full;
}

static size_t
count_descriptors (void)
{
    size_t count = 0;
    DIR *list = opendir ("/proc/self/fd");
    for (const struct dirent *entry; list && (entry = readdir (list));)
        if (*entry->d_name != '.') {
            char target[PATH_MAX] = "", link[64];
            snprintf (link, sizeof link, "/proc/self/fd/%.20s", entry->d_name);
            count += readlink (link, target, sizeof target - 1) > 0 && strstr (target, scratch_folder ());
        }
    if (list)
        closedir (list);
    return count;
}

static void
test_samples (void)
{
    static const struct {
        bool across, labels;
        size_t stride, samples;
        int32_t first[4]; /* tokens of the samples before, in and after the first gap */
        size_t from;
    } cases[] = {
        { false, true, 0, 6 + 10 + 8, { 16, 20, 25, 29 }, 4 },
        { false, false, 0, 6 + 10 + 8, { 16, 20, 25, 29 }, 4 },
        { false, false, 3, 8 + 13 + 11, { 18, 21, 25, 28 }, 6 },
        { true, true, 0, 24, { 16, 20, 24, 28 }, 4 },
        { true, false, 0, 25, { 16, 20, 24, 28 }, 4 },
        { true, true, 1, 96, { 21, 22, 23, 24 }, 21 },
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int form = 0; form < 8; form++) {
            struct accel_tokens_options options = { .format = form & 1 ? ACCEL_TOKENS_LLMC : ACCEL_TOKENS_UINT16,
                                                    .mapped = form & 2, .int64 = form & 4, .open_files = 1,
                                                    .sequence_length = LENGTH, .stride = cases[c].stride,
                                                    .labels = cases[c].labels, .across_files = cases[c].across };
            struct accel_dataset *set;
            size_t wrong = 0;
            write_shards (form & 1);
            bool good = !accel_dataset_open_tokens (&set, path_list, FILES, &options, &err)
                        && set->size == cases[c].samples;
            for (size_t i = 0; good && i < 4; i++) {
                int64_t rows[2][LENGTH];
                good = !set->read_many (set->user, (int64_t[]){ (int64_t) (cases[c].from + i) }, 1,
                                        (void *[]){ rows[0], rows[1] }, &err);
                for (int64_t j = 0; good && j < LENGTH; j++)
                    for (int64_t field = 0; field < 1 + cases[c].labels; field++) {
                        int64_t got = form & 4 ? rows[field][j] : ((int32_t *) rows[field])[j];
                        wrong += got != cases[c].first[i] + j + field;
                    }
            }
            ok (good && !wrong, "samples %s files, stride %zu%s%s%s%s", cases[c].across ? "across" : "within",
                cases[c].stride, cases[c].labels ? ", labels" : "", form & 1 ? ", llm.c's" : "",
                form & 2 ? ", mapped" : "", form & 4 ? ", int64" : "");
            if (!good || wrong)
                diag ("%zu samples, %zu wrong, %s", set ? set->size : 0, wrong, err.text);
            accel_dataset_close (set);
        }
}

/* A sample may cover several files. */
static void
test_long_samples (void)
{
    struct accel_tokens_options options = { .sequence_length = TOKENS - 1, .labels = true, .across_files = true };
    int32_t ids[TOKENS - 1], labels[TOKENS - 1];
    struct accel_dataset *set;
    size_t wrong = 0;
    write_shards (false);
    bool good = !accel_dataset_open_tokens (&set, path_list, FILES, &options, &err) && set->size == 1
                && !set->read (set->user, 0, (void *[]){ ids, labels }, &err);
    for (int32_t i = 0; good && i < TOKENS - 1; i++)
        wrong += ids[i] != i || labels[i] != i + 1;
    ok (good && !wrong, "one sample over all files");
    accel_dataset_close (set);
}

static void
test_open_files (void)
{
    for (unsigned open = 1; open <= 3; open++) {
        struct accel_tokens_options options = { .sequence_length = LENGTH, .open_files = open };
        struct accel_dataset *set;
        int32_t ids[LENGTH];
        size_t most = 0, wrong = 0;
        write_shards (false);
        bool good = !accel_dataset_open_tokens (&set, path_list, FILES, &options, &err);
        ok (good && !count_descriptors (), "no file is open before the first sample");
        for (size_t i = 0; good && i < 200; i++) {
            size_t sample = i * 7 % set->size;
            wrong += set->read (set->user, sample, (void *[]){ ids }, &err) != ACCEL_OK;
            most = count_descriptors () > most ? count_descriptors () : most;
        }
        ok (good && !wrong && most == open, "open_files %u: at most %zu are open", open, most);
        accel_dataset_close (set);
        ok (!count_descriptors (), "open_files %u: closed, none is", open);
    }
}

/* The file that was used for longest ago is closed first: one that is used all the time stays open. */
static void
test_least_recently_used (void)
{
    struct accel_tokens_options options = { .sequence_length = LENGTH, .open_files = 2 };
    struct accel_dataset *set;
    int32_t ids[LENGTH];
    write_shards (false);
    bool good = !accel_dataset_open_tokens (&set, path_list, FILES, &options, &err);
    static const size_t order[] = { 0, 6, 0, 16 }; /* files 0, 1, 0, 2 */
    for (size_t i = 0; good && i < 4; i++)
        good = !set->read (set->user, order[i], (void *[]){ ids }, &err);
    unlink (paths[0]);
    unlink (paths[1]);
    ok (good && !set->read (set->user, 1, (void *[]){ ids }, &err) && ids[0] == 4, "the file in use is still open");
    ok (good && set->read (set->user, 6, (void *[]){ ids }, &err) == ACCEL_ERR_SYSTEM && strstr (err.text, "s_1.bin"),
        "the other one was closed, and is gone: %s", err.text);
    accel_dataset_close (set);
}

struct reader {
    pthread_t thread;
    const struct accel_dataset *set;
    size_t first, wrong;
};

static void *
read_all (void *user)
{
    struct reader *reader = user;
    int32_t ids[LENGTH], labels[LENGTH];
    for (size_t i = 0; i < 4000; i++) {
        struct accel_error own;
        size_t index = (reader->first + i * 5) % reader->set->size;
        int32_t first = (int32_t) (index < 6 ? 4 * index : index < 16 ? 25 + 4 * (index - 6) : 66 + 4 * (index - 16));
        reader->wrong += reader->set->read (reader->set->user, index, (void *[]){ ids, labels }, &own)
                         || ids[0] != first || labels[LENGTH - 1] != first + LENGTH;
    }
    return NULL;
}

static void
test_threads (void)
{
    struct accel_tokens_options options = { .sequence_length = LENGTH, .labels = true, .open_files = 2 };
    struct reader readers[4];
    struct accel_dataset *set;
    write_shards (false);
    size_t wrong = accel_dataset_open_tokens (&set, path_list, FILES, &options, &err) != 0, made;
    for (made = 0; !wrong && made < 4; made++) {
        readers[made] = (struct reader){ .set = set, .first = made * 9 };
        if (pthread_create (&readers[made].thread, NULL, read_all, &readers[made]))
            break;
    }
    for (size_t i = 0; i < made; i++) {
        pthread_join (readers[i].thread, NULL);
        wrong += readers[i].wrong;
    }
    ok (made == 4 && !wrong, "4 threads, 3 files, of which 2 stay open: %zu wrong samples", wrong);
    ok (count_descriptors () <= 2, "and then 2 are open");
    accel_dataset_close (set);
}

/* What is written in place of s_1.bin before the set is opened. */
static void
test_broken (void)
{
    static const struct {
        int32_t header[3];
        size_t bytes; /* of the file, with the header */
        const char *words;
    } cases[] = {
        { { 0 }, 0, "s_1.bin: not an llm.c token file: shorter than its header" },
        { { 20240520, 1, 0 }, 1023, "s_1.bin: not an llm.c token file: shorter than its header" },
        { { 20240520, 1, 0 }, 1024, "s_1.bin: has no tokens" },
        { { 20240520, 1, 8 }, 1024 + 14, "s_1.bin: its header says 8 tokens, but the file has 7" },
        { { 20240520, 1, 7 }, 1024 + 16, "s_1.bin: its header says 7 tokens, but the file has 8" },
        { { 20240520, 1, 8 }, 1024 + 15, "s_1.bin: 15 bytes are not a whole number" },
        { { 20240520, 1, -8 }, 1024 + 16, "s_1.bin: invalid header: -8 tokens" },
        { { 20240520, 2, 8 }, 1024 + 16, "s_1.bin: llm.c token file of version 2" },
        { { 20240522, 1, 8 }, 1024 + 16, "s_1.bin: not an llm.c token file: starts with 20240522" },
        { { 20240801, 7, 8 }, 1024 + 32, "s_1.bin: has tokens of 32 bits, but " },
        { { 0x00088b1f, 1, 8 }, 1024 + 16, "s_1.bin: not an llm.c token file: starts with" },
    };
    struct accel_tokens_options options = { .format = ACCEL_TOKENS_LLMC, .sequence_length = LENGTH };
    struct accel_dataset *set;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[1100] = { 0 };
        memcpy (bytes, cases[i].header, sizeof cases[i].header);
        write_shards (true);
        write_file ("s_1.bin", bytes, cases[i].bytes);
        is_refused ("broken", accel_dataset_open_tokens (&set, path_list, FILES, &options, &err), &set,
                    cases[i].words);
    }
    unlink (paths[1]);
    is_refused ("missing", accel_dataset_open_tokens (&set, path_list, FILES, &options, &err), &set,
                "s_1.bin: No such file");
    ok (!mkdir (paths[1], 0700), "a folder");
    is_refused ("a folder", accel_dataset_open_tokens (&set, path_list, FILES, &options, &err), &set,
                "s_1.bin: is not a regular file");
    rmdir (paths[1]);
    write_shards (false);
    options.format = ACCEL_TOKENS_UINT16;
    write_file ("s_1.bin", "", 0);
    is_refused ("empty", accel_dataset_open_tokens (&set, path_list, FILES, &options, &err), &set,
                "s_1.bin: has no tokens");
    write_file ("s_1.bin", "abc", 3);
    is_refused ("odd", accel_dataset_open_tokens (&set, path_list, FILES, &options, &err), &set,
                "s_1.bin: 3 bytes are not a whole number");
    write_shards (false);
    options.sequence_length = 50;
    is_refused ("too short", accel_dataset_open_tokens (&set, path_list, FILES, &options, &err), &set,
                "s_0.bin and the files after it: no complete sample: each needs 50 tokens");
    options.sequence_length = 40;
    ok (!accel_dataset_open_tokens (&set, path_list, FILES, &options, &err) && set->size == 1,
        "files shorter than a sample have none");
    accel_dataset_close (set);
    is_refused ("no files", accel_dataset_open_tokens (&set, path_list, 0, &options, &err), &set, "is empty");
    is_refused ("no files", accel_dataset_open_tokens (&set, NULL, 1, &options, &err), &set, "is empty");
    is_refused ("NULL", open_tokens (&set, NULL, &options), &set,
                "path 0 is NULL or empty");
    is_refused ("options", accel_dataset_open_tokens (&set, path_list, FILES, NULL, &err), &set,
                "sequence_length");
}

/* Changes after opening, before the first read and after it, while the file is open. */
static void
test_changes (void)
{
    static const char *const words[] = { "has 60 bytes now, but had 82", "has 90 bytes now, but had 82",
                                         "s_1.bin: was modified after", "s_1.bin: No such file",
                                         "s_1.bin: was modified after" };
    for (int change = 0; change < 5; change++)
        for (int read_before = 0; read_before < 2; read_before++) {
            struct accel_tokens_options options = { .sequence_length = LENGTH };
            struct timespec times[2] = { { 1000000000, 7 }, { 1000000000, 7 } };
            struct accel_dataset *set;
            int32_t ids[LENGTH];
            if (change == 3 && read_before) /* an open file outlives its name */
                continue;
            write_shards (false);
            bool good = !accel_dataset_open_tokens (&set, path_list, FILES, &options, &err);
            good = good && (!read_before || !set->read (set->user, 7, (void *[]){ ids }, &err));
            bool changed = change < 2    ? !truncate (paths[1], change ? 90 : 60)
                           : change == 2 ? !utimensat (AT_FDCWD, paths[1], times, 0)
                           : change == 3 ? !unlink (paths[1])
                                         : true;
            if (change == 4) {
                int fd = open (paths[1], O_WRONLY);
                changed = fd >= 0 && pwrite (fd, "x", 1, 0) == 1 && !futimens (fd, times) && !close (fd);
            }
            ok (good && changed && set->read (set->user, 7, (void *[]){ ids }, &err)
                    && strstr (err.text, words[change]),
                "%s: %s", read_before ? "open" : "not open", words[change]);
            ok (good && !set->read (set->user, 16, (void *[]){ ids }, &err) && ids[0] == 66, "the next file is fine");
            accel_dataset_close (set);
        }
}

static void
test_patterns (void)
{
    struct accel_tokens_options options = { .sequence_length = LENGTH };
    struct accel_dataset *set;
    int32_t ids[LENGTH];
    write_shards (false);
    bool good = !open_tokens (&set, in_scratch ("s_[0-9].bin"), &options) && set->size == 24;
    ok (good && !set->read (set->user, 16, (void *[]){ ids }, &err) && ids[0] == 66, "a pattern, sorted by name");
    accel_dataset_close (set);
    /* In many locales, B is after a. */
    write_file ("s_B.bin", (uint16_t[]){ 500, 501, 502, 503 }, 8);
    write_file ("s_a.bin", (uint16_t[]){ 600, 601, 602, 603 }, 8);
    good = !open_tokens (&set, in_scratch ("s_[Ba]*"), &options) && set->size == 2;
    ok (good && !set->read (set->user, 0, (void *[]){ ids }, &err) && ids[0] == 500, "a pattern, in byte order");
    accel_dataset_close (set);
    unlink (in_scratch ("s_B.bin"));
    unlink (in_scratch ("s_a.bin"));
    is_refused ("pattern", open_tokens (&set, in_scratch ("t_*.bin"), &options), &set,
                "t_*.bin: no file matches this pattern");
    is_refused ("pattern", open_tokens (&set, in_scratch ("*/x"), &options), &set,
                "no file matches");
    is_refused ("a plain name", open_tokens (&set, in_scratch ("s_7.bin"), &options), &set,
                "s_7.bin: No such file");
    set = (struct accel_dataset *) (void *) &options; /* what it was is gone */
    is_refused ("no pattern", open_tokens (&set, NULL, &options), &set,
                "path 0 is NULL");
    /* A list of both, and a file whose name is a pattern that would match others. */
    char other[PATH_MAX];
    snprintf (other, sizeof other, "%s", write_file ("s_[2].bin", (uint16_t[]){ 700, 701, 702, 703 }, 8));
    const char *mixed[] = { other, paths[2], in_scratch ("s_[01].bin") };
    good = !accel_dataset_open_tokens (&set, mixed, 3, &options, &err) && set->size == 1 + 8 + 6 + 10;
    ok (good && !set->read (set->user, 0, (void *[]){ ids }, &err) && ids[0] == 700, "a file named like a pattern");
    ok (good && !set->read (set->user, 1, (void *[]){ ids }, &err) && ids[0] == 66, "then a file");
    ok (good && !set->read (set->user, 9, (void *[]){ ids }, &err) && ids[0] == 0, "then a pattern");
    accel_dataset_close (set);
    unlink (other);
    if (geteuid ()) {
        ok (!mkdir (in_scratch ("locked"), 0), "a folder that cannot be read");
        is_refused ("pattern", open_tokens (&set, in_scratch ("locked/*.bin"), &options), &set,
                    "cannot read the folder");
        rmdir (in_scratch ("locked"));
    }
}

static void
test_description (void)
{
    struct accel_tokens_options options = { .sequence_length = LENGTH };
    static const char *const swapped[] = { paths[1], paths[0], paths[2] };
    char texts[4][192], bytes[100] = { 0 };
    struct accel_dataset *set;
    write_shards (false);
    for (int i = 0; i < 4; i++) {
        options.across_files = i == 1;
        if (i == 3) { /* one token moves to the next file */
            write_file ("s_0.bin", bytes, 2 * (counts[0] - 1));
            write_file ("s_1.bin", bytes, 2 * (counts[1] + 1));
        }
        bool good = !accel_dataset_open_tokens (&set, i == 2 ? swapped : path_list, FILES, &options, &err);
        token_files_describe (good ? set : NULL, texts[i], sizeof texts[i]);
        accel_dataset_close (set);
    }
    ok (!strncmp (texts[0], "3 files, s_0.bin to s_2.bin, 100 tokens, hash ", 46), "described: %s", texts[0]);
    ok (strcmp (texts[0], texts[1]) && strcmp (texts[0], texts[2]) && strcmp (texts[0], texts[3]),
        "samples across files, another order and other sizes differ");
    token_files_describe (NULL, texts[0], sizeof texts[0]);
    is_text (texts[0], "none", "no data set");
}

/* ---- llm.c's order ---- */

/* The first input token of each batch in two epochs over these files: printed by llm.c's own DataLoader (commit
 * f1e2ace, its seed is 42) with T = 4. */
static const struct llmc_case {
    size_t processes, batch_size, rank;
    bool shuffle;
    size_t count;
    int32_t first[48];
} llmc_cases[] = {
    { 1, 1, 0, 0, 48, {
      0, 4, 8, 12, 16, 20, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61, 66, 70, 74, 78, 82, 86, 90, 94, 0, 4, 8, 12, 16,
      20, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61, 66, 70, 74, 78, 82, 86, 90, 94 } },
    { 1, 1, 0, 1, 48, {
      70, 78, 74, 94, 90, 66, 86, 82, 61, 57, 33, 45, 29, 25, 53, 49, 41, 37, 0, 20, 8, 16, 4, 12, 90, 82, 66, 94,
      74, 78, 70, 86, 41, 33, 37, 49, 29, 57, 25, 61, 53, 45, 16, 4, 20, 12, 8, 0 } },
    { 1, 2, 0, 0, 24, {
      0, 8, 16, 25, 33, 41, 49, 57, 66, 74, 82, 90, 0, 8, 16, 25, 33, 41, 49, 57, 66, 74, 82, 90 } },
    { 1, 2, 0, 1, 24, {
      82, 90, 74, 66, 33, 49, 41, 57, 25, 8, 0, 16, 16, 8, 0, 90, 74, 82, 66, 49, 25, 33, 57, 41 } },
    { 2, 1, 0, 0, 24, {
      0, 8, 16, 25, 33, 41, 49, 57, 66, 74, 82, 90, 0, 8, 16, 25, 33, 41, 49, 57, 66, 74, 82, 90 } },
    { 2, 1, 1, 0, 24, {
      4, 12, 20, 29, 37, 45, 53, 61, 70, 78, 86, 94, 4, 12, 20, 29, 37, 45, 53, 61, 70, 78, 86, 94 } },
    { 2, 1, 0, 1, 24, {
      82, 90, 74, 66, 33, 49, 41, 57, 25, 8, 0, 16, 16, 8, 0, 90, 74, 82, 66, 49, 25, 33, 57, 41 } },
    { 2, 1, 1, 1, 24, {
      70, 86, 78, 94, 12, 4, 20, 29, 45, 53, 61, 37, 29, 45, 37, 53, 61, 86, 78, 70, 94, 20, 12, 4 } },
    { 2, 2, 0, 0, 10, { 0, 25, 41, 66, 82, 0, 25, 41, 66, 82 } },
    { 2, 2, 1, 0, 10, { 8, 33, 49, 74, 90, 8, 33, 49, 74, 90 } },
    { 2, 2, 0, 1, 10, { 82, 66, 41, 25, 0, 0, 41, 25, 82, 66 } },
    { 2, 2, 1, 1, 10, { 74, 90, 8, 33, 49, 49, 33, 74, 90, 8 } },
    { 3, 1, 0, 0, 14, { 0, 12, 25, 37, 49, 66, 78, 0, 12, 25, 37, 49, 66, 78 } },
    { 3, 1, 1, 0, 14, { 4, 16, 29, 41, 53, 70, 82, 4, 16, 29, 41, 53, 70, 82 } },
    { 3, 1, 2, 0, 14, { 8, 20, 33, 45, 57, 74, 86, 8, 20, 33, 45, 57, 74, 86 } },
    { 3, 1, 0, 1, 14, { 78, 66, 49, 25, 37, 0, 12, 12, 0, 66, 78, 49, 25, 37 } },
    { 3, 1, 1, 1, 14, { 70, 82, 4, 16, 53, 29, 41, 29, 53, 41, 4, 16, 82, 70 } },
    { 3, 1, 2, 1, 14, { 8, 20, 74, 86, 57, 45, 33, 74, 86, 8, 20, 45, 33, 57 } },
    { 3, 2, 0, 0, 6, { 0, 25, 66, 0, 25, 66 } },
    { 3, 2, 1, 0, 6, { 8, 33, 74, 8, 33, 74 } },
    { 3, 2, 2, 0, 6, { 16, 41, 82, 16, 41, 82 } },
    { 3, 2, 0, 1, 6, { 66, 25, 0, 0, 66, 25 } },
    { 3, 2, 1, 1, 6, { 74, 8, 33, 74, 8, 33 } },
    { 3, 2, 2, 1, 6, { 16, 82, 41, 16, 41, 82 } },
};

static void
check_llmc (const struct llmc_case *row, const struct accel_dataset *set, bool split)
{
    struct accel_sampler *sampler;
    struct accel_loader *loader = NULL;
    struct accel_sampler_options options = { .shuffle = row->shuffle ? ACCEL_YES : ACCEL_NO };
    const struct accel_batch *batch;
    size_t got = 0, wrong = 0;
    bool good = !accel_sampler_create_llmc (&sampler, set, &options, &err);
    struct accel_loader_options loading = {
        .batch_size = row->batch_size * (split ? row->processes : 1), .split_batches = split, .sampler = sampler,
    };
    good = good && !accel_loader_create (&loader, set, &loading, &err)
           && !loader_share (loader, NULL, row->processes, row->rank, &err)
           && 2 * accel_loader_length (loader) == row->count;
    for (int epoch = 0; epoch < 2 && good; epoch++)
        while (accel_loader_next (loader, &batch, &err)) {
            const int32_t *ids = accel_batch_tensor (batch, "input_ids")->data;
            wrong += got >= row->count || accel_batch_size (batch) != row->batch_size || ids[0] != row->first[got]
                     || ids[LENGTH * row->batch_size - 1] != ids[0] + (int32_t) (LENGTH * row->batch_size) - 1;
            got++;
        }
    ok (good && got == row->count && !wrong, "llm.c's order: rank %zu of %zu, %zu samples each%s%s", row->rank,
        row->processes, row->batch_size, row->shuffle ? ", shuffled" : "", split ? ", split_batches" : "");
    accel_loader_destroy (loader);
    accel_sampler_destroy (sampler);
}

static void
test_llmc (void)
{
    struct accel_tokens_options options
        = { .format = ACCEL_TOKENS_LLMC, .sequence_length = LENGTH, .labels = true };
    struct accel_dataset *set;
    struct accel_sampler *sampler;
    int64_t indices[64];
    write_shards (true);
    ok (!open_tokens (&set, in_scratch ("s_*.bin"), &options), "llm.c's files");
    for (size_t i = 0; i < sizeof llmc_cases / sizeof *llmc_cases; i++)
        for (int split = 0; split < 2; split++)
            check_llmc (&llmc_cases[i], set, split);
    ok (!accel_sampler_create_llmc (&sampler, set, NULL, &err) && accel_sampler_length (sampler) == 24
            && !accel_sampler_draw (sampler, indices, &err) && indices[0] == 0 && indices[23] == 23,
        "without a loader: one sample at a time, in order");
    accel_sampler_destroy (sampler);
    static const uint64_t seeds[] = { 42, 0, 43 };
    int64_t orders[3][24];
    for (size_t i = 0; i < 3; i++) {
        const struct accel_sampler_options seeded = { .shuffle = ACCEL_YES, .seed = seeds[i] };
        ok (!accel_sampler_create_llmc (&sampler, set, &seeded, &err) && !accel_sampler_draw (sampler, orders[i], &err),
            "seed %d", (int) seeds[i]);
        accel_sampler_destroy (sampler);
    }
    ok (!memcmp (orders[0], orders[1], sizeof *orders) && memcmp (orders[0], orders[2], sizeof *orders),
        "seed 0 is 42, and 43 is another");
    ok (accel_sampler_create_llmc (&sampler, set, &(struct accel_sampler_options){ .num_samples = 1 }, &err)
            == ACCEL_ERR_INVALID,
        "options of other samplers: %s", err.text);
    accel_dataset_close (set);
    options.across_files = true;
    ok (!open_tokens (&set, in_scratch ("s_*.bin"), &options)
            && accel_sampler_create_llmc (&sampler, set, NULL, &err) == ACCEL_ERR_INVALID && !sampler,
        "not if samples cross files: %s", err.text);
    accel_dataset_close (set);
    options.across_files = false;
    ok (!open_tokens (&set, paths[1], &options)
            && !accel_sampler_create_llmc (&sampler, set, NULL, &err) && accel_sampler_length (sampler) == 10,
        "one file");
    accel_sampler_destroy (sampler);
    struct accel_dataset other = *set;
    other.read_many = NULL;
    ok (accel_sampler_create_llmc (&sampler, &other, NULL, &err) == ACCEL_ERR_INVALID
            && accel_sampler_create_llmc (&sampler, NULL, NULL, &err) == ACCEL_ERR_INVALID,
        "no other data sets: %s", err.text);
    accel_dataset_close (set);
}

/* A sampler that several loaders share is shaped by the one that draws. */
static void
test_shared_sampler (void)
{
    struct accel_tokens_options options = { .sequence_length = LENGTH, .labels = true };
    struct accel_dataset *set;
    struct accel_sampler *sampler = NULL;
    struct accel_loader *loaders[2] = { NULL, NULL };
    const struct accel_batch *batch;
    write_shards (false);
    bool good = !accel_dataset_open_tokens (&set, path_list, FILES, &options, &err)
                && !accel_sampler_create_llmc (&sampler, set, NULL, &err);
    for (size_t i = 0; good && i < 2; i++) {
        struct accel_loader_options loading = { .batch_size = i ? 4 : 3, .sampler = sampler };
        good = !accel_loader_create (&loaders[i], set, &loading, &err);
    }
    ok (good, "two loaders share a sampler%s%s", good ? "" : ": ", good ? "" : err.text);
    for (size_t i = 0; good && i < 2; i++) {
        size_t batches = 0;
        while (accel_loader_next (loaders[i], &batch, &err))
            batches += accel_batch_size (batch) == (i ? 4 : 3);
        ok (batches == (i ? 1 + 2 + 2 : 2 + 3 + 2), "a shared sampler: %zu batches of %d", batches, i ? 4 : 3);
    }
    for (size_t i = 0; i < 2; i++)
        accel_loader_destroy (loaders[i]);
    accel_sampler_destroy (sampler);
    accel_dataset_close (set);
}

int
main (void)
{
    test_samples ();
    test_long_samples ();
    test_open_files ();
    test_least_recently_used ();
    test_threads ();
    test_broken ();
    test_changes ();
    test_patterns ();
    test_description ();
    test_llmc ();
    test_shared_sampler ();
    return done_testing ();
}
