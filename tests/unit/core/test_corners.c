/* SPDX-License-Identifier: Apache-2.0 */
/* Corners of utilities and of training, in one process: what progress bars and profiles look like, to the byte; several
 * models under one scale; 8-bit parameters that are long. */
#include <config.h>

#include "lib/comm/comm_private.h"
#include "lib/state/state_object.h"
#include "lib/train/optimizer/optimizer_object.h"
#include "lib/utility/profile_file.h"
#include "tests/must.h"
#include "tests/tap.h"
#include "util/jobseg.h"

#include <accel/accel.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static struct accel *acc;

/* ---- progress ---- */

static int64_t now_ms = 1000; /* 0: the clock's */
static unsigned short terminal_columns;

int __real_clock_gettime (clockid_t clock, struct timespec *now);
int __wrap_clock_gettime (clockid_t clock, struct timespec *now);
int
__wrap_clock_gettime (clockid_t clock, struct timespec *now)
{
    if (!now_ms)
        return __real_clock_gettime (clock, now);
    *now = (struct timespec){ .tv_sec = now_ms / 1000, .tv_nsec = now_ms % 1000 * 1000000 };
    return 0;
}

int __wrap_isatty (int fd);
int
__wrap_isatty (int fd)
{
    (void) fd;
    return terminal_columns > 0;
}

int __wrap_ioctl (int fd, unsigned long request, void *argument);
int
__wrap_ioctl (int fd, unsigned long request, void *argument)
{
    (void) fd;
    if (request != TIOCGWINSZ || !terminal_columns)
        return -1;
    ((struct winsize *) argument)->ws_col = terminal_columns;
    return 0;
}

/* What is written to standard error between begin_capture() and end_capture(). */
static int capture_fd = -1, usual_stderr = -1;

static void
begin_capture (void)
{
    fflush (stderr);
    usual_stderr = dup (STDERR_FILENO);
    capture_fd = memfd_create ("stderr", 0);
    dup2 (capture_fd, STDERR_FILENO);
}

