/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the engines: how ranks meet, what they learn of those that do not come, and what is left.
 * See shm_puppets.h. */
#include <config.h>

#include "tests/unit/core/shm_puppets.h"

#include "lib/engines/engine.h"
#include "util/envnames.h"

#include <signal.h>
#include <sys/un.h>
#include <sys/wait.h>

static struct engine_job job;

static struct engine_job
job_of (int rank, int size)
{
    return (struct engine_job){
        .base = { .size = sizeof job.base, .rank = rank, .world_size = size, .local_rank = rank,
                  .local_world_size = size, .timeout_ms = TIMEOUT_MS },
        .segment = JOBSEG_NONE,
    };
}

/* ---- joining ---- */

static void
set_slot (int rank, enum jobseg_state state, uint32_t generation)
{
    struct jobseg_slot *slot = jobseg_slot (&segment, rank);
    atomic_store (&slot->pid, getpid ());
    atomic_store (&slot->pid_space, procfs_pid_space ());
    atomic_store (&slot->generation, generation);
    atomic_store (&slot->exchanged, (uint64_t) generation << 32 | 1); /* it has laid out its memory, or waits */
    atomic_store (&slot->state, state);
}

static void
fail_slot (int rank, const char *reason)
{
    struct jobseg_slot *slot = jobseg_slot (&segment, rank);
    set_slot (rank, JOBSEG_FAILED, 1);
    snprintf (slot->reason, sizeof slot->reason, "%s", reason);
    atomic_store (&slot->failed_generation, 1);
}

/* The slot is in use already, in the state READY. */
static void
claim (pid_t pid, uint32_t space, enum accel_status wanted, const char *words)
{
    make_ranks (1);
    struct jobseg_slot *slot = ranks[0]->slot;
    set_slot (0, JOBSEG_READY, 0);
    atomic_store (&slot->pid, pid);
    atomic_store (&slot->pid_space, space);
    atomic_store (&slot->ledger_count, 5);
    enum accel_status status = join (0, &job);
    struct jobseg_record record;
    bool untouched = status || !jobseg_latest (slot, &record);
    is_error (status, wanted, words);
    ok (untouched, "the records of the program before are not this one's");
    ok (status || was_woken (&slot->state), "who waits for a rank is woken when it comes");
    end_ranks ();
}

static void
test_claim (void)
{
    pid_t other = make_process ();
    uint32_t space = procfs_pid_space ();
    claim (other, space, ACCEL_ERR_INVALID, "are both rank 0");
    claim (other, space + 1, ACCEL_OK, "");
    claim (getpid (), space, ACCEL_OK, "");
    kill (other, SIGKILL);
    waitpid (other, NULL, 0);
    claim (other, space, ACCEL_OK, "");

    make_ranks (1);
    set_slot (0, JOBSEG_LEFT, 0);
    saw.claimed = &ranks[0]->slot->state;
    saw.state_while_claiming = JOBSEG_LEFT;
    MUST (join (0, &job));
    saw.claimed = NULL;
    ok (saw.state_while_claiming == JOBSEG_EMPTY, "a rank has no state while it takes its slot");
    end_ranks ();
}

static void
test_lead (void)
{
    make_ranks (3);
    set_slot (1, JOBSEG_JOINING, 1);
    set_slot (2, JOBSEG_READY, 0);
    enum accel_status status = join (0, &job);
    is_text (ranks[0]->slot->reason, err.text, "the others learn why it failed");
    ok (atomic_load (&ranks[0]->slot->state) == JOBSEG_FAILED, "so is that it did");
    is_error (status, ACCEL_ERR_TIMEOUT,
              "rank 0 timed out after 300 ms, waiting for rank 2 (computing, no collective yet)");
    end_ranks ();

    make_ranks (3);
    fail_slot (1, "no data");
    set_slot (2, JOBSEG_EMPTY, 0);
    jobseg_mark_exit (&segment, 2, SIGKILL);
    is_error (join (0, &job), ACCEL_ERR_PEER,
              "rank 2 was killed by signal 9 (SIGKILL) before all ranks had joined");
    end_ranks ();

    make_ranks (3);
    set_slot (1, JOBSEG_JOINING, 1);
    set_slot (2, JOBSEG_READY, 1);
    is_error (join (0, &job), ACCEL_OK, "");
    ok (was_woken (&segment.header->ready_generation), "followers are woken");
    ok (atomic_load (&ranks[0]->slot->state) == JOBSEG_READY, "the leader is a member");
    end_ranks ();
}

