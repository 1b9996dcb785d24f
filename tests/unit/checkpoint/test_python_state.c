/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of Hugging Face Accelerate's save_state: what it saved is loaded, and training continues as it did there. */
#include <config.h>

#include "files/zip.h"
#include "tests/ranks.h"
#include "tests/scratch.h"

#include <accel/accel.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 37, TENSORS = 3, BEFORE = 7, AFTER = 5, DRAWS = 3, PATH_ROOM = 1024 };

static struct accel_error err;
static char golden[PATH_ROOM]; /* folder of the golden data */

/* A job with the model of make_save_state_goldens.py. */
struct world {
    struct accel *acc;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler; /* may be NULL */
    int64_t shapes[TENSORS];
    DLTensor data[TENSORS], grads[TENSORS];
    float values[COUNT], gradients[COUNT];
    bool is_frozen[TENSORS];
};

static const int firsts[TENSORS + 1] = { 0, 25, 36, COUNT };

static double
fall (void *user, uint64_t step)
{
    (void) user;
    return 1 - (double) step / 20;
}

static bool
make_optimizer (struct world *world, const char *name, enum accel_status *status)
{
    static const struct accel_param_group groups[] = { { .name = "first", .match = "a" },
                                                       { .name = "rest", .match = "b,c" } };
    if (!strcmp (name, "adamw") || !strcmp (name, "fresh"))
        *status = accel_optimizer_create (&world->optimizer, world->model, ACCEL_ADAMW,
                                          &(struct accel_optimizer_options){ .lr = 0.3 }, &err);
    else if (!strcmp (name, "amsgrad"))
        *status = accel_optimizer_create (&world->optimizer, world->model, ACCEL_ADAM,
                                     &(struct accel_optimizer_options){ .lr = 0.3, .amsgrad = true }, &err);
    else if (!strcmp (name, "adagrad"))
        *status = accel_optimizer_create (&world->optimizer, world->model, ACCEL_ADAGRAD, NULL, &err);
    else if (!strcmp (name, "rmsprop"))
        *status = accel_optimizer_create (&world->optimizer, world->model, ACCEL_RMSPROP,
                                          &(struct accel_optimizer_options){ .momentum = 0.1, .centered = true }, &err);
    else
        *status = accel_optimizer_create (&world->optimizer, world->model, ACCEL_SGD,
                                    &(struct accel_optimizer_options){ .lr = 0.3, .momentum = 0.1, .groups = groups,
                                                         .group_count = 2 }, &err);
    return !*status;
}

static enum accel_status
make_scheduler (struct world *world, const char *name)
{
    struct accel_scheduler_options step = { .schedule = ACCEL_SCHEDULE_STEP, .step_size = 3, .gamma = 0.5 };
    struct accel_scheduler_options lambda = { .schedule = ACCEL_SCHEDULE_LAMBDA, .lambda = fall };
    if (strcmp (name, "adamw") != 0 && strcmp (name, "groups") != 0)
        return ACCEL_OK;
    enum accel_status status = accel_scheduler_create (&world->scheduler, world->optimizer,
                                                       strcmp (name, "adamw") ? &lambda : &step, &err);
    return status ? status : accel_prepare (world->acc, &err, world->scheduler);
}

/* @param name  the case; everything is as there, but the numbers
 * @param acc   of a rank; NULL: this process opens a job of its own */
static bool
begin_in (struct accel *acc, struct world *world, const char *name)
{
    static const char *const names[TENSORS] = { "a", "b", "c" };
    struct accel_parameter parameters[TENSORS];
    enum accel_status status;
    *world = (struct world){ .acc = acc, .shapes = { 5, 5, 11 }, .is_frozen = { [1] = !strcmp (name, "amsgrad") } };
    for (int i = 0; i < TENSORS; i++) {
        world->data[i] = (DLTensor){ .data = world->values + firsts[i], .device = { kDLCPU, 0 }, .ndim = 2 - i,
                                     .dtype = accel_dtype_to_dl (ACCEL_FLOAT32), .shape = world->shapes + 2 * !!i };
        world->grads[i] = world->data[i];
        world->grads[i].data = world->gradients + firsts[i];
        parameters[i] = (struct accel_parameter){ names[i], &world->data[i],
                                                  world->is_frozen[i] ? NULL : &world->grads[i] };
    }
    bool good = (acc || !accel_open (&world->acc, NULL, &err))
                && !accel_model_create (&world->model, parameters, TENSORS, &err)
                && make_optimizer (world, name, &status)
                && !accel_prepare (world->acc, &err, world->model, world->optimizer) && !make_scheduler (world, name);
    if (!good)
        diag ("%s: %s", name, err.text);
    return good;
}

