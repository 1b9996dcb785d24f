/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints while ranks and launchers are killed, and while the power is lost: the newest complete one always loads.
 *
 *   checkpoint_kills ranks|ranks-async|ranks-sharded|ranks-sharded-async [KILLS [SEED]]
 *                                                          ranks are killed at random calls to the file system
 *   checkpoint_kills launcher ACCELERATE [KILLS [SEED]]    a launcher is, by SIGKILL or SIGTERM
 *   checkpoint_kills rank FILE                             what that launcher starts
 *
 * With -sharded, the model is divided among the ranks, each writes its share, and one process without sharding loads
 * what is there.  With -async, saves are written in the background; every second launcher's ranks do so, too. */
#include <config.h>

#include "tests/fault/checkpoint_world.h"

enum { SAVES = 4, KINDS = 24 };

/* Who dies at the fatal call of a rank. */
enum victim { RANK_0, RANK_1, EACH_AT_ITS_CALL, ALL_AT_ONCE, VICTIMS };

static const char *const victims[] = { "rank 0", "rank 1", "each rank at its call", "all ranks at once" };
static int victim;
static long fatal;

/* How often each function was the last. */
static struct {
    char name[32];
    long count;
} kinds[KINDS];

static void
count_kind (const char *name)
{
    int i = 0;
    while (i < KINDS - 1 && *kinds[i].name && strcmp (kinds[i].name, name) != 0)
        i++;
    snprintf (kinds[i].name, sizeof kinds[i].name, "%s", name);
    kinds[i].count++;
}

static void
show_kinds (const char *what)
{
    char text[1024] = "";
    size_t length = 0;
    for (int i = 0; i < KINDS && *kinds[i].name && length < sizeof text; i++)
        length += (size_t) snprintf (text + length, sizeof text - length, " %s %ld", kinds[i].name, kinds[i].count);
    diag ("%s:%s", what, text);
    memset (kinds, 0, sizeof kinds);
}

/* ---- in ranks ---- */

static void
die (const char *function)
{
    snprintf (shared->last, sizeof shared->last, "%s", function);
    if (victim == ALL_AT_ONCE)
        kill (shared->pids[!ranks_self], SIGKILL);
    kill (getpid (), SIGKILL);
    pause ();
}

/* Continue from the newest checkpoint, and save some more.  A rank that survives gets an error. */
static void
save_until_killed (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    int rank = accel_process_index (acc);
    make_world (&world, acc);
    enum accel_status status = accel_load_state (acc, NULL, &err);
    int from = status ? 0 : read_value (&world) + 1;
    right (!status || shared->committed < 0, "a checkpoint was there, but: %s", err.text);
    if (victim == rank || victim == EACH_AT_ITS_CALL || (victim == ALL_AT_ONCE && !rank))
        disk_left = fatal;
    for (int i = from; i < from + SAVES; i++) {
        fill (&world, (float) i);
        if (!rank)
            shared->trying = i;
        status = save (acc, &world, &err);
        if (status) {
            right (status == ACCEL_ERR_PEER, "status %d: %s", (int) status, err.text);
            break;
        }
        if (!rank)
            shared->committed = i;
    }
    shared->calls[rank] = disk_calls;
    accel_model_destroy (world.model);
}

/* What is there is the latest complete state, or the one that was being saved. */
static int
load_newest (struct accel *acc, struct world *world)
{
    struct accel_error err = { 0 };
    const struct accel_project_configuration configuration
        = { .project_dir = project, .automatic_checkpoint_naming = true, .total_limit = LIMIT };
    rank_must (accel_set_project_configuration (acc, &configuration, &err), &err);
    if (accel_load_state (acc, NULL, &err)) {
        right (shared->committed < 0, "%s: %d was complete, but: %s", project, (int) shared->committed, err.text);
        return -1;
    }
    int value = read_value (world);
    right (value >= shared->committed && value <= shared->trying, "%s: loaded %d, but %d was complete", project, value,
           (int) shared->committed);
    uint64_t next = accel_get_project_configuration (acc)->iteration;
    right (next > (uint64_t) value, "the next number is %d", (int) next);
    return value;
}