static void
let_in (void)
{
    atomic_store (&segment.header->ready_generation, 1);
}

static void
test_follow (void)
{
    make_ranks (3);
    set_slot (0, JOBSEG_JOINING, 1);
    is_error (join (1, &job), ACCEL_ERR_TIMEOUT, "for rank 2 (not in accel_open() yet)");
    set_slot (2, JOBSEG_JOINING, 1);
    is_error (join (1, &job), ACCEL_ERR_TIMEOUT, "waiting for rank 0 to let it in");
    end_ranks ();

    /* All had joined: what happened to one of them after that is for the first collective. */
    make_ranks (3);
    MUST (shm_lay_out (ranks[0], &err));
    set_slot (0, JOBSEG_JOINING, 1);
    set_slot (2, JOBSEG_JOINING, 1);
    pid_t pid = fork ();
    if (!pid)
        _exit (0);
    waitpid (pid, NULL, 0);
    atomic_store (&ranks[2]->slot->pid, pid);
    told.waits = let_in;
    is_error (join (1, &job), ACCEL_OK, "");
    end_ranks ();
}

/* ---- what ranks tell each other while they open ---- */

static void
tell (int rank, uint32_t round, const char *text)
{
    struct jobseg_slot *slot = jobseg_slot (&segment, rank);
    snprintf ((char *) slot->blobs[round & 1], JOBSEG_BLOB, "%s", text);
    atomic_store (&slot->exchanged, UINT64_C (1) << 32 | round);
}

static void
tell_late (void)
{
    tell (1, 3, "third");
}

static void
test_exchange (void)
{
    char all[2][8], large[2 * JOBSEG_BLOB];
    make_members (2);
    struct bootstrap *own = &members[0];
    is_error (bootstrap_exchange (own, (char[8]){ "mine" }, all, sizeof *all, &err), ACCEL_ERR_TIMEOUT,
              "accel_open: rank 0 timed out after 300 ms, waiting for rank 1 (computing, no collective yet)");
    own->round = 0;
    tell (1, 1, "first");
    is_error (bootstrap_exchange (own, (char[8]){ "mine" }, all, sizeof *all, &err), ACCEL_OK, "");
    ok (!strcmp (all[0], "mine") && !strcmp (all[1], "first"), "each rank has what all told");
    ok (was_woken (&own->slot->exchange_bell), "who waits for it is woken");
    tell (1, 2, "second");
    is_error (bootstrap_exchange (own, (char[8]){ "more" }, all, sizeof *all, &err), ACCEL_OK, "");
    ok (!strcmp (all[0], "more") && !strcmp (all[1], "second"), "and then the next");
    ok (!strcmp ((char *) own->slot->blobs[1], "mine"), "while slower ranks may still read the one before");
    told.waits = tell_late;
    is_error (bootstrap_exchange (own, (char[8]){ "last" }, all, sizeof *all, &err), ACCEL_OK, "");
    ok (!strcmp (all[1], "third"), "a rank may be late");
    atomic_store (&jobseg_slot (&segment, 1)->exchanged, 0);
    own->round = 2;
    pid_t pid = fork ();
    if (!pid)
        _exit (0);
    waitpid (pid, NULL, 0);
    atomic_store (&jobseg_slot (&segment, 1)->pid, pid);
    is_error (bootstrap_exchange (own, (char[8]){ "last" }, all, sizeof *all, &err), ACCEL_OK, "");
    told.waits = NULL;
    atomic_store (&jobseg_slot (&segment, 1)->generation, 2);
    atomic_store (&jobseg_slot (&segment, 1)->exchanged, UINT64_C (2) << 32 | 1);
    own->round = 2;
    is_error (bootstrap_exchange (own, (char[8]){ "last" }, all, sizeof *all, &err), ACCEL_OK, "");
    set_slot (1, JOBSEG_JOINING, 1);
    jobseg_mark_exit (&segment, 1, SIGKILL);
    is_error (bootstrap_exchange (own, (char[8]){ "late" }, all, sizeof *all, &err), ACCEL_ERR_PEER,
              "accel_open: rank 1 was killed by signal 9 (SIGKILL) before all ranks had joined");
    is_error (bootstrap_exchange (own, large, large, JOBSEG_BLOB + 1, &err), ACCEL_ERR_INVALID,
              "exchanges 257 bytes, but at most 256 are possible");
    end_ranks ();
    job = job_of (0, 2);
    job.base.world_size = 4; /* the others are on another host */
    struct bootstrap none;
    is_error (bootstrap_open (&none, &job, &err), ACCEL_OK, "");
    is_error (bootstrap_exchange (&none, (char[8]){ "mine" }, all, sizeof *all, &err), ACCEL_ERR_UNSUPPORTED,
              "all are on one host");
    bootstrap_close (&none);
}