static bool
begin (struct world *world, const char *name)
{
    return begin_in (NULL, world, name);
}

static void
free_objects (struct world *world)
{
    accel_scheduler_destroy (world->scheduler);
    accel_optimizer_destroy (world->optimizer);
    accel_model_destroy (world->model);
}

static void
end (struct world *world)
{
    free_objects (world);
    accel_close (world->acc);
}

static bool
train (struct world *world, int from, int to)
{
    bool good = true;
    for (int step = from; step < to && good; step++) {
        for (int i = 0; i < COUNT; i++)
            world->gradients[i] = (float) ((7 * i + 13 * step) % 29 - 14) / 8;
        good = !accel_optimizer_step (world->optimizer, &err)
               && (!world->scheduler || !accel_scheduler_step (world->scheduler, &err));
    }
    return good;
}

static enum accel_status
load (struct world *world, const char *name)
{
    char folder[PATH_ROOM + 64];
    snprintf (folder, sizeof folder, "%s/%s", golden, name);
    return accel_load_state (world->acc, folder, &err);
}

/* The line of results.txt: draws, and parameters after the training. */
static bool
read_results (const char *name, double *numbers)
{
    char path[PATH_ROOM + 64], word[64] = "";
    int got = 0;
    snprintf (path, sizeof path, "%s/results.txt", golden);
    FILE *in = fopen (path, "r");
    while (in && strcmp (word, name) && fscanf (in, "%63s", word) == 1)
        continue;
    while (in && got < DRAWS + COUNT && fscanf (in, "%63s", word) == 1)
        numbers[got++] = strtod (word, NULL);
    if (in)
        fclose (in);
    return got == DRAWS + COUNT;
}

/* The same operations in another order may differ in the last bits; as test_trajectory.c has it. */
static int
count_different (const struct world *world, const double *wanted)
{
    int bad = 0;
    for (int i = 0; i < COUNT; i++)
        bad += !(fabs ((double) world->values[i] - wanted[i]) <= 1e-6 * (1 + fabs (wanted[i])));
    return bad;
}

/* ---- the registered object ---- */

static bool got_all;

static enum accel_status
save_nothing (void *user, struct accel_state_dict *state, struct accel_error *error)
{
    (void) user, (void) state, (void) error;
    return ACCEL_OK;
}