static void
look (struct accel *acc)
{
    struct world world;
    make_world (&world, acc);
    accel_set_log_level (ACCEL_LOG_CRITICAL);
    load_newest (acc, &world);
    accel_model_destroy (world.model);
}

/* What the disk has without power, in several ways; the run continues with one. */
static void
look_after_losses (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    make_world (&world, acc);
    accel_set_log_level (ACCEL_LOG_CRITICAL);
    for (int i = 0; i < LOSSES; i++) {
        snprintf (project, sizeof project, "%s/recovered%d", scratch_folder (), i);
        int value = load_newest (acc, &world);
        if (i != LOSSES - 1)
            continue;
        fill (&world, (float) (value + 1));
        rank_must (accel_save_state (acc, NULL, &err), &err);
        fill (&world, 0);
        rank_must (accel_load_state (acc, NULL, &err), &err);
        right (read_value (&world) == value + 1, "saved %d, loaded %d", value + 1, read_value (&world));
    }
    accel_model_destroy (world.model);
}

/* ---- ranks are killed ---- */

/* @return the number of calls of each rank for SAVES saves */
static bool
measure (long most[2])
{
    start_round (true);
    victim = VICTIMS;
    bool good = run_ranks (2, save_until_killed);
    most[0] = shared->calls[0];
    most[1] = shared->calls[1];
    return ok (good && most[0] > most[1] && most[1] > 0, "rank 0 needs %ld calls for %d saves, rank 1 %ld", most[0],
               SAVES, most[1]);
}

/* One round, whose random numbers are those of its own seed. */
static bool
kill_ranks (const long most[2], bool *killed)
{
    bool afresh = random () % 4 == 0 || victim == ALL_AT_ONCE;
    if (afresh) /* even before there is a first checkpoint; and the log of a rank that another killed may lack a line */
        start_round (true);
    victim = (int) (random () % VICTIMS);
    fatal = random () % most[victim == RANK_1];
    disk_cut = (unsigned) random () % 256;
    *shared->last = '\0';
    bool good = run_ranks (2, save_until_killed);
    *killed = *shared->last;
    if (*killed)
        count_kind (shared->last);
    lose_power ();
    return run_ranks (1, look) && run_ranks (1, look_after_losses) && good;
}

static void
test_ranks (long rounds, unsigned seed)
{
    long most[2], kills = 0, losses = 0;
    bool good = measure (most);
    for (long round = 0; kills < rounds && good && round < 2 * rounds + 10; round++) {
        bool killed;
        srandom (seed + (unsigned) round);
        good = kill_ranks (most, &killed);
        kills += killed;
        losses += LOSSES;
        if (!good)
            diag ("round %ld of seed %u: %s, call %ld, %s", round, seed, victims[victim], fatal, shared->last);
    }
    show_kinds ("the last calls");
    ok (good && kills == rounds, "the newest complete checkpoint loads after each of %ld kills of ranks", kills);
    ok (good, "and from each of %ld disks without power", losses);
}

/* ---- a launcher is killed ---- */

static void
kill_launcher (const char *function)
{
    snprintf (shared->last, sizeof shared->last, "%s", function);
    kill (shared->launcher, shared->signal);
}