/* ---- the rendezvous ---- */

/* As in rendezvous.c. */
struct hello {
    uint64_t magic;
    uint32_t version;
    uint32_t local_rank;
    uint32_t local_world_size;
    uint32_t unused;
};

static struct engine_job leader, follower;
static int listener = -1;
static enum accel_status served;
static struct accel_error serving_err;

/* The leader does what it does while it waits for the others. */
static void
serve (void)
{
    void (*before) (void) = told.waits;
    int strangers = told.stranger; /* the others are not strangers to it */
    told.waits = NULL;
    told.stranger = 0;
    served = bootstrap_serve (&leader, listener, 0, &serving_err);
    told.waits = before;
    told.stranger = strangers;
}

static void
host (void)
{
    memset (&told, 0, sizeof told);
    saw.waits = 0;
    leader = job_of (0, 2);
    follower = job_of (1, 2);
    MUST (bootstrap_rendezvous (&leader, &listener, &err));
}

static void
end_host (void)
{
    memset (&told, 0, sizeof told);
    if (listener >= 0)
        close (listener);
    listener = -1;
    jobseg_detach (&leader.segment);
    jobseg_detach (&follower.segment);
}

/* The follower, served by the leader of host(). */
static void
ask (enum accel_status wanted, const char *words)
{
    int unused = -1, before = count_descriptors ();
    told.waits = serve;
    enum accel_status status = bootstrap_rendezvous (&follower, &unused, &err);
    ok (count_descriptors () == before + (status == ACCEL_OK), "no descriptor is left open");
    is_error (status, wanted, words);
}

static void
test_meeting (void)
{
    struct stat ours, theirs;
    host ();
    ask (ACCEL_OK, "");
    ok (!fstat (leader.segment.fd, &ours) && !fstat (follower.segment.fd, &theirs) && ours.st_ino == theirs.st_ino,
        "both have one segment");
    end_host ();

    host ();
    follower.base.world_size = 4;
    ask (ACCEL_ERR_TIMEOUT, "rank 1 timed out after 300 ms, waiting for rank 0 (socket @accel-");
    end_host ();
    host ();
    setenv (ENV_MASTER_PORT, "23", 1);
    ask (ACCEL_ERR_TIMEOUT, "rank 1 timed out after 300 ms, waiting for rank 0 (socket @accel-");
    unsetenv (ENV_MASTER_PORT);
    end_host ();
    host ();
    told.stranger = 1 << 20; /* whoever answers */
    ask (ACCEL_ERR_TIMEOUT, "rank 1 timed out after 300 ms, waiting for rank 0 (socket @accel-");
    end_host ();
}