static enum accel_status
load_counter (void *user, const struct accel_state_dict *state, struct accel_error *error)
{
    int64_t count = 0, second = 0, on = 0;
    double rate = 0;
    const char *word = "";
    float numbers[3] = { 0 };
    int64_t shape[] = { 3 };
    DLTensor tensor = { .data = numbers, .device = { kDLCPU, 0 }, .ndim = 1, .shape = shape,
                        .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    (void) user;
    got_all = !accel_state_dict_get_int64 (state, "count", &count, error) && count == 3
              && !accel_state_dict_get_double (state, "rate", &rate, error) && rate == 0.5
              && !accel_state_dict_get_text (state, "word", &word, error) && !strcmp (word, "abc")
              && !accel_state_dict_get_int64 (state, "on", &on, error) && on == 1
              && !accel_state_dict_get_int64 (state, "inner.list.1", &second, error) && second == 2
              && !accel_state_dict_get_tensor (state, "tensor", &tensor, error) && numbers[2] == 3
              && !accel_state_dict_has (state, "none");
    return ACCEL_OK;
}

static void
test_case (const char *name, int before)
{
    struct world world;
    double wanted[DRAWS + COUNT];
    bool draws = true;
    bool good = begin (&world, name) && read_results (name, wanted);
    if (good && !strcmp (name, "adamw")) {
        const struct accel_checkpoint_object object = { .save = save_nothing, .load = load_counter };
        good = !accel_register_for_checkpointing (world.acc, &object, &err);
    }
    ok (good && !load (&world, name), "%s: the folder is loaded: %s", name, err.text);
    for (int i = 0; i < DRAWS; i++)
        draws = draws && (double) accel_generator_uniform (accel_default_generator ()) == wanted[i];
    ok (draws, "%s: the next random numbers are torch's", name);
    good = train (&world, before, before + AFTER);
    int different = count_different (&world, wanted + DRAWS);
    ok (good && !different, "%s: %d more steps have the same results", name, AFTER);
    if (different)
        diag ("%d numbers differ; the last is %g, but should be %g", different, (double) world.values[COUNT - 1],
              wanted[DRAWS + COUNT - 1]);
    if (!strcmp (name, "adamw"))
        ok (got_all, "the registered object gets values of Python by their names");
    end (&world);
}

/* ---- what does not fit ---- */

static void
test_refusals (void)
{
    static const struct {
        const char *what, *made, *loaded, *words;
    } cases[] = {
        { "another kind of optimizer", "adamw", "groups", "has 1 parameter groups, but the file has 2" },
        { "Adam for AdamW", "fresh", "amsgrad", "not the state of PyTorch's AdamW" },
        { "more parameter groups", "groups", "amsgrad", "has 2 parameter groups, but the file has 1" },
        { "another number of registered objects", "adamw", "adamw", "has 1 registered objects, but 0" },
        { "a scheduler that it lacks", "adamw", "fresh", "scheduler.bin" },
        { "another folder", "fresh", "../dcp/fsdp1", "manifest.json" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world world;
        bool good = begin (&world, cases[i].made);
        ok (good && load (&world, cases[i].loaded) && strstr (err.text, cases[i].words) && !strchr (err.text, '\n'),
            "%s: %s", cases[i].what, err.text);
        end (&world);
    }
}

/* Replace the first @old by @new, which is as long, in the pickle of a file, and all CRCs of the pickle. */
static bool
change_pickle (const char *path, const char *old, const char *new)
{
    static char bytes[1 << 16];
    FILE *file = fopen (path, "r+");
    size_t length = file ? fread (bytes, 1, sizeof bytes, file) : 0;
    char *begin = memmem (bytes, length, "\x80\2", 2);
    char *end = begin ? memmem (begin, length - (size_t) (begin - bytes), ".PK", 3) : NULL;
    char *at = end ? memmem (begin, (size_t) (end - begin), old, strlen (old)) : NULL;
    if (at) {
        size_t size = (size_t) (end + 1 - begin);
        uint32_t before = crc32_add (0, begin, size);
        memcpy (at, new, strlen (new));
        uint32_t after = crc32_add (0, begin, size);
        for (char *crc = bytes; (crc = memmem (crc, length - (size_t) (crc - bytes), &before, sizeof before));)
            memcpy (crc, &after, sizeof after);
        rewind (file);
    }
    bool good = at && fwrite (bytes, 1, length, file) == length;
    return file && !fclose (file) && good;
}

/* A copy of a case, with one byte of a file changed, its numbers of another type, or a file missing. */
static void
test_damage (void)
{
    char command[3 * PATH_ROOM];
    struct world world;
    snprintf (command, sizeof command, "cp -R '%s/amsgrad' steps", golden);
    bool is_changed = !system (command) && change_pickle ("steps/optimizer.bin", "FloatStorage", "ShortStorage");
    bool has_begun = begin (&world, "amsgrad");
    ok (is_changed && has_begun && accel_load_state (world.acc, "steps", &err)
            && strstr (err.text, "'step' of a parameter is not a single float32 number"),
        "steps of another type: %s", err.text);
    end (&world);
    snprintf (command, sizeof command, "cp -R '%s/amsgrad' . && printf X | dd of=amsgrad/optimizer.bin bs=1 seek=1600 "
              "conv=notrunc 2>/dev/null", golden);
    bool good = !system (command) && begin (&world, "amsgrad");
    ok (good && accel_load_state (world.acc, "amsgrad", &err) && strstr (err.text, "'state.exp_avg.a'"),
        "a damaged file is refused, and its tensor named: %s", err.text);
    ok (!system ("rm amsgrad/model.safetensors") && accel_load_state (world.acc, "amsgrad", &err)
            && strstr (err.text, "neither model.safetensors nor pytorch_model.bin"),
        "no model: %s", err.text);
    end (&world);
}

/* Numbers that options would refuse, in place of Adam's learning rate 0.02 and its second beta, 0.999. */
static void
test_numbers (void)
{
    static const struct {
        const char *what, *old, *new, *words;
    } cases[] = {
        { "a negative learning rate", "G\x3f\x94\x7a\xe1\x47\xae\x14\x7b", "G\xbf\x94\x7a\xe1\x47\xae\x14\x7b",
          "lr is -0.02, but must be at least 0 and finite" },
        { "one that is not a number", "G\x3f\x94\x7a\xe1\x47\xae\x14\x7b", "G\x7f\xf8\x01\x01\x01\x01\x01\x01",
          "lr is nan, but must be at least 0 and finite" },
        { "a beta of more than 1", "G\x3f\xef\xf7\xce\xd9\x16\x87\x2b", "G\x3f\xff\xf7\xce\xd9\x16\x87\x2b",
          "beta2 is 1.998, but must be at least 0 and less than 1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[3 * PATH_ROOM];
        struct world world;
        snprintf (command, sizeof command, "rm -rf numbers && cp -R '%s/amsgrad' numbers", golden);
        bool good = !system (command) && change_pickle ("numbers/optimizer.bin", cases[i].old, cases[i].new);
        good = begin (&world, "amsgrad") && good;
        ok (good && accel_load_state (world.acc, "numbers", &err) && strstr (err.text, "numbers/optimizer.bin: group '")
                && strstr (err.text, cases[i].words),
            "%s is refused: %s", cases[i].what, err.text);
        end (&world);
    }
}

/* A checkpoint of libaccel whose manifest is lost is incomplete, and not taken for one of Python. */
static void
test_own (void)
{
    struct accel *acc = NULL;
    struct accel_model *model = NULL;
    float value = 1;
    int64_t one = 1;
    DLTensor data = { .data = &value, .device = { kDLCPU, 0 }, .ndim = 1, .shape = &one,
                      .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
    bool good = !accel_open (&acc, NULL, &err)
                && !accel_model_create (&model, &(struct accel_parameter){ "w", &data, NULL }, 1, &err)
                && !accel_prepare (acc, &err, model) && !accel_save_state (acc, "own", &err)
                && !unlink ("own/manifest.json");
    ok (good && accel_load_state (acc, "own", &err) && strstr (err.text, "manifest.json"), "no manifest: %s", err.text);
    accel_model_destroy (model);
    accel_close (acc);
}

static void
test_scaler (void)
{
    struct world world;
    struct accel_scaler_state state = { 0 };
    setenv ("ACCELERATE_MIXED_PRECISION", "fp16", 1);
    bool good = begin (&world, "fresh");
    ok (good && !load (&world, "fresh") && accel_scaler_get_state (world.acc, &state) && state.scale == 512
            && state.growth_interval == 77,
        "the loss scale: %s", err.text);
    unsetenv ("ACCELERATE_MIXED_PRECISION");
    end (&world);
}

static void
copy_case (const char *name, const char *to)
{
    char command[3 * PATH_ROOM];
    snprintf (command, sizeof command, "mkdir -p project/checkpoints && cp -R '%s/%s' project/checkpoints/%s", golden,
              name, to);
    if (system (command))
        exit (98);
}

static bool
is_latest (const struct world *world, const char *end)
{
    const char *path = accel_checkpoint_path (world->acc);
    size_t length = path ? strlen (path) : 0;
    return length > strlen (end) && !strcmp (path + length - strlen (end), end);
}

/* A project that a Python program began: its newest folder is loaded, the next one has the next number, and none of
 * Accelerate's is removed to keep a limit. */
static void
test_automatic_naming (void)
{
    const struct accel_project_configuration configuration
        = { .project_dir = "project", .automatic_checkpoint_naming = true, .total_limit = 1 };
    struct world world;
    copy_case ("adamw", "checkpoint_9");
    copy_case ("fresh", "checkpoint_10");
    bool good = begin (&world, "fresh") && !accel_set_project_configuration (world.acc, &configuration, &err);
    ok (good && !accel_load_state (world.acc, NULL, &err) && is_latest (&world, "/checkpoints/checkpoint_10"),
        "automatic naming: the newest folder of Accelerate is loaded: %s", err.text);
    ok (good && !accel_save_state (world.acc, NULL, &err) && is_latest (&world, "/checkpoints/checkpoint_11"),
        "the next number: %s", err.text);
    ok (!access ("project/checkpoints/checkpoint_9/optimizer.bin", F_OK), "total_limit leaves Accelerate's folders");
    ok (good && !accel_load_state (world.acc, NULL, &err) && is_latest (&world, "/checkpoints/checkpoint_11"),
        "a newer one of libaccel comes before them: %s", err.text);
    unlink ("project/checkpoints/checkpoint_11/manifest.json");
    ok (good && !accel_load_state (world.acc, NULL, &err) && is_latest (&world, "/checkpoints/checkpoint_10"),
        "but not without its manifest: %s", err.text);
    end (&world);
}

/* All ranks have what one process saved; its random numbers are those of rank 0.  No schedule: each of its calls is a
 * step for each process. */
static void
continue_on_rank (struct accel *acc)
{
    struct world world;
    double wanted[DRAWS + COUNT];
    bool draws = true;
    right (begin_in (acc, &world, "amsgrad") && read_results ("amsgrad", wanted), "%s", err.text);
    rank_must (accel_set_seed (acc, 7, false, &err), &err);
    rank_must (load (&world, "amsgrad"), &err);
    for (int i = 0; i < DRAWS; i++)
        draws = draws && (double) accel_generator_uniform (accel_default_generator ()) == wanted[i];
    right (draws == !accel_process_index (acc), "the random numbers");
    right (train (&world, BEFORE, BEFORE + AFTER) && !count_different (&world, wanted + DRAWS), "the training");
    free_objects (&world);
}

static enum accel_status
read_nothing (void *user, size_t index, void *const *into, struct accel_error *error)
{
    (void) user, (void) index, (void) into, (void) error;
    return ACCEL_OK;
}

/* The warning, on standard error, names what the folder has and libaccel cannot use. */
static void
test_left_out (void)
{
    static const struct accel_field field = { .name = "x", .dtype = ACCEL_INT64 };
    const struct accel_dataset dataset = { .size = 4, .fields = &field, .field_count = 1, .read = read_nothing };
    struct accel_loader *loader = NULL;
    struct world world;
    char text[1024] = "";
    bool good = begin (&world, "fresh")
                && !accel_loader_create (&loader, &dataset, &(struct accel_loader_options){ .batch_size = 2 }, &err)
                && !accel_prepare (world.acc, &err, loader);
    int kept = dup (2), file = open ("warning", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    bool moved = kept >= 0 && dup2 (file, 2) == 2;
    good = good && !load (&world, "fresh");
    good = dup2 (kept, 2) == 2 && moved && pread (file, text, sizeof text - 1, 0) > 0 && good;
    close (kept);
    close (file);
    ok (good && strstr (text, "not restored: ") && strstr (text, "random numbers of Python")
            && strstr (text, "samplers and positions of loaders, which begin with epoch 0"),
        "a warning names what is not restored");
    diag ("%s", text);
    end (&world);
    accel_loader_destroy (loader);
}

int
main (void)
{
    const char *srcdir = getenv ("srcdir");
    char *top = realpath (srcdir ? srcdir : ".", NULL);
    snprintf (golden, sizeof golden, "%.900s/tests/golden/save_state", top ? top : ".");
    free (top);
    scratch_enter ();
    test_case ("adamw", BEFORE);
    test_case ("amsgrad", BEFORE);
    test_case ("groups", BEFORE);
    test_case ("adagrad", BEFORE);
    test_case ("rmsprop", BEFORE);
    test_case ("fresh", 0);
    test_refusals ();
    test_damage ();
    test_numbers ();
    test_own ();
    test_scaler ();
    test_automatic_naming ();
    test_left_out ();
    as_ranks (2, "two processes continue what one has saved", continue_on_rank);
    return done_testing ();
}