static const char *
end_capture (void)
{
    static char text[4096];
    ssize_t length = pread (capture_fd, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    dup2 (usual_stderr, STDERR_FILENO);
    close (usual_stderr);
    close (capture_fd);
    return text;
}

static void
test_progress (void)
{
    struct accel_progress *progress;
    begin_capture ();
    MUST (accel_progress_create (&progress, NULL, 10, "x\ty", &err));
    accel_progress_update (progress, 4);
    now_ms += 5000;
    accel_progress_update (progress, 0);
    now_ms += 2600;
    accel_progress_update (progress, 8);
    accel_progress_close (progress);
    is_text (end_capture (),
             "x y:  40% |################                        | 4/10 [00:05<00:08, 0.80/s]\n"
             "x y: 100% |#######################################| 12/10 [00:08<00:00, 1.58/s]\n",
             "progress in lines");
    terminal_columns = 60;
    begin_capture ();
    MUST (accel_progress_create (&progress, NULL, 10, "x", &err));
    now_ms += 3725000;
    accel_progress_update (progress, 12);
    int bad = dup (STDERR_FILENO);
    const char *text = end_capture ();
    close (STDERR_FILENO);
    errno = 77;
    accel_progress_close (progress);
    int kept = errno;
    dup2 (bad, STDERR_FILENO);
    close (bad);
    is_text (text,
             "\rx:   0% |                            | 0/10 [00:00<?, ?/s]\033[K"
             "\rx: 100% |##################| 12/10 [1:02:05<00:00, 0.00/s]\033[K",
             "progress on a terminal");
    ok (kept == 77, "the end keeps errno");
    terminal_columns = 0;
}

/* ---- profiles ---- */

static void
test_profile_file (void)
{
    char path[] = "profile-XXXXXX", text[4096] = "";
    /* Call 0: rank 0 waits for rank 1.  Call 1: rank 0 is through before rank 1 comes.  Call 2: rank 0 had no
     * room, so it is unknown who was last. */
    struct profile_event first[] = {
        { .begin_ns = 10000, .end_ns = 30000, .number = 0, .line = 1, .call = JOBSEG_CALL_BARRIER },
        { .begin_ns = 40000, .end_ns = 45000, .number = 1, .line = 2, .call = JOBSEG_CALL_BARRIER },
        { .begin_ns = 10000, .end_ns = 70000, .name = 1, .kind = PROFILE_SPAN },
    };
    struct profile_event second[] = {
        { .begin_ns = 20500, .end_ns = 30000, .number = 0, .line = 1, .call = JOBSEG_CALL_BARRIER },
        { .begin_ns = 50000, .end_ns = 60000, .number = 1, .line = 2, .call = JOBSEG_CALL_BARRIER },
        { .begin_ns = 62000, .end_ns = 63000, .number = 2, .line = 3, .call = JOBSEG_CALL_BARRIER },
    };
    struct profile_event third[] = {
        { .begin_ns = 11000, .end_ns = 30000, .number = 0, .line = 1, .call = JOBSEG_CALL_BARRIER },
        { .begin_ns = 51000, .end_ns = 60000, .number = 1, .line = 2, .call = JOBSEG_CALL_BARRIER },
        { .begin_ns = 62500, .end_ns = 63000, .number = 2, .line = 3, .call = JOBSEG_CALL_BARRIER },
    };
    struct profile_part *parts = calloc (3, sizeof *parts);
    parts[0] = (struct profile_part){ .events = first, .count = 3, .dropped = 1,
                                      .names = &(struct profile_names){ 2, { "a.c", "caf\xe9 \"\x01" } } };
    parts[1] = (struct profile_part){ .events = second, .count = 3, .names = &(struct profile_names){ 1, { "a.c" } } };
    parts[2] = (struct profile_part){ .events = third, .count = 3, .names = &(struct profile_names){ 1, { "a.c" } } };
    int fd = mkstemp (path);
    MUST (profile_write (path, parts, 3, &err));
    close (fd);
    FILE *file = fopen (path, "r");
    for (size_t length = 0; file && fgets (text + length, (int) (sizeof text - length), file);)
        if (strstr (text + length, "\"M\"")) /* names of processes and threads */
            text[length] = '\0';
        else
            length += strlen (text + length);
    if (file)
        fclose (file);
    unlink (path);
    is_text (text,
             "[\n"
             "{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":0.000,\"dur\":20.000"
             ",\"name\":\"accel_comm_barrier\",\"cat\":\"collective\",\"args\":"
             "{\"at\":\"a.c:1\",\"count\":0,\"number\":0}},\n"
             "{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":0.000,\"dur\":10.500"
             ",\"name\":\"wait for rank 1\",\"cat\":\"wait\"},\n"
             "{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":30.000,\"dur\":5.000"
             ",\"name\":\"accel_comm_barrier\",\"cat\":\"collective\",\"args\":"
             "{\"at\":\"a.c:2\",\"count\":0,\"number\":1}},\n"
             "{\"ph\":\"X\",\"pid\":0,\"tid\":1,\"ts\":0.000,\"dur\":60.000"
             ",\"name\":\"caf? \\\"\\u0001\",\"cat\":\"span\"},\n"
             "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":10.500,\"dur\":9.500"
             ",\"name\":\"accel_comm_barrier\",\"cat\":\"collective\",\"args\":"
             "{\"at\":\"a.c:1\",\"count\":0,\"number\":0}},\n"
             "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":40.000,\"dur\":10.000"
             ",\"name\":\"accel_comm_barrier\",\"cat\":\"collective\",\"args\":"
             "{\"at\":\"a.c:2\",\"count\":0,\"number\":1}},\n"
             "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":40.000,\"dur\":1.000"
             ",\"name\":\"wait for rank 2\",\"cat\":\"wait\"},\n"
             "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":52.000,\"dur\":1.000"
             ",\"name\":\"accel_comm_barrier\",\"cat\":\"collective\",\"args\":"
             "{\"at\":\"a.c:3\",\"count\":0,\"number\":2}},\n"
             "{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"ts\":1.000,\"dur\":19.000"
             ",\"name\":\"accel_comm_barrier\",\"cat\":\"collective\",\"args\":"
             "{\"at\":\"a.c:1\",\"count\":0,\"number\":0}},\n"
             "{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"ts\":1.000,\"dur\":9.500"
             ",\"name\":\"wait for rank 1\",\"cat\":\"wait\"},\n"
             "{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"ts\":41.000,\"dur\":9.000"
             ",\"name\":\"accel_comm_barrier\",\"cat\":\"collective\",\"args\":"
             "{\"at\":\"a.c:2\",\"count\":0,\"number\":1}},\n"
             "{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"ts\":52.500,\"dur\":0.500"
             ",\"name\":\"accel_comm_barrier\",\"cat\":\"collective\",\"args\":"
             "{\"at\":\"a.c:3\",\"count\":0,\"number\":2}}\n"
             "]\n",
             "the events of a profile");
    free (parts);
}

static void
test_profile (void)
{
    char path[] = "profile-XXXXXX", text[4096] = "";
    int fd = mkstemp (path);
    MUST (accel_open (&acc, NULL, &err));
    MUST (accel_profile_start (acc, &(struct accel_profile_options){ .path = path }, &err));
    accel_profile_end (acc);
    accel_profile_begin (acc, "span");
    accel_profile_end (acc);
    MUST (accel_end_training (acc, &err));
    close (fd);
    fd = open (path, O_RDONLY);
    ok (read (fd, text, sizeof text - 1) > 0 && strstr (text, "\"span\"") && strstr (text, "\"rank 0\"")
            && !strstr (text, "no room"),
        "the end of training writes the profile; an end without a beginning is nothing");
    close (fd);
    unlink (path);
    accel_close (acc);
}

/* ---- batch sizes, meshes ---- */

static enum accel_status
fail_silently (size_t batch_size, void *user, struct accel_error *error)
{
    (void) batch_size, (void) user, (void) error;
    return ACCEL_ERR_UNSUPPORTED;
}

static void
test_batch_size (void)
{
    size_t size = 7;
    enum accel_status status = accel_find_executable_batch_size (NULL, &size, fail_silently, NULL, &err);
    ok (status == ACCEL_ERR_UNSUPPORTED && err.code == status && strstr (err.text, "failed with a batch of 7: "),
        "a failure without a text gets one: %s", err.text);
}

/* The allocation after this many fails; blocks that were not freed are counted. */
static long calls_left = -1, blocks;

void *__real_malloc (size_t size);
void *__wrap_malloc (size_t size);
void *
__wrap_malloc (size_t size)
{
    void *memory = calls_left >= 0 && calls_left-- == 0 ? NULL : __real_malloc (size);
    blocks += memory != NULL;
    return memory;
}

void *__real_calloc (size_t count, size_t size);
void *__wrap_calloc (size_t count, size_t size);
void *
__wrap_calloc (size_t count, size_t size)
{
    void *memory = calls_left >= 0 && calls_left-- == 0 ? NULL : __real_calloc (count, size);
    blocks += memory != NULL;
    return memory;
}

void __real_free (void *memory);
void __wrap_free (void *memory);
void
__wrap_free (void *memory)
{
    blocks -= memory != NULL;
    __real_free (memory);
}

/* A mesh that cannot be made leaves nothing, whichever allocation fails. */
static void
test_mesh (void)
{
    static const char *const names[] = { "dp", "tp", "pp" };
    static const int sizes[] = { 1, 1, 1 };
    struct accel_mesh *mesh;
    bool clean = true;
    int failures = 0;
    for (bool done = false; !done; failures++) {
        MUST (accel_open (&acc, NULL, &err));
        long before = blocks;
        calls_left = failures;
        done = !accel_mesh_create (&mesh, acc, names, sizes, 3, NULL);
        calls_left = -1;
        if (done)
            accel_mesh_destroy (mesh);
        if (blocks != before)
            diag ("%ld blocks are left after failure %d", blocks - before, failures);
        clean = clean && blocks == before;
        accel_close (acc);
    }
    ok (clean && failures > 4, "a mesh that cannot be made leaves nothing: %d failures", failures - 1);
}

/* ---- processes ---- */

/* The second process of the second host. */
static void
test_process (void)
{
    struct accel there = { .identity = { .rank = 3, .world_size = 4, .local_rank = 1, .local_world_size = 2 } };
    begin_capture ();
    accel_logger_log (&there, ACCEL_LOG_ERROR, "for the main process");
    accel_logger_log (&there, ACCEL_LOG_ERROR | ACCEL_LOG_EVERYWHERE, "for all");
    is_text (end_capture (), "ERROR: [RANK 3] for all\n", "log lines of the main process are not written by others");
}

/* Who has no memory for a group tells the others, if they are on their way to it. */
static void
test_told (void)
{
    enum { FIRST_MEETING = 2 };
    struct accel_comm *group;
    bool right = true, done = false;
    int failures = 0;
    for (; !done; failures++) {
        MUST (accel_open (&acc, NULL, &err));
        calls_left = failures;
        done = !accel_comm_split (&group, accel_world (acc), 0, 0, NULL);
        calls_left = -1;
        bool told = accel_comm_barrier (accel_world (acc), NULL) == ACCEL_ERR_PEER;
        right = right && told == (!done && failures >= FIRST_MEETING);
        if (done)
            accel_comm_destroy (group);
        accel_close (acc);
    }
    ok (right && failures > FIRST_MEETING + 2, "no memory for a group: told to the others who come to it");
}

/* The first cause of a failure stays, also where a group of the job fails later. */
static void
test_causes (void)
{
    struct accel_comm *group;
    MUST (accel_open (&acc, NULL, &err));
    MUST (accel_comm_split (&group, accel_world (acc), 0, 0, &err));
    comm_give_up (accel_world (acc), "the first");
    comm_give_up (group, "the second");
    ok (accel_comm_barrier (accel_world (acc), &err) == ACCEL_ERR_PEER && strstr (err.text, "the first"), "%s",
        err.text);
    accel_comm_destroy (group);
    accel_close (acc);
}

static void
is_refused (enum accel_status status, const char *words)
{
    ok (status == ACCEL_ERR_INVALID && strstr (err.text, words), "%s: status %d: %s", words, (int) status, err.text);
    memset (&err, 0, sizeof err);
}

static void
test_groups (void)
{
    static const char *const names[] = { "a", "b", "c", "d", "e" };
    static const int sizes[] = { 471005573, 968113095, 1955382703, 1657883831, 3 }; /* 1 modulo 2^64 */
    struct accel_mesh *mesh;
    struct accel_comm *group = (void *) &err;
    float numbers[2] = { 0 };
    MUST (accel_open (&acc, NULL, &err));
    struct accel_comm *world = accel_world (acc);
    is_refused (accel_mesh_create (&mesh, acc, names, sizes, 5, &err), "or too large");
    MUST (accel_comm_split (&group, world, -1, 0, &err));
    ok (!group, "who has no colour is in no group");
    is_refused (accel_comm_all_to_all (world, numbers, numbers, 1, ACCEL_FLOAT32, &err), "in place");
    is_refused (accel_comm_send (world, numbers, 1, ACCEL_FLOAT32, 0, &err), "to itself");
    accel_comm_destroy (world);
    MUST (accel_comm_barrier (world, &err));
    accel_close (acc);
}

/* Set variables: "NAME=VALUE NAME=VALUE", or unset them. */
static void
set_variables (const char *text, bool set)
{
    char copy[256], *rest = NULL;
    snprintf (copy, sizeof copy, "%s", text);
    for (char *word = strtok_r (copy, " ", &rest); word; word = strtok_r (NULL, " ", &rest)) {
        char *value = strchr (word, '=');
        *value++ = '\0';
        if (set)
            setenv (word, value, 1);
        else
            unsetenv (word);
    }
}

static void
test_variables (void)
{
    static const struct {
        const char *variables;
        struct identity wanted;
        const char *words;
    } cases[] = {
        { "", { 0, 1, 0, 1 }, NULL },
        { "LOCAL_RANK=-1", { 0, 1, 0, 1 }, NULL },
        { "RANK=1 WORLD_SIZE=2", { 1, 2, 1, 2 }, NULL },
        { "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", { 3, 4, 1, 2 }, NULL },
        { "RANK=1", { 0 }, "RANK=1 is set, but WORLD_SIZE is not" },
        { "RANK=2 WORLD_SIZE=2", { 0 }, "RANK=2 must be less than WORLD_SIZE=2" },
        { "RANK=1 WORLD_SIZE=2 LOCAL_RANK=0", { 0 }, "LOCAL_RANK=0 is set, but LOCAL_WORLD_SIZE is not" },
        { "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3", { 0 }, "LOCAL_WORLD_SIZE=3 is greater" },
        { "RANK=0 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", { 0 }, "local rank 1 is greater than rank 0" },
        { "RANK=0 WORLD_SIZE=1 PMI_RANK=1 PMI_SIZE=2", { 0 }, "WORLD_SIZE=1 but PMI_SIZE=2" },
        { "RANK=0 WORLD_SIZE=2 PMI_RANK=1 PMI_SIZE=2", { 0 }, "RANK=0 but PMI_RANK=1" },
        { "RANK=0 WORLD_SIZE=2 PMI_RANK=0 PMI_SIZE=2", { 0, 2, 0, 2 }, NULL },
        { "SLURM_NTASKS=3 SLURM_PROCID=2 SLURM_LOCALID=2", { 0, 1, 0, 1 }, NULL }, /* a batch script */
        { "SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=2 SLURM_LOCALID=2 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=3",
          { 2, 3, 2, 3 }, NULL },
        { "SLURM_STEP_NUM_TASKS=7 SLURM_PROCID=5 SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=2(x2),3",
          { 5, 7, 1, 3 }, NULL },
        { "SLURM_STEP_NUM_TASKS=7 SLURM_PROCID=3 SLURM_LOCALID=1 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=2(x2),3",
          { 3, 7, 1, 2 }, NULL },
        { "WORLD_SIZE=2 SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=1", { 1, 2, 1, 2 }, NULL },
        { "RANK=1 WORLD_SIZE=2 SLURM_STEP_NUM_TASKS=3 SLURM_PROCID=2 SLURM_LOCALID=0 SLURM_NODEID=0 "
          "SLURM_STEP_TASKS_PER_NODE=3", { 1, 2, 1, 2 }, NULL }, /* launched within a step */
        { "RANK=1 WORLD_SIZE=2 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_LOCALID=x SLURM_NODEID=x",
          { 1, 2, 1, 2 }, NULL }, /* unused variables may be malformed */
        { "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_NODEID=x", { 0 }, "SLURM_NODEID='x' is not an integer" },
        { "RANK=1 WORLD_SIZE=2 SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0", { 0 }, "RANK=1 but SLURM_PROCID=0" },
    };
    struct jobseg none = JOBSEG_NONE;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct identity got;
        set_variables (cases[i].variables, true);
        enum accel_status status = identity_discover (&got, &none, &err);
        set_variables (cases[i].variables, false);
        if (cases[i].words)
            is_refused (status, cases[i].words);
        else if (!ok (!status && !memcmp (&got, &cases[i].wanted, sizeof got), "who this is: %s", cases[i].variables))
            diag ("rank %d of %d, local %d of %d: %s", got.rank, got.world_size, got.local_rank, got.local_world_size,
                  status ? err.text : "");
    }
}