/* Fallback names are the primary one, a dash and 16 digits that cannot be foreseen; others only begin so. */
static void
test_names (void)
{
    struct bootstrap_address primary, fallback, other;
    char text[1024], wanted[128];
    job = job_of (0, 2);
    bootstrap_primary_address (&job, &primary);
    ok (bootstrap_fallback_address (&primary, &fallback) && bootstrap_fallback_address (&primary, &other)
            && strcmp (bootstrap_address_text (&fallback), bootstrap_address_text (&other)),
        "fallback names are not foreseen");
    const char *name = bootstrap_address_text (&primary);
    snprintf (text, sizeof text, "1 @%s\n1 @%s-0123456789abcde\n1 @%s-0123456789abcdef0\n1 @%s-0123456789abcdef.x\n"
              "1 @%s-fedcba9876543210\n1 @%s-fedcba987654321g\n", name, name, name, name, name, name);
    FILE *list = fmemopen (text, strlen (text), "r");
    snprintf (wanted, sizeof wanted, "%s-fedcba9876543210", name);
    ok (list && bootstrap_next_fallback (list, &primary, &fallback), "a fallback name is found");
    is_text (bootstrap_address_text (&fallback), wanted, "and is the whole one");
    ok (list && !bootstrap_next_fallback (list, &primary, &other), "there is no other");
    if (list)
        fclose (list);
}

/* Hydra's jobs differ in nothing but the process that serves their ranks. */
static void
test_names_of_hydra (void)
{
    struct bootstrap_address plain, first, second, port;
    char number[16];
    int ends[2], more[2];
    job = job_of (0, 2);
    bootstrap_primary_address (&job, &plain);
    ok (!socketpair (AF_UNIX, SOCK_STREAM, 0, ends) && !socketpair (AF_UNIX, SOCK_STREAM, 0, more), "socket pairs");
    snprintf (number, sizeof number, "%d", ends[0]);
    setenv ("PMI_FD", number, 1);
    bootstrap_primary_address (&job, &first);
    snprintf (number, sizeof number, "%d", more[0]);
    setenv ("PMI_FD", number, 1);
    bootstrap_primary_address (&job, &second);
    unsetenv ("PMI_FD");
    setenv ("PMI_PORT", "host:1", 1);
    bootstrap_primary_address (&job, &port);
    unsetenv ("PMI_PORT");
    ok (strcmp (bootstrap_address_text (&plain), bootstrap_address_text (&first)) != 0, "PMI_FD tells jobs apart");
    is_text (bootstrap_address_text (&second), bootstrap_address_text (&first), "but not ranks of one server");
    ok (strcmp (bootstrap_address_text (&plain), bootstrap_address_text (&port)) != 0, "PMI_PORT does, too");
    close (ends[0]), close (ends[1]), close (more[0]), close (more[1]);
}

/* Only a name that is in use is asked after. */
static void
test_bind_fails (void)
{
    int unused = -1;
    memset (&told, 0, sizeof told);
    leader = job_of (0, 2);
    told.bind_error = EACCES;
    saw.binds = 0;
    is_error (bootstrap_rendezvous (&leader, &unused, &err), ACCEL_ERR_SYSTEM,
              "accel_open: cannot bind the socket @accel-");
    ok (saw.binds == 1, "after one trial: %u", saw.binds);
    listener = unused;
    end_host ();
}

/* The leader's address is the name of its segment. */
static socklen_t
address_of_leader (struct sockaddr_un *address)
{
    const char *name = leader.segment.header->job_id;
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    memcpy (address->sun_path + 1, name, strlen (name));
    return (socklen_t) (offsetof (struct sockaddr_un, sun_path) + 1 + strlen (name));
}

/* @return whether a process that sends @hello gets a segment */
static bool
is_served (struct hello hello, int strangers)
{
    struct sockaddr_un address;
    char reply[64];
    socklen_t length = address_of_leader (&address);
    int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool sent = !connect (fd, (struct sockaddr *) &address, length)
                && send (fd, &hello, sizeof hello, MSG_NOSIGNAL) == (ssize_t) sizeof hello;
    told.stranger = strangers;
    bool accepted = !bootstrap_serve (&leader, listener, 0, &serving_err);
    told.stranger = 0;
    bool has_segment = sent && accepted && recv (fd, reply, sizeof reply, 0) == (ssize_t) sizeof hello;
    close (fd);
    return has_segment;
}

