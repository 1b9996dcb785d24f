/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of the shm engine that are members: what one learns of the others, and what it leaves for them.  See
 * shm_puppets.h. */
#include <config.h>

#include "tests/unit/core/shm_puppets.h"

#include <malloc.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { MANY_RANKS = 64 };

static float values[4];

static struct accel_engine_call
call_of (enum accel_engine_kind kind)
{
    return (struct accel_engine_call){ .site = &here, .sequence = 1, .send = values, .recv = values, .count = 4,
                                  .element_bytes = 4, .kind = kind, .dtype = ACCEL_FLOAT32, .root = -1, .number = 1,
                                  .public_call = here.call, .helpers = &watch.helpers };
}

/* What a rank publishes that calls the same as call_of(). */
static struct shm_post *
fill_post (int rank, enum accel_engine_kind kind)
{
    struct shm_post *post = shm_next_post (ranks[rank]);
    post->kind = (uint8_t) kind;
    post->call = (uint8_t) here.call;
    post->count = 4;
    post->dtype = ACCEL_FLOAT32;
    post->op = 0;
    post->root = -1;
    post->form = 0;
    return post;
}

static void
fail_rank (int rank, const char *reason)
{
    bootstrap_leave (&members[rank], JOBSEG_FAILED, reason);
    shm_wake_all (ranks[rank], true);
}

static void
kill_rank (int rank)
{
    jobseg_mark_exit (&segment, rank, SIGKILL);
}

/* ---- what differs ---- */

static void
change_nothing (struct shm_post *post)
{
    (void) post;
}
static void
change_kind (struct shm_post *post)
{
    post->kind = ACCEL_ENGINE_BARRIER;
}
static void
change_call (struct shm_post *post)
{
    post->call = JOBSEG_CALL_REDUCE;
}
static void
change_dtype (struct shm_post *post)
{
    post->dtype = ACCEL_INT32;
}
static void
change_count (struct shm_post *post)
{
    post->count = 5;
}
static void
change_op (struct shm_post *post)
{
    post->op = ACCEL_MAX;
}
static void
change_root (struct shm_post *post)
{
    post->root = 1;
}
static void
change_form (struct shm_post *post)
{
    post->form = 3;
}