/* What accel_open() reads beside. */
static void
test_environment (void)
{
    setenv ("ACCEL_TIMEOUT_MS", "x", 1);
    is_refused (accel_open (&acc, NULL, &err), "ACCEL_TIMEOUT_MS='x' is not a number");
    ok (!accel_open (&acc, &(struct accel_options){ .timeout_ms = 5 }, &err), "an option comes before its variable");
    accel_close (acc);
    unsetenv ("ACCEL_TIMEOUT_MS");
    setenv ("ACCELERATE_USE_CPU", "maybe", 1);
    is_refused (accel_open (&acc, NULL, &err), "ACCELERATE_USE_CPU='maybe' is not a boolean");
    unsetenv ("ACCELERATE_USE_CPU");
    setenv ("ACCEL_JOB_SEGMENT", "/nowhere/at/all", 1);
    ok (!accel_open (&acc, NULL, &err), "a process alone does without a segment");
    accel_close (acc);
    unsetenv ("ACCEL_JOB_SEGMENT");
}

/* Variables against the launcher's segment. */
static void
test_identity (void)
{
    static const struct {
        int world, local, first;
        const char *words;
    } cases[] = { { 4, 2, 2, "" },
                  { 5, 2, 2, "has 5 processes, but the variables say 4" },
                  { 4, 4, 0, "whose ranks on this host are 0 to 3" },
                  { 4, 2, 0, "whose ranks on this host are 0 to 1" } };
    setenv ("RANK", "3", 1);
    setenv ("WORLD_SIZE", "4", 1);
    setenv ("LOCAL_RANK", "1", 1);
    setenv ("LOCAL_WORLD_SIZE", "2", 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct jobseg segment;
        struct identity identity;
        struct fail fail;
        MUST (jobseg_create (&segment, cases[i].world, cases[i].local, cases[i].first, "id", &fail) ? ACCEL_ERR_SYSTEM
                                                                                                 : ACCEL_OK);
        enum accel_status status = identity_discover (&identity, &segment, &err);
        if (*cases[i].words)
            is_refused (status, cases[i].words);
        else
            ok (!status && identity.rank == 3 && identity.local_rank == 1, "the launcher's job, as the variables say");
        jobseg_detach (&segment);
    }
    unsetenv ("RANK");
    unsetenv ("WORLD_SIZE");
    unsetenv ("LOCAL_RANK");
    unsetenv ("LOCAL_WORLD_SIZE");
}