static void
test_serving (void)
{
    struct hello good = { .magic = JOBSEG_MAGIC, .version = JOBSEG_VERSION, .local_rank = 1, .local_world_size = 2 };
    struct hello other = good;
    host ();
    ok (is_served (good, 0), "a rank of the job gets the segment");
    ok (!is_served (good, 1), "another user does not");
    other.local_world_size = 3;
    ok (!is_served (other, 0), "nor does a job of another size");
    other = good;
    other.version++;
    ok (!is_served (other, 0), "nor another release");
    end_host ();
}

static struct hello answer;
static size_t answer_bytes;
static bool answered;

/* What takes the leader's place answers, and hands out the segment. */
static void
answer_badly (void)
{
    int client = accept (listener, NULL, NULL);
    char hello[64];
    if (client < 0 || recv (client, hello, sizeof hello, 0) < 0) /* or closing would throw the answer away */
        return;
    answered = true;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE (sizeof (int))];
    } control = { 0 };
    struct iovec part = { &answer, answer_bytes };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control.bytes };
    struct cmsghdr *header = CMSG_FIRSTHDR (&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN (sizeof (int));
    memcpy (CMSG_DATA (header), &leader.segment.fd, sizeof (int));
    sendmsg (client, &message, MSG_NOSIGNAL);
    close (client);
}