static void *
share (const char *path)
{
    int fd = __real_open (path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;
    if (fd >= 0 && !__real_ftruncate (fd, sizeof (struct shared)))
        memory = mmap (NULL, sizeof (struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        printf ("Bail out! %s: %s\n", path, strerror (errno));
        exit (99);
    }
    close (fd);
    return memory;
}

static int
be_rank (const char *path)
{
    struct accel *acc;
    struct accel_error err = { 0 };
    shared = share (path);
    ranks_texts = shared->texts;
    ranks_self = getenv ("RANK") ? atoi (getenv ("RANK")) & 1 : 0;
    snprintf (project, sizeof project, "%s", shared->project);
    snprintf (disk_root, sizeof disk_root, "%s", project);
    rank_must (accel_open (&acc, NULL, &err), &err);
    victim = shared->victim;
    fatal = shared->fatal;
    in_background = fatal % 2;
    disk_goes_on = true;
    disk_end = kill_launcher;
    save_until_killed (acc);
    accel_close (acc);
    return 0;
}

/* All processes of a launch are this one's children when the launcher has died.  @return whether all have ended */
static bool
reap_all (void)
{
    alarm (RANKS_DEADLINE_S);
    while (wait (NULL) > 0 || errno == EINTR)
        continue;
    alarm (0);
    return errno == ECHILD;
}

static bool
launch (const char *accelerate, const char *self, const char *path)
{
    int status = 0;
    char count[] = "2";
    memset (shared->texts, 0, sizeof shared->texts);
    *shared->last = '\0';
    fflush (stdout);
    shared->launcher = 0;
    pid_t pid = fork ();
    if (!pid) {
        shared->launcher = getpid ();
        execl (accelerate, "accelerate", "launch", "--quiet", "--cpu", "--num_processes", count, self, "rank", path,
               NULL);
        _exit (127);
    }
    waitpid (pid, &status, 0);
    bool gone = reap_all (), good = true;
    for (int rank = 0; rank < 2; rank++) {
        good = good && !*shared->texts[rank];
        if (*shared->texts[rank])
            diag ("rank %d: %s", rank, shared->texts[rank]);
    }
    bool as_asked = *shared->last ? WIFSIGNALED (status) || WEXITSTATUS (status) : !status;
    if (!as_asked)
        diag ("the launcher's status: %x", (unsigned) status);
    return gone && good && as_asked;
}

static void
test_launcher (const char *accelerate, const char *self, long rounds, unsigned seed)
{
    static const int signals[] = { SIGKILL, SIGTERM };
    char path[PATH_ROOM];
    long most[2], kills = 0;
    bool good = measure (most);
    disk_shadow = NULL;
    snprintf (path, sizeof path, "%s/shared", scratch_folder ());
    shared = share (path);
    for (long round = 0; kills < rounds && good && round < 2 * rounds + 10; round++) {
        srandom (seed + (unsigned) round);
        if (!round || random () % 4 == 0)
            start_round (false);
        snprintf (shared->project, sizeof shared->project, "%s", project);
        shared->victim = (int) (random () % 2);
        shared->signal = signals[random () % 2];
        shared->fatal = random () % most[shared->victim];
        good = launch (accelerate, self, path);
        kills += *shared->last != '\0';
        if (*shared->last)
            count_kind (shared->last);
        good = run_ranks (1, look) && good;
        if (!good)
            diag ("round %ld of seed %u: rank %d sends signal %d at call %ld, %s", round, seed, shared->victim,
                  shared->signal, shared->fatal, shared->last);
    }
    show_kinds ("the calls before");
    ok (good && kills == rounds, "the newest complete checkpoint loads after each of %ld kills of launchers", kills);
}

int
main (int argc, char **argv)
{
    if (argc > 2 && !strcmp (argv[1], "rank"))
        return be_rank (argv[2]);
    bool launcher = argc > 2 && !strcmp (argv[1], "launcher");
    char **rest = argv + (launcher ? 3 : 2);
    long rounds = argc > rest - argv ? strtol (rest[0], NULL, 10) : 30;
    unsigned seed = argc > rest - argv + 1 ? (unsigned) strtoul (rest[1], NULL, 10) : 1;
    ranks_texts = mmap (NULL, RANKS_MOST * RANKS_TEXT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = mmap (NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    scratch_folder ();
    in_background = argc > 1 && strstr (argv[1], "-async");
    is_sharded = argc > 1 && strstr (argv[1], "-sharded");
    disk_end = die;
    if (launcher) {
        prctl (PR_SET_CHILD_SUBREAPER, 1);
        test_launcher (argv[2], argv[0], rounds, seed);
    } else
        test_ranks (rounds, seed);
    return done_testing ();
}