/* ---- training ---- */

enum { MODELS = 2, LONG = 3000 };

static float weights[MODELS], slopes[MODELS];
static int64_t one = 1;

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    (void) error;
    *(float *) user = *(float *) user > 0 ? INFINITY : scale;
    return ACCEL_OK;
}

/* As in torch, infinities that an optimizer's gradients were found to have lower the scale at any optimizer's step. */
static void
test_scale_of_two (void)
{
    struct accel_model *models[MODELS];
    struct accel_optimizer *optimizers[MODELS];
    DLTensor data[MODELS], grads[MODELS];
    struct accel_scaler_state state;
    MUST (accel_open (&acc, &(struct accel_options){ .mixed_precision = "fp16" }, &err));
    for (int i = 0; i < MODELS; i++) {
        data[i] = (DLTensor){ .data = &weights[i], .device = { kDLCPU, 0 }, .ndim = 1, .shape = &one,
                              .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
        grads[i] = data[i];
        grads[i].data = &slopes[i];
        MUST (accel_model_create (&models[i], &(struct accel_parameter){ "w", &data[i], &grads[i] }, 1, &err));
        MUST (accel_optimizer_create (&optimizers[i], models[i], ACCEL_SGD,
                                      &(struct accel_optimizer_options){ .lr = 1 }, &err));
        MUST (accel_prepare (acc, &err, models[i], optimizers[i]));
        slopes[i] = i ? 1 : 0; /* the second overflows */
        MUST (accel_backward (acc, models[i], 1, backward, &slopes[i], &err));
    }
    MUST (accel_unscale_gradients (acc, NULL, &err));
    MUST (accel_optimizer_step (optimizers[0], &err));
    accel_scaler_get_state (acc, &state);
    ok (state.scale == 32768 && weights[0] == -1,
        "another model's overflow lowers the scale: %g", (double) state.scale);
    for (int i = 0; i < MODELS; i++) {
        accel_optimizer_destroy (optimizers[i]);
        accel_model_destroy (models[i]);
    }
    accel_close (acc);
}

/* More threads than any machine has are a mistake. */
static void
test_threads (void)
{
    static const struct {
        const char *text;
        unsigned threads;
    } cases[] = { { "1000000", 256 }, { "3", 3 }, { "-1", 1 }, { "many", 1 } };
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    DLTensor data = { .data = weights, .device = { kDLCPU, 0 }, .ndim = 1, .shape = &one,
                      .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) }, grad = data;
    grad.data = slopes;
    MUST (accel_model_create (&model, &(struct accel_parameter){ "w", &data, &grad }, 1, &err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv ("OMP_NUM_THREADS", cases[i].text, 1);
        MUST (accel_optimizer_create (&optimizer, model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 1 },
                                      &err));
        ok (optimizer->threads == cases[i].threads, "OMP_NUM_THREADS=%s: %u threads", cases[i].text,
            optimizer->threads);
        accel_optimizer_destroy (optimizer);
    }
    unsetenv ("OMP_NUM_THREADS");
    accel_model_destroy (model);
}