static void
test_bad_answers (void)
{
    static const struct {
        size_t bytes;
        uint32_t version;
        uint64_t magic;
    } cases[] = { { sizeof answer - 4, JOBSEG_VERSION, JOBSEG_MAGIC },
                  { sizeof answer, JOBSEG_VERSION + 1, JOBSEG_MAGIC },
                  { sizeof answer, JOBSEG_VERSION, JOBSEG_MAGIC + 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        host ();
        answer = (struct hello){ .magic = cases[i].magic, .version = cases[i].version, .local_world_size = 2 };
        answer_bytes = cases[i].bytes;
        int unused = -1, before = count_descriptors ();
        told.waits = answer_badly;
        enum accel_status status = bootstrap_rendezvous (&follower, &unused, &err);
        ok (count_descriptors () == before, "what came with a bad answer is closed");
        is_error (status, ACCEL_ERR_TIMEOUT, "waiting for rank 0");
        ok (answered, "there was an answer");
        answered = false;
        end_host ();
    }
}

static void
close_listener (void)
{
    close (listener);
    listener = -1;
}

static void
test_taken_name (void)
{
    struct engine_job second = job_of (0, 2);
    int its_listener = -1;
    host ();
    told.waits = serve;
    is_error (bootstrap_rendezvous (&second, &its_listener, &err), ACCEL_ERR_INVALID, "are both rank 0");
    ok (served == ACCEL_ERR_INVALID && strstr (serving_err.text, "are both rank 0"), "the first says it, too: %s",
        serving_err.text);
    close (its_listener);
    jobseg_detach (&second.segment);
    told.waits = close_listener; /* an earlier program of the job ends */
    is_error (bootstrap_rendezvous (&second, &its_listener, &err), ACCEL_OK, "");
    close (its_listener);
    jobseg_detach (&second.segment);
    end_host ();
}

/* ---- opening ---- */

static struct bootstrap boot;
static const struct accel_engine_helpers opening = { .context = &boot, .exchange = exchange };

/* Rank 0 of two, the other of which is there, in @generation; 0: it is not. */
static struct shm *
open_job (uint32_t generation, enum accel_status wanted, const char *words)
{
    void *transport = NULL;
    job = job_of (0, 2);
    job.segment = segment;
    job.base.helpers = &opening;
    if (generation)
        set_slot (1, JOBSEG_JOINING, generation);
    enum accel_status status = bootstrap_open (&boot, &job, &err);
    if (!status)
        status = engine_shm.open (&transport, &job.base, &err);
    is_error (status, wanted, words);
    return transport;
}

static void
close_job (struct shm *shm)
{
    if (shm)
        engine_shm.close (shm);
    bootstrap_close (&boot);
}

static void
open_twice (enum accel_status wanted, const char *words)
{
    struct bootstrap second;
    job = job_of (0, 2);
    job.segment = segment;
    is_error (bootstrap_open (&second, &job, &err), wanted, words);
    bootstrap_close (&second);
}

static void
test_open (void)
{
    job = job_of (0, 2);
    is_error (engine_shm.probe (&job.base, &err), ACCEL_OK, "");
    job = job_of (0, JOBSEG_MAX_LOCAL + 1);
    is_error (engine_shm.probe (&job.base, &err), ACCEL_ERR_UNSUPPORTED, "at most 4096 processes");

    make_ranks (2);
    struct shm *first = open_job (1, ACCEL_OK, "");
    open_twice (ACCEL_ERR_INVALID, "this process has already joined its job");
    open_twice (ACCEL_ERR_INVALID, "this process has already joined its job");
    close_job (first);
    close_job (open_job (2, ACCEL_OK, ""));
    end_ranks ();

    make_ranks (2);
    close_job (open_job (0, ACCEL_ERR_TIMEOUT, "for rank 1"));
    set_slot (0, JOBSEG_EMPTY, 0);
    cpu_set_t before, one;
    CPU_ZERO (&one);
    CPU_SET ((size_t) sched_getcpu (), &one);
    bool bound = !sched_getaffinity (0, sizeof before, &before) && !sched_setaffinity (0, sizeof one, &one);
    struct shm *shm = open_job (1, ACCEL_OK, "");
    ok (!bound || shm->crowded, "two ranks on one processor are crowded");
    if (bound)
        sched_setaffinity (0, sizeof before, &before);
    close_job (shm);
    end_ranks ();
}

/* Ranks of several hosts meet elsewhere.  Their slots show the launcher what they do. */
static void
test_several_hosts (void)
{
    struct bootstrap shown, second;
    char text[320];
    make_ranks (2);
    struct jobseg_slot *slot = jobseg_slot (&segment, 1);
    set_slot (1, JOBSEG_LEFT, 1);
    atomic_store (&slot->ledger_count, 5); /* of its program before */
    job = job_of (1, 2);
    job.base.rank = 3;
    job.base.world_size = 4;
    job.segment = segment;
    is_error (bootstrap_open (&shown, &job, &err), ACCEL_OK, "");
    jobseg_describe (slot, text, sizeof text);
    ok (!strcmp (text, "in accel_open()"), "several hosts: %s", text);
    bootstrap_ready (&shown);
    jobseg_describe (slot, text, sizeof text);
    ok (!strcmp (text, "computing, no collective yet"), "%s", text);
    bootstrap_leave (&shown, JOBSEG_FAILED, "rank 0 ended (process 7); meanwhile rank 3 was in accel_gather");
    bootstrap_leave (&shown, JOBSEG_LEFT, NULL);
    jobseg_describe (slot, text, sizeof text);
    ok (jobseg_lost_rank (text) == 0, "%s", text);
    bootstrap_close (&shown);
    atomic_store (&slot->pid, getppid ());
    atomic_store (&slot->state, JOBSEG_READY);
    bootstrap_leave (&shown, JOBSEG_LEFT, NULL);
    ok (atomic_load (&slot->state) == JOBSEG_READY, "the slot is not written after the job is closed");
    is_error (bootstrap_open (&second, &job, &err), ACCEL_OK, "");
    bootstrap_ready (&second);
    bootstrap_leave (&second, JOBSEG_LEFT, NULL);
    ok (atomic_load (&slot->state) == JOBSEG_READY && atomic_load (&slot->pid) == getppid (),
        "a second program leaves the slot to the first");
    bootstrap_close (&second);
    end_ranks ();
}

/* Whose memory is given back when it closes, as far as can be seen from outside. */
static void
test_close (void)
{
    void *memory;
    int64_t group_id;
    for (int what = 0; what < 4; what++) {
        make_ranks (2);
        struct shm *shm = open_job (1, ACCEL_OK, "");
        if (what)
            MUST (shm_alloc (shm, &memory, 100, &err));
        if (what == 2)
            MUST (shm_make_group (shm, 1, &group_id, &err));
        if (what == 3)
            shm->pid = ++boot.pid; /* as in a fork */
        unsigned before = saw.holes;
        close_job (shm);
        static const char *const names[] = { "nothing is given back", "memory is given back",
                                             "but not where groups meet", "and not by a fork" };
        ok (saw.holes == before + (what == 1), "%s", names[what]);
        if (what == 3) { /* its parent is still a member */
            open_twice (ACCEL_ERR_INVALID, "already joined its job");
            break;
        }
        end_ranks ();
    }
    end_ranks ();
}

/* ---- a process alone ---- */

static struct jobseg own;

static void *
open_self (void)
{
    void *transport = NULL;
    struct fail fail;
    job = job_of (0, 1);
    jobseg_detach (&job.segment);
    if (segment.header && jobseg_attach_fd (&job.segment, dup (segment.fd), &fail))
        MUST (ACCEL_ERR_SYSTEM);
    MUST (engine_self.open (&transport, &job.base, &err));
    own = job.segment;
    return transport;
}

static void
close_self (void *transport)
{
    engine_self.close (transport);
    jobseg_detach (&own);
}

static void
test_self (void)
{
    pid_t other = make_process ();
    make_ranks (1);
    struct jobseg_slot *slot = ranks[0]->slot;
    set_slot (0, JOBSEG_READY, 0);
    atomic_store (&slot->pid, other);
    void *transport = open_self ();
    ok (!own.header && atomic_load (&slot->pid) == other, "the slot of a living process is left alone");
    engine_self.give_up (transport, "not told");
    close_self (transport);
    ok (atomic_load (&slot->state) == JOBSEG_READY, "also at the end");
    kill (other, SIGKILL);
    waitpid (other, NULL, 0);
    transport = open_self ();
    ok (own.header && atomic_load (&slot->pid) == getpid () && atomic_load (&slot->generation) == 1,
        "the slot of a dead process is used again");
    engine_self.give_up (transport, "no data");
    is_text (slot->reason, "no data", "why it gave up is recorded");
    ok (atomic_load (&slot->state) == JOBSEG_FAILED, "and that it did");
    atomic_store (&slot->state, JOBSEG_READY);
    atomic_store (&slot->pid, getpid () + 1);
    close_self (transport);
    ok (atomic_load (&slot->state) == JOBSEG_READY, "a fork does not leave for its parent");
    atomic_store (&slot->state, JOBSEG_EMPTY);
    close_self (open_self ());
    ok (atomic_load (&slot->state) == JOBSEG_LEFT, "who closes has left");
    end_ranks ();

    static const enum accel_engine_kind kinds[] = {
        ACCEL_ENGINE_ALL_REDUCE, ACCEL_ENGINE_ALL_GATHER, ACCEL_ENGINE_REDUCE_SCATTER, ACCEL_ENGINE_ALL_TO_ALL,
    };
    transport = open_self ();
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        float from[3] = { 1, 2, 3 }, to[3] = { 0, 0, 9 };
        struct accel_engine_call call = { .site = &here, .send = from, .recv = to, .count = 2, .element_bytes = 4,
                                     .kind = kinds[i], .dtype = ACCEL_FLOAT32, .device = { kDLCPU, 0 } };
        MUST (engine_self.run (transport, &call, &err));
        ok (to[0] == 1 && to[1] == 2 && to[2] == 9, "kind %d copies what the call asks for", (int) kinds[i]);
    }
    struct accel_engine_call newer = { .site = &here, .kind = (enum accel_engine_kind) 40 };
    is_error (engine_self.run (transport, &newer, &err), ACCEL_ERR_UNSUPPORTED, "unknown kind of collective 40");
    is_error (engine_shm.run (transport, &newer, &err), ACCEL_ERR_UNSUPPORTED, "unknown kind of collective 40");
    close_self (transport);
}

int
main (void)
{
    alarm (900);
    unsetenv (ENV_MASTER_PORT);
    char name[32];
    snprintf (name, sizeof name, "test-%d", (int) getpid ()); /* two runs at once are two jobs */
    setenv ("TORCHELASTIC_RUN_ID", name, 1);
    test_claim ();
    test_lead ();
    test_follow ();
    test_exchange ();
    test_meeting ();
    test_names ();
    test_names_of_hydra ();
    test_bind_fails ();
    test_serving ();
    test_bad_answers ();
    test_taken_name ();
    test_open ();
    test_several_hosts ();
    test_self ();
    test_close (); /* last: it leaves this process a member */
    return done_testing ();
}