/* The engine finds a difference in what ranks publish, and takes the words from their ledgers. */
static void
test_differences (void)
{
    static const struct {
        void (*change) (struct shm_post *post);
        const char *words;
    } cases[] = {
        { change_nothing, "" },
        { change_kind, "rank 1 is waiting in accel_comm_all_reduce at ?:7 while rank 0 is in accel_comm_all_reduce "
                       "(float32 x 4) at ?:7" },
        { change_call, "rank 1 is waiting in accel_reduce (float32 x 4) at ?:7 while" },
        { change_dtype, "element types differ in accel_comm_all_reduce: float32 on rank 0 at ?:7, int32 on rank 1" },
        { change_count, "counts differ in accel_comm_all_reduce: 4 on rank 0 at ?:7, 5 on rank 1" },
        { change_op, "operations differ in accel_comm_all_reduce: sum on rank 0 at ?:7, max on rank 1" },
        { change_root, "roots differ in accel_comm_all_reduce: -1 on rank 0 at ?:7, 1 on rank 1" },
        { change_form, "arguments differ in accel_comm_all_reduce: 0 on rank 0 at ?:7, 0 on rank 1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_members (2);
        struct accel_engine_call call = call_of (ACCEL_ENGINE_ALL_REDUCE);
        call.helpers = act (0, ranks[0]);
        note_call (0, &call);
        struct shm_post *post = fill_post (1, ACCEL_ENGINE_ALL_REDUCE);
        memset (post->payload, 0, 16);
        cases[i].change (post);
        struct jobseg_record *record = note_call (1, &call);
        record->kind = post->kind;
        record->call = post->call;
        record->dtype = post->dtype;
        record->count = post->count;
        record->op = post->op;
        record->root = (int16_t) post->root;
        record->form = post->form;
        shm_publish (ranks[1], post);
        enum accel_status status = shm_run (ranks[0], &call, &err);
        is_error (status, *cases[i].words ? ACCEL_ERR_PEER : ACCEL_OK, cases[i].words);
        ok (!saw.waits, "who has come is compared without waiting");
        end_ranks ();
    }
}

/* ---- waiting for all ---- */

static void
test_missing (void)
{
    struct accel_engine_call call = call_of (ACCEL_ENGINE_BARRIER);
    make_members (3);
    act (0, ranks[0]);
    struct shm_post *post = fill_post (2, ACCEL_ENGINE_ALL_GATHER);
    atomic_store (&post->step, 7); /* of long ago */
    atomic_store (&ranks[0]->slot->heartbeat_ns, 0);
    is_error (shm_run (ranks[0], &call, &err), ACCEL_ERR_TIMEOUT,
              "for rank 1 (computing, no collective yet), rank 2 (computing, no collective yet)");
    ok (atomic_load (&ranks[0]->slot->heartbeat_ns) != 0, "who waits shows that it lives");
    ok (atomic_load (&ranks[0]->blocks[1].sleepers[1]) == 1, "who sleeps is noted, for the rank that it waits for");
    int64_t long_ago = saw.ms - 1;
    unsigned before = saw.waits;
    is_error (shm_wait_for (ranks[0], 1, &call, &long_ago, &err), ACCEL_ERR_TIMEOUT, "timed out");
    ok (saw.waits == before && long_ago == saw.ms - 1, "the deadline of the first rank is that of all");
    shm_wake (&ranks[0]->blocks[1], 1);
    ok (!atomic_load (&ranks[0]->blocks[1].sleepers[1]), "who is woken is noted no longer");
    end_ranks ();

    make_members (3);
    act (0, ranks[0]);
    note_call (0, &call);
    call.kind = ACCEL_ENGINE_ALL_GATHER;
    note_call (1, &call);
    call.kind = ACCEL_ENGINE_BARRIER;
    post = fill_post (1, ACCEL_ENGINE_ALL_GATHER);
    shm_publish (ranks[1], post);
    is_error (shm_run (ranks[0], &call, &err), ACCEL_ERR_PEER, "rank 1 is waiting in");
    ok (!saw.waits, "a disagreement is reported before the third rank has come");
    end_ranks ();
}

static void
publish_1 (void)
{
    atomic_store (&shm_post_of (ranks[0], 1)->step, ranks[0]->step);
}

/* All have come to the step after this. */
static void
publish_next (void)
{
    for (int rank = 1; rank < ranks[0]->size; rank++)
        atomic_store (&ranks[0]->blocks[rank].posts[(ranks[0]->step + 1) & 1].step, ranks[0]->step + 1);
}

/* A rank of which only the kernel knows that it is gone. */
static void
lose_rank (int rank)
{
    pid_t pid = fork ();
    if (!pid)
        _exit (0);
    waitpid (pid, NULL, 0);
    atomic_store (&ranks[rank]->slot->pid, pid);
}

static void
test_blame (void)
{
    struct accel_engine_call call = call_of (ACCEL_ENGINE_BARRIER);
    make_members (3);
    act (0, ranks[0]);
    fail_rank (1, "no data");
    kill_rank (2);
    is_error (shm_run (ranks[0], &call, &err), ACCEL_ERR_PEER, "rank 2 was killed by signal 9 (SIGKILL), computing");
    publish_next ();
    is_error (shm_sync (ranks[0], &call, &err), ACCEL_ERR_PEER,
              "rank 1 gave up: no data; meanwhile rank 0 was in accel_comm_all_reduce at here.c:7");
    end_ranks ();

    make_members (2);
    act (0, ranks[0]);
    fail_rank (1, "no data");
    is_error (shm_run (ranks[0], &call, &err), ACCEL_ERR_PEER, "rank 1 gave up: no data; rank 0 is waiting for it in");
    end_ranks ();

    /* It publishes its step while we find out how it ended. */
    make_members (2);
    fill_post (1, ACCEL_ENGINE_BARRIER);
    lose_rank (1);
    act (0, ranks[0]);
    told.waits = publish_1;
    is_error (shm_run (ranks[0], &call, &err), ACCEL_OK, "");
    end_ranks ();
}

/* A rank that waits on the awaited one's processor lets it run, and now and then sleeps at once. */
static void
test_same_processor (void)
{
    struct accel_engine_call call = call_of (ACCEL_ENGINE_BARRIER);
    cpu_set_t before, one;
    make_members (2);
    act (0, ranks[0]);
    CPU_ZERO (&one);
    CPU_SET ((size_t) sched_getcpu (), &one);
    if (!sched_getaffinity (0, sizeof before, &before) && !sched_setaffinity (0, sizeof one, &one)) {
        atomic_store (&ranks[0]->blocks[1].processor, sched_getcpu ());
        is_error (shm_run (ranks[0], &call, &err), ACCEL_ERR_TIMEOUT, "timed out");
        ok (ranks[0]->yielded == 1, "waits for a rank on the same processor are counted");
        sched_setaffinity (0, sizeof before, &before);
    } else
        skip ("processors cannot be chosen");
    end_ranks ();
}

/* ---- who is gone ---- */

static bool
is_gone (int rank, const char *words)
{
    char text[ACCEL_ERROR_TEXT_SIZE] = "";
    bool gone = watch_source_is_gone (watch.source, rank, text, sizeof text);
    if (gone && strcmp (text, words))
        diag ("%s", text);
    return gone && !strcmp (text, words);
}

static void
note_exit (void)
{
    jobseg_mark_exit (&segment, 1, 7 << 8);
}

static void
test_gone (void)
{
    char words[64], text[ACCEL_ERROR_TEXT_SIZE];
    make_members (2);
    act (0, ranks[0]);
    struct watch_source *local = watch.source;
    struct jobseg_slot *slot = ranks[1]->slot;
    ok (!watch_source_is_gone (watch.source, 1, text, sizeof text)
            && !watch_source_is_gone (watch.source, 0, text, sizeof text),
        "no rank is gone");
    atomic_store (&slot->state, JOBSEG_LEFT);
    ok (is_gone (1, "has left the job (accel_close)"), "a rank that has left is gone");
    atomic_store (&slot->state, JOBSEG_READY);
    atomic_store (&slot->generation, 2);
    ok (is_gone (1, "has left the job and opened it again"), "a rank of the next generation is gone");
    atomic_store (&slot->generation, 0);
    ok (!watch_source_is_gone (watch.source, 1, text, sizeof text),
        "a rank of the generation before may still come");
    atomic_store (&slot->generation, 1);

    lose_rank (1);
    snprintf (words, sizeof words, "ended (process %d)", (int) atomic_load (&slot->pid));
    ok (is_gone (1, words), "how a process ended may be unknown");
    told.waits = note_exit;
    ok (is_gone (1, "exited with status 7"), "the launcher has time to write it down");
    told.waits = NULL;
    atomic_store (&slot->exited, 0);

    /* Its number may be another process's by now. */
    pid_t pid = make_process ();
    local->peers[1].pid = pid;
    local->peers[1].pidfd = (int) syscall (SYS_pidfd_open, pid, 0);
    kill (pid, SIGKILL);
    waitpid (pid, NULL, 0);
    local->peers[1].pid = getpid ();
    atomic_store (&slot->pid, getpid ());
    snprintf (words, sizeof words, "ended (process %d)", (int) getpid ());
    ok (local->peers[1].pidfd < 0 || is_gone (1, words), "a living process has not the status of the dead one");
    end_ranks ();
}

static void
test_watch (void)
{
    pid_t first = make_process (), second = make_process ();
    struct stat info = { 0 };
    make_members (2);
    act (0, ranks[0]);
    struct watch_source *local = watch.source;
    struct jobseg_slot *slot = ranks[1]->slot;
    ok (!stat ("/proc/self/ns/pid", &info) && procfs_pid_space () == (uint32_t) info.st_ino, "processes have a space");
    int before = count_descriptors ();
    atomic_store (&slot->pid, first);
    atomic_store (&slot->pid_space, procfs_pid_space () + 1);
    watch_source_follow (watch.source, 1);
    ok (!local->peers[1].pid && count_descriptors () == before, "a process of another container is not watched");
    atomic_store (&slot->pid_space, procfs_pid_space ());
    watch_source_follow (watch.source, 1);
    int more = count_descriptors ();
    ok (local->peers[1].pid == first, "a process is watched");
    atomic_store (&slot->pid, second);
    watch_source_follow (watch.source, 1);
    ok (local->peers[1].pid == second, "so is the next process of the same rank");
    ok (count_descriptors () == more, "and the one before no longer");
    end_ranks ();
    ok (count_descriptors () == before - 1, "a rank that is closed watches no process: %d descriptors, %d before",
        count_descriptors (), before);
    kill (first, SIGKILL);
    kill (second, SIGKILL);
    waitpid (first, NULL, 0);
    waitpid (second, NULL, 0);
}

static void
test_leave (void)
{
    make_members (2);
    struct shm *shm = ranks[1];
    shm->pid = members[1].pid = getpid () + 1;
    fail_rank (1, "a fork");
    ok (atomic_load (&shm->slot->state) == JOBSEG_READY && !atomic_load (&ranks[0]->blocks->failed),
        "a fork does not leave for its parent");
    shm->pid = members[1].pid = getpid ();
    fail_rank (1, "the first");
    fail_rank (1, "the second");
    bootstrap_leave (&members[1], JOBSEG_LEFT, NULL);
    is_text (shm->slot->reason, "the first", "the first reason stays");
    ok (atomic_load (&shm->slot->state) == JOBSEG_FAILED, "and so does the failure");
    ok (atomic_load (&ranks[0]->blocks->failed) == 1, "who is at work can see that a rank gave up");
    ok (was_woken (&shm->blocks[1].posts[0].step) && was_woken (&shm->blocks[1].posts[1].step),
        "who sleeps is woken when a rank leaves");
    end_ranks ();
}

/* ---- two ranks ---- */

static struct accel_engine_call
pair_call (enum accel_engine_kind kind, int other)
{
    struct accel_engine_call call = call_of (kind);
    call.root = other;
    return call;
}

/* A message of @from is on the way to @to. */
static struct shm_mail *
post_mail (int from, int to)
{
    struct shm_mail *mail = &ranks[from]->blocks[from].mail;
    *mail = (struct shm_mail){ .count = 4, .dtype = ACCEL_FLOAT32, .arena = SHM_FOREIGN,
                               .piece = (size_t) (shm_piece_of (ranks[from], from) - ranks[from]->stages) };
    memcpy (ranks[from]->stages + mail->piece, (float[]){ 1, 2, 3, 4 }, 16);
    atomic_store (&mail->full, 1u << 13 | (uint32_t) to);
    return mail;
}

static void
mail_1 (void)
{
    post_mail (1, 0);
}

static void
test_recv (void)
{
    struct accel_engine_call call = pair_call (ACCEL_ENGINE_RECV, 1), send = pair_call (ACCEL_ENGINE_SEND, 0);
    make_members (3);
    act (0, ranks[0]);
    struct shm_mail *mail = post_mail (1, 0);
    atomic_store (&mail->sender_sleeps, 1);
    is_error (shm_run (ranks[0], &call, &err), ACCEL_OK, "");
    ok (values[3] == 4 && atomic_load (&mail->taken) == atomic_load (&mail->full), "a message is received");
    ok (was_woken (&ranks[0]->blocks[1].mail.taken), "and its sender woken");

    struct jobseg_record *record = note_call (1, &send);
    post_mail (1, 0)->dtype = record->dtype = ACCEL_INT32;
    is_error (shm_run (ranks[0], &call, &err), ACCEL_ERR_PEER, "rank 1 sends int32 x 4");
    record->dtype = ACCEL_FLOAT32;
    post_mail (1, 0)->count = record->count = 5;
    is_error (shm_run (ranks[0], &call, &err), ACCEL_ERR_PEER, "rank 1 sends float32 x 5");
    post_mail (1, 2);
    record->root = 2;
    atomic_store (&ranks[0]->slot->heartbeat_ns, 0);
    is_error (shm_run (ranks[0], &call, &err), ACCEL_ERR_TIMEOUT, "waiting for rank 1 (in accel_comm_all_reduce at ?");
    ok (atomic_load (&ranks[0]->blocks[1].mail.receivers_sleep) == 1, "the sender can see who sleeps");
    ok (atomic_load (&ranks[0]->slot->heartbeat_ns) != 0, "who waits for a message shows that it lives");

    struct accel_engine_call barrier = call_of (ACCEL_ENGINE_BARRIER);
    note_call (1, &barrier);
    is_error (shm_run (ranks[0], &call, &err), ACCEL_ERR_PEER,
              "rank 1 is waiting for all ranks, in accel_comm_all_reduce at ?");
    post_mail (1, 0);
    is_error (shm_run (ranks[0], &call, &err), ACCEL_OK, "");
    end_ranks ();

    make_members (2);
    lose_rank (1);
    act (0, ranks[0]);
    told.waits = mail_1; /* found while we look how it ended */
    is_error (shm_run (ranks[0], &call, &err), ACCEL_OK, "");
    told.waits = NULL;
    is_error (shm_run (ranks[0], &call, &err), ACCEL_ERR_PEER, "rank 1 ended (process ");
    ranks[0]->timeout_ms = 0; /* the cause, although time is up, too */
    is_error (shm_run (ranks[0], &call, &err), ACCEL_ERR_PEER, "rank 1 ended (process ");
    post_mail (1, 0);
    fail_rank (1, "no data");
    is_error (shm_run (ranks[0], &call, &err), ACCEL_ERR_PEER, "rank 1 gave up: no data; meanwhile rank 0 was in");
    end_ranks ();
}

static size_t piece_seen;

/* The receiver takes the message that it finds. */
static void
take_mail (void)
{
    struct shm_mail *mail = &ranks[1]->blocks[1].mail;
    piece_seen = mail->piece;
    values[0] = *(const float *) (const void *) (ranks[0]->stages + mail->piece);
    atomic_store (&mail->taken, atomic_load (&mail->full));
}

/* Rank 0, which sends as well, has looked and keeps waiting. */
static void
look_0 (void)
{
    ranks[0]->slot->ledger[0].looked_ns = jobseg_now_ns () + 1;
}

static void
test_send (void)
{
    struct accel_engine_call call = pair_call (ACCEL_ENGINE_SEND, 0);
    static const float sent[4] = { 5, 6, 7, 8 };
    call.send = sent;
    make_members (3);
    act (1, ranks[1]);
    atomic_store (&ranks[1]->blocks[1].mail.receivers_sleep, 1);
    told.waits = take_mail;
    for (int i = 0; i < 2; i++, ranks[1]->pieces++) {
        values[0] = 0;
        is_error (shm_run (ranks[1], &call, &err), ACCEL_OK, "");
        ok (values[0] == 5 && piece_seen == (size_t) (shm_piece_of (ranks[1], 1) - ranks[1]->stages),
            "a message travels through the piece that its sender fills next");
    }
    ok (was_woken (&ranks[1]->blocks[1].mail.full), "who sleeps on a message is woken");
    told.waits = NULL;

    struct jobseg_record *record = note_call (0, &call);
    record->root = 2;
    is_error (shm_run (ranks[1], &call, &err), ACCEL_ERR_TIMEOUT, "waiting for rank 0 (");
    record->root = 1;
    is_error (shm_run (ranks[1], &call, &err), ACCEL_ERR_TIMEOUT, "waiting for rank 0 (");
    told.waits = look_0;
    is_error (shm_run (ranks[1], &call, &err), ACCEL_ERR_PEER,
              "ranks are sending in a cycle and none is receiving: rank 1");
    end_ranks ();
}

/* ---- memory ---- */

static void *
get (size_t bytes)
{
    void *memory;
    MUST (shm_alloc (ranks[0], &memory, bytes, &err));
    return memory;
}

static void
test_arena (void)
{
    void *memory, *blocks[70];
    make_members (2);
    struct shm *shm = ranks[0];
    size_t limit = shm->layout.arena_bytes;
    char *first = get (64), *gap = get (64), *last = get (128), *huge = get (3 << 20);
    ok (shm_offset (shm, huge, 1) % SHM_HUGE == 0, "large blocks begin where huge pages do");
    *gap = 1;
    shm_free (shm, gap);
    ok (get (64) == gap && !*gap, "a gap of the exact size is used, and is zero");
    shm_free (shm, last + 64);
    ok (shm->arena.count == 4, "a pointer into a block does not free it");
    unsigned before = saw.holes;
    *huge = 1;
    shm_free (shm, huge);
    ok (saw.holes == before + 1 && !*huge, "the pages of a large block are given back");
    is_error (shm_alloc (shm, &memory, limit + 1, &err), ACCEL_ERR_NOMEM, " bytes exceed the");
    is_error (shm_alloc (shm, &memory, SIZE_MAX, &err), ACCEL_ERR_NOMEM, " bytes exceed the");
    is_error (shm_alloc (shm, &memory, limit, &err), ACCEL_ERR_NOMEM, "no room left for");
    ok (shm_offset (shm, first, 64) == 0 && shm_offset (shm, first, limit) == 0
            && shm_offset (shm, first + limit - 8, 8) == limit - 8,
        "what lies in the arena is shared");
    ok (shm_offset (shm, first + limit - 8, 9) == SHM_FOREIGN && shm_offset (shm, first - 1, 1) == SHM_FOREIGN
            && shm_offset (shm, first, limit + 1) == SHM_FOREIGN,
        "what ends outside of it is not");
    bool room = true;
    for (int i = 0; i < 70; i++) {
        blocks[i] = get (64);
        room = room && malloc_usable_size (shm->arena.extents) >= shm->arena.count * sizeof *shm->arena.extents;
    }
    ok (room, "the books have room for all blocks");
    for (int i = 0; i < 70; i++)
        shm_free (shm, blocks[i]);
    ok (shm->arena.count == 3, "and all can be freed");
    end_ranks ();
}

static void
test_host_without_memory (void)
{
    void *memory;
    make_members (2);
    told.fallocate_error = EINTR;
    told.fallocate_times = 2;
    is_error (shm_alloc (ranks[0], &memory, 100, &err), ACCEL_OK, "");
    told.fallocate_error = ENOSPC;
    told.fallocate_good = 1;
    unsigned before = saw.holes;
    enum accel_status status = shm_alloc (ranks[0], &memory, 65 << 20, &err);
    ok (err.sys_errno == ENOSPC, "the system's error is reported");
    is_error (status, ACCEL_ERR_NOMEM, "the host cannot provide 68157440 bytes: No space left");
    ok (saw.holes == before + 1, "what was reserved of it is given back");
    end_ranks ();
}

static void
test_layout (void)
{
    make_members (2);
    unsigned char *there = (unsigned char *) get (100), *stage = ranks[0]->stages;
    *there = *stage = 1;
    MUST (shm_lay_out (ranks[0], &err));
    ok (!*there && !*stage, "a new program finds nothing of the one before");
    told.fallocate_error = ENOSPC;
    is_error (shm_lay_out (ranks[0], &err), ACCEL_ERR_SYSTEM, "cannot allocate");
    end_ranks ();

    make_ranks (2);
    told.pages = 1L << 40;
    told.address_space = (rlim_t) 1 << 36;
    MUST (shm_lay_out (ranks[0], &err));
    size_t end = ranks[0]->layout.end, arena = ranks[0]->layout.arena_bytes;
    ok (end <= (size_t) 1 << 35 && arena >= (size_t) 1 << 27,
        "arenas take half of the address space at most: %zu", end);
    end_ranks ();

    make_ranks (MANY_RANKS);
    told.pages = 1L << 40;
    told.no_files = true;
    MUST (shm_lay_out (ranks[0], &err));
    ok (ranks[0]->layout.arena_bytes * MANY_RANKS <= (size_t) 16 << 40, "all arenas together have a bound");
    end_ranks ();

    make_members (2);
    shm_destroy (ranks[1]);
    ranks[1] = make_rank (1, 2);
    told.no_mmap = true;
    is_error (shm_map (ranks[1], &err), ACCEL_ERR_SYSTEM, "cannot map");
    end_ranks ();
}

/* ---- buffers that all have mapped ---- */

enum { MANY = SHM_INLINE / sizeof (float) + 1 };

/* Others read this rank's buffer until they publish their next step: no call may end before. */
static void
test_buffers_in_use (void)
{
    static const enum accel_engine_kind kinds[] = {
        ACCEL_ENGINE_ALL_REDUCE, ACCEL_ENGINE_ALL_GATHER, ACCEL_ENGINE_BROADCAST,
        ACCEL_ENGINE_REDUCE_SCATTER, ACCEL_ENGINE_ALL_TO_ALL,
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        make_members (2);
        struct accel_engine_call call = call_of (kinds[i]);
        void *memory;
        act (0, ranks[0]);
        MUST (shm_alloc (ranks[1], &memory, 4 * sizeof (float) * MANY, &err));
        call.count = MANY;
        call.send = get (2 * sizeof (float) * MANY);
        call.recv = get (2 * sizeof (float) * MANY);
        call.root = kinds[i] == ACCEL_ENGINE_BROADCAST ? 0 : -1;
        struct shm_post *post = fill_post (1, kinds[i]);
        post->count = MANY;
        post->root = call.root;
        post->send = post->recv = shm_offset (ranks[1], memory, 2 * sizeof (float) * MANY);
        shm_publish (ranks[1], post);
        is_error (shm_run (ranks[0], &call, &err), ACCEL_ERR_TIMEOUT, "rank 0 timed out after 300 ms in");
        end_ranks ();
    }
}

/* ---- groups ---- */

static void
test_groups (void)
{
    int64_t group_id, inner_id;
    void *outer, *inner;
    struct accel_engine_call call = call_of (ACCEL_ENGINE_BARRIER);
    make_members (4);
    MUST (shm_make_group (ranks[1], 2, &group_id, &err));
    ok (ranks[1]->led_groups && !ranks[0]->led_groups, "who has the memory of a group knows");
    ok (group_id == (int64_t) ranks[1]->layout.arena_bytes, "it lies in its arena");
    MUST (shm_join_group (ranks[1], (int[]){ 1, 3 }, 2, 0, group_id, &outer, &err));
    MUST (shm_make_group (outer, 2, &inner_id, &err));
    ok (inner_id > group_id && ranks[1]->arena.count == 2, "a group within it has memory of the world");
    MUST (shm_join_group (outer, (int[]){ 1, 0 }, 2, 1, inner_id, &inner, &err));
    act (1, inner);
    is_error (shm_run (inner, &call, &err), ACCEL_ERR_TIMEOUT, "for rank 3 (computing");
    shm_destroy (inner);
    shm_destroy (outer);
    end_ranks ();
}

/* ---- other programs ---- */

static int yields, yield_ms = -1;

/* Instead of the C library's: another program takes @yield_ms. */
int
sched_yield (void)
{
    yields++;
    if (yield_ms > 0)
        nanosleep (&(struct timespec){ .tv_nsec = yield_ms * 1000000 }, NULL);
    return yield_ms < 0 ? (int) syscall (SYS_sched_yield) : 0;
}

/* @return how many of @count calls have let others run */
static int
count_yields (struct shm *shm, int count)
{
    yields = 0;
    for (int i = 0; i < count; i++)
        shm_yield (shm);
    return yields;
}

/* A machine may be busy: a yield that should be short may still be long. */
static void
test_yields (void)
{
    struct shm shm = { .size = 2 };
    yield_ms = 2;
    ok (!shm_yield (&shm) && shm_is_crowded (&shm), "who yields to another program sleeps then, and does not spin");
    ok (!count_yields (&shm, SHM_SLEEPS), "so do the next waits");
    ok (count_yields (&shm, 1 + 2 * SHM_SLEEPS) == 1, "another long yield: twice as many");
    ok (count_yields (&shm, 10000) <= 20, "and so on, up to a limit");
    yield_ms = 0;
    ok (count_yields (&shm, 10000) > 1000 && !shm.crowded, "where yields are short again, waits yield");
    yield_ms = 2;
    ok (count_yields (&shm, 2 + SHM_SLEEPS) == 2, "and the next long one counts as the first");
    yield_ms = -1;
}

int
main (void)
{
    alarm (900);
    test_yields ();
    test_differences ();
    test_missing ();
    test_blame ();
    test_same_processor ();
    test_gone ();
    test_watch ();
    test_leave ();
    test_recv ();
    test_send ();
    test_arena ();
    test_host_without_memory ();
    test_layout ();
    test_buffers_in_use ();
    test_groups ();
    return done_testing ();
}