/* All of a long 8-bit parameter is scaled, not only its first block. */
static void
test_long_parameter (void)
{
    static uint8_t bytes[LONG], wanted[LONG];
    static float gradients[LONG];
    struct accel_model *model;
    int64_t shape = LONG;
    DLTensor data = { .data = bytes, .device = { kDLCPU, 0 }, .ndim = 1, .shape = &shape,
                      .dtype = accel_dtype_to_dl (ACCEL_FLOAT8_E4M3FN) };
    DLTensor grad = data;
    grad.dtype = accel_dtype_to_dl (ACCEL_FLOAT32);
    grad.data = gradients;
    MUST (accel_model_create (&model, &(struct accel_parameter){ "w", &data, &grad }, 1, &err));
    float *master = accel_model_master (model, 0)->data;
    for (int i = 0; i < LONG; i++)
        master[i] = (float) (i % 7 + 1) * 1e-3F;
    accel_model_narrow (model);
    for (int i = 0; i < LONG; i++)
        wanted[i] = bytes[i % 7];
    ok (accel_model_scale (model, 0) != 1 && !memcmp (bytes, wanted, LONG), "all of a long parameter has one scale");
    accel_model_destroy (model);
}

int
main (void)
{
    alarm (900);
    test_progress ();
    test_profile_file ();
    now_ms = 0;
    test_profile ();
    test_batch_size ();
    test_mesh ();
    test_process ();
    test_told ();
    test_causes ();
    test_groups ();
    test_variables ();
    test_environment ();
    test_identity ();
    test_threads ();
    test_scale_of_two ();
    test_long_parameter ();
    return done_testing ();
}
