/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of engine mpi that need no other rank: bundles of messages, who is on which host, and what it asks of MPI. */
#include <config.h>

#include "engines/mpi/communicators.h"
#include "engines/mpi/topology.h"

#include "engines/mpi/communicator.c"
#include "engines/mpi/host.c"
#include "engines/mpi/operation.c"
#include "engines/mpi/outbox.c"

#include "tests/balance.h"
#include "tests/engines/mpi_standin.h"
#include "tests/tap.h"

enum { RANKS = 4, SLOT = 256, ROOM = 2048, MANY_POSTS = 150 };

static _Alignas (max_align_t) unsigned char memory[sizeof (struct message) + ROOM];
static struct message *const bundle = (struct message *) (void *) memory;

/* Add a message of a rank with this many bytes of data to the bundle. */
static void
add (int rank, uint32_t bytes)
{
    size_t at = bundle->header.inline_bytes;
    struct header header = { .rank = rank, .inline_bytes = bytes };
    memcpy (bundle->data + at, &header, sizeof header);
    bundle->header.inline_bytes += (uint32_t) round_up (data_at () + bytes, sizeof (uint64_t));
}

static void
begin_bundle (void)
{
    memset (memory, 0, sizeof memory);
    *mpi.world.error = '\0';
}

/* How many messages are received, each from the rank that is next in @ranks. */
static int
take (struct communicator *comm, const int *ranks)
{
    size_t at = 0;
    int rank, count = 0;
    while (outbox_unpack (comm, bundle, &at, &rank) && rank == ranks[count] && comm->direct
           && comm->direct->rank == rank)
        count++;
    return count;
}

/* Ranks 0 and 1 are here, 2 and 3 on another host; whoever sends, nothing past the bundle is read. */
static void
test_bundles (void)
{
    const int labels[RANKS] = { 0, 0, 2, 2 };
    struct queue bundled[RANKS] = { 0 };
    struct communicator comm = { .size = RANKS, .rank = 1, .bundled = bundled };
    mpi.host.topology = topology_create (labels, RANKS, 1);
    mpi.host.world_size = RANKS;
    mpi.host.slot_bytes = SLOT;
    if (!mpi.host.topology)
        exit (99);
    for (uint32_t bytes = 0; bytes <= 9; bytes++) {
        begin_bundle ();
        add (2, bytes);
        add (3, bytes);
        ok (take (&comm, (int[]){ 2, 3, -1 }) == 2 && !*mpi.world.error, "two messages of %u bytes", bytes);
    }
    begin_bundle ();
    add (3, (uint32_t) (SLOT - data_at ()));
    ok (take (&comm, (int[]){ 3, -1 }) == 1 && !*mpi.world.error, "one that fills its slot");
    begin_bundle ();
    add (3, (uint32_t) (SLOT - data_at () + 1));
    ok (!take (&comm, (int[]){ 3, -1 }) && *mpi.world.error, "one that does not fit");
    begin_bundle ();
    add (2, 16);
    bundle->header.inline_bytes -= 8;
    ok (!take (&comm, (int[]){ 2, -1 }) && *mpi.world.error, "a bundle that ends in the data of a message");
    begin_bundle ();
    add (2, 0);
    add (3, 0);
    bundle->header.inline_bytes -= 8;
    ok (take (&comm, (int[]){ 2, 3, -1 }) == 1 && !*mpi.world.error, "less than a message is not a message");
    for (int i = 0; i < 4; i++) {
        begin_bundle ();
        add ((int[]){ -1, RANKS, 0, 1 }[i], 0);
        ok (!take (&comm, (int[]){ -1, -1 }) && *mpi.world.error, "a message of rank %d",
            (int[]){ -1, RANKS, 0, 1 }[i]);
    }
    topology_destroy (mpi.host.topology);
    mpi.host.topology = NULL;
}

/* @hosts: of each rank, what it says: machine, rank and size on its host */
static void
test_hosts (const char *what, const struct host_info *all, int count, bool good, const int *wanted)
{
    int labels[RANKS] = { 0 }, counts[RANKS] = { 0 };
    bool found = find_hosts (all, count, labels, counts);
    ok (found == good && (!good || !memcmp (labels, wanted, (size_t) count * sizeof *labels)), "%s", what);
}

/* ---- where ranks are ---- */

/* @return @bytes of memory with nothing before them, or nothing after them; to be released with its page */
static void *
at_an_edge (size_t bytes, bool at_end, char **pages)
{
    size_t page = (size_t) sysconf (_SC_PAGESIZE);
    *pages = mmap (NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (*pages == MAP_FAILED || mprotect (*pages + page, page, PROT_READ | PROT_WRITE))
        exit (99);
    return at_end ? *pages + 2 * page - bytes : *pages + page;
}

/* What a communicator looks at when nothing has come. */
static void
test_edges (void)
{
    const int labels[RANKS] = { 0, 0, 2, 2 };
    static struct counters counters[2];
    static char outboxes[1 << 16];
    for (int at_end = 0; at_end < 2; at_end++) {
        struct topology *topology = topology_create (labels, RANKS, 0);
        struct communicator *comm = comm_create (RANKS, 0, 0, 1000);
        char *pages;
        if (!topology || !comm)
            exit (99);
        int *numbers = topology->host_of;
        topology->host_of = memcpy (at_an_edge (RANKS * sizeof *numbers, at_end, &pages), numbers,
                                    RANKS * sizeof *numbers);
        mpi.host = (struct host){ .fd = -1, .size = 2, .counters = counters, .topology = topology,
                                  .outboxes = (unsigned char *) outboxes, .world_size = RANKS };
        progress_outbox (comm);
        ok (true, "no rank %s is looked at", at_end ? "above the last one" : "below 0");
        topology->host_of = numbers;
        topology_destroy (topology);
        comm_destroy (comm);
        munmap (pages, 3 * (size_t) sysconf (_SC_PAGESIZE));
        mpi.host = (struct host){ .fd = -1 };
    }
}

static void
test_topology (void)
{
    enum { MANY = 1000 };
    static int labels[MANY];
    struct topology *topology = NULL;
    for (int i = 0; i < MANY; i++)
        labels[i] = i;
    for (long left = 0; left < 4 && !topology; left++) {
        calls_left = left;
        topology = topology_create (labels, MANY, MANY - 1);
        calls_left = -1;
        if (!ok (!topology == (left < 3), "a thousand hosts, with memory for %ld things", left))
            break;
    }
    ok (topology && topology->hosts == MANY && topology->here == MANY - 1 && topology->begins[MANY] == MANY
            && topology->order[MANY - 1] == MANY - 1, "each rank is alone on its host");
    topology_destroy (topology);
    topology_destroy (NULL);
}

/* Ranks 0 and 1 are here, and 2 and 3 on another host. */
static void
test_seen (void)
{
    const int labels[RANKS] = { 0, 0, 2, 2 };
    static struct counters counters[2];
    uint64_t matched[RANKS] = { 0, OUTBOX_FIRST + 5, OUTBOX_FIRST, OUTBOX_FIRST };
    struct communicator comm = { .size = RANKS, .matched = matched };
    mpi.host = (struct host){ .fd = -1, .size = 2, .counters = counters, .topology = topology_create (labels, RANKS,
                                                                                                      0) };
    for (int ahead = 4; ahead <= 6; ahead++) {
        counters[0].written = (uint64_t) (OUTBOX_FIRST + ahead);
        mark_seen (&comm);
        ok (counters[0].seen == (uint64_t) (OUTBOX_FIRST + (ahead < 5 ? ahead : 5)),
            "what ranks here wrote is seen, whatever those of other hosts did: %d", ahead);
    }
    topology_destroy (mpi.host.topology);
    mpi.host = (struct host){ .fd = -1 };
}

static void
test_memory (void)
{
    const struct accel_engine_job job = { .rank = 2, .world_size = 4, .local_world_size = 2 };
    struct accel_engine_job alone = job;
    struct host_info own;
    struct stat file = { 0 };
    host_prepare (&job, &own);
    bool is_there = own.fd >= 0 && own.fd == mpi.host.fd && !fstat (own.fd, &file);
    ok (is_there && memory_header ()->token == own.token, "the first rank of a host makes memory");

    ok (is_there && (size_t) file.st_blocks * 512 >= arenas_at (2, 4)
            && (size_t) file.st_size >= arenas_at (2, 4) + 2 * ARENA_LEAST, "all but the arenas is reserved");
    host_close ();
    alone.local_world_size = 1;
    host_prepare (&alone, &own);
    ok (own.fd < 0 && !mpi.host.memory, "one that is alone there needs none");
    host_close ();
}

/* All are on one machine: the process itself plays each rank. */
static void
test_watch (bool has_topology)
{
    const int peers[RANKS] = { 2, 3, 0, 1 }, labels[RANKS] = { 0, 0, 2, 2 };
    const struct accel_engine_job job = { .rank = 1, .world_size = RANKS };
    struct host_info all[RANKS];
    for (int i = 0; i < RANKS; i++)
        all[i] = (struct host_info){ .machine = 7, .rank = i % 2, .size = 2, .pid = (int32_t) getpid () };
    mpi.host = (struct host){ .fd = -1, .topology = has_topology ? topology_create (labels, RANKS, 1) : NULL };
    if (!ok (watch (&job, all, peers), "processes are watched, %s places", has_topology ? "with" : "without"))
        return;
    for (int i = 0; i < RANKS; i++) {
        const struct process *process = &mpi.host.processes[peers[i]];
        int host = has_topology ? i / 2 : 0;
        ok (process->rank == i && process->host == host && process->is_forwarder == (i % 2 == host % 2)
                && (process->fd >= 0) == (i != 1 && (!has_topology || !host)) && !host_find_ended (peers[i]),
            "rank %d", i);
    }
    host_note_ended (3);
    ok (host_find_ended (peers[3]) == &mpi.host.processes[peers[3]] && !host_find_ended (peers[2]),
        "a rank is said to have ended");
    host_close ();
}

/* ---- calls ---- */

static enum accel_status note_failure (struct accel_error *err, enum accel_status status, const char *format, ...)
    ACCEL_PRINTF (3, 4);
static enum accel_status
note_failure (struct accel_error *err, enum accel_status status, const char *format, ...)
{
    va_list args;
    va_start (args, format);
    vsnprintf (err->text, sizeof err->text, format, args);
    va_end (args);
    return status;
}

static enum accel_status
find_nothing (void *context, const struct accel_engine_call *call, struct accel_error *err)
{
    (void) context, (void) call, (void) err;
    return ACCEL_OK;
}

static enum accel_status
say_who (void *context, const struct accel_engine_call *call, int rank, struct accel_error *err)
{
    (void) context, (void) call;
    return note_failure (err, ACCEL_ERR_PEER, "rank %d gave up; this one waits", rank);
}

static void
reduce_nothing (enum accel_dtype dtype, enum accel_op op, const void *const *sources, int count_of_sources,
                void *target, size_t count)
{
    (void) dtype, (void) op, (void) sources, (void) count_of_sources, (void) target, (void) count;
}

static const struct accel_engine_helpers helpers = { .size = sizeof helpers, .look = find_nothing,
                                                     .timed_out = find_nothing, .peer_failed = say_who,
                                                     .fail = note_failure, .reduce = reduce_nothing };

static struct communicator *
make_comm (int size, int rank)
{
    struct communicator *comm = comm_create (size, rank, 0, 1000);
    if (!comm)
        exit (99);
    for (int i = 0; i < size; i++)
        comm->peers[i] = size - 1 - i;
    comm_add (comm);
    standin.count = 0;
    *mpi.world.error = '\0';
    mpi.world.request_count = 0;
    return comm;
}

static struct operation *
make_operation (struct communicator *comm, const struct accel_engine_call *call)
{
    struct operation *operation = operation_create (comm, call);
    if (!operation)
        exit (99);
    return operation;
}

static void
test_comms (void)
{
    struct communicator *comm = NULL;
    long before = blocks;
    for (long left = 0; left < 2 && !comm; left++) {
        calls_left = left;
        comm = comm_create (2, 1, 5, 30);
        calls_left = -1;
        if (!ok (!comm == (left < 1), "a communicator, with memory for %ld things", left))
            break;
    }
    ok (comm && comm->size == 2 && comm->rank == 1 && comm->group == 5 && comm->timeout_ms == 30
        && comm->gave_up_rank == -1
            && comm->shared_at == FOREIGN, "it begins empty");
    if (comm)
        comm_destroy (comm);
    ok (blocks == before, "and leaves no memory behind, nor does one that there was no memory for");
}

static void
test_start (void)
{
    struct accel_engine_call call = { .helpers = &helpers, .kind = ACCEL_ENGINE_BARRIER, .root = -1 };
    struct communicator *comm = make_comm (1, 0);
    struct operation *operation = make_operation (comm, &call);
    mpi.world.has_all = true;
    comm_start (comm, operation);
    ok (operation->over && mpi.world.has_all, "a call that is over at once does not ask MPI");
    operation_destroy (operation);
    comm->first = NULL;
    comm_destroy (comm);
}

/* Rank 1 of 3 waits for the others. */
static void
test_failed_rank (void)
{
    struct accel_engine_call call = { .helpers = &helpers, .kind = ACCEL_ENGINE_BARRIER, .root = -1 };
    struct process processes[3] = { { .rank = 12, .pid = 120, .fd = -1 }, { .rank = 11, .pid = 110, .fd = -1 },
                                    { .rank = 10, .pid = 100, .fd = -1 } };
    struct accel_error err = { .text = "" };
    struct communicator *comm = make_comm (3, 1);
    struct operation *operation = make_operation (comm, &call);
    mpi.host.processes = processes;
    mpi.host.world_size = 3;
    mpi.world.ended = 0;
    ok (!find_failed_rank (comm, operation, &err) && !mpi.world.ended, "no rank has ended");
    processes[0].has_ended = true;
    ok (find_failed_rank (comm, operation, &err) == ACCEL_ERR_PEER && mpi.world.ended == 13,
        "a rank that has ended is passed on");
    is_text (err.text, "rank 12 ended (process 120); this one waits", "it is named, and who waits for it");
    mpi.host.processes = NULL;
    mpi.host.world_size = 0;
    mpi.world.ended = 0;
    comm->gave_up_rank = 10;
    strcpy (comm->its_reason, "tired");
    ok (find_failed_rank (comm, operation, &err) == ACCEL_ERR_PEER && !strcmp (err.text, "rank 10 gave up: tired"),
        "so is one that has given up");
    operation_destroy (operation);
    comm_destroy (comm);
}

/* A control message for a call that is over, and one for a call that is not. */
static void
test_meeting (void)
{
    struct accel_engine_call call = { .helpers = &helpers, .kind = ACCEL_ENGINE_BARRIER, .root = -1 };
    struct communicator *comm = make_comm (2, 0);
    struct operation *operation = make_operation (comm, &call);
    struct header header = { .signature = operation->mine, .tag = 8, .send_at = FOREIGN, .recv_at = FOREIGN };
    operation->over = true;
    operation_match (operation, 1, &header, NULL);
    ok (operation->missing == 1 && !operation->transfers[1].has_come, "a call that has failed meets no rank");
    operation->over = false;
    operation_match (operation, 1, &header, NULL);
    ok (!operation->missing && operation->transfers[1].has_come && operation->transfers[1].tag == 8,
        "another one does");
    operation_destroy (operation);
    comm_destroy (comm);
}

/* A large sum that goes from rank to rank after all. */
static void
test_direct (void)
{
    static char values[1 << 20];
    struct accel_engine_call call = { .helpers = &helpers, .kind = ACCEL_ENGINE_ALL_REDUCE, .dtype = ACCEL_FLOAT32,
                                      .count = sizeof values / 4, .element_bytes = 4, .root = -1, .send = values,
                                      .recv = values };
    struct communicator *comm = make_comm (2, 0);
    struct operation *operation = make_operation (comm, &call);
    operation->hier.is_direct = true;
    operation_advance (operation);
    size_t begun = operation->begun;
    comm->moved = false;
    operation_advance (operation);
    ok (begun && operation->begun == begun && !comm->moved && !operation->over, "it begins once");
    for (int i = 0; i < 2; i++)
        operation->transfers[i].left = 0;
    operation_destroy (operation);
    comm_destroy (comm);
}

/* The last bytes of the arena: what one row takes fits, and what a row for each rank would take does not. */
static void
test_offsets (void)
{
    static unsigned char arena[4096];
    struct accel_engine_call call = { .helpers = &helpers, .kind = ACCEL_ENGINE_ALL_REDUCE, .dtype = ACCEL_FLOAT32,
                                      .count = 16, .element_bytes = 4, .root = -1, .send = arena + sizeof arena - 64,
                                      .recv = arena };
    struct communicator *comm = make_comm (4, 1);
    mpi.host.arenas = arena;
    mpi.host.arena_bytes = sizeof arena;
    for (int each = 0; each < 2; each++) {
        call.kind = each ? ACCEL_ENGINE_REDUCE_SCATTER : ACCEL_ENGINE_ALL_REDUCE;
        struct operation *operation = make_operation (comm, &call);
        ok (operation->transfers[1].send_at == (each ? FOREIGN : sizeof arena - 64) && !operation->transfers[1].recv_at,
            "%s at the end of the arena", each ? "a row for each rank" : "one row");
        operation_destroy (operation);
    }
    mpi.host = (struct host){ .fd = -1 };
    comm_destroy (comm);
}

/* ---- what is asked of MPI ---- */

static int ending; /* the request that MPI says has ended */

static void
end_one (int number)
{
    (void) number;
    standin.done = ending;
}

/* @return whether data has moved */
static bool
test_one (struct communicator *comm, int number)
{
    ending = number;
    comm->moved = false;
    post_test ();
    return comm->moved;
}

static void
test_posts (void)
{
    struct accel_engine_call call = { .helpers = &helpers, .kind = ACCEL_ENGINE_BARRIER, .root = -1 };
    char bytes[8] = "";
    struct communicator *comm = make_comm (3, 1);
    struct operation *operation = make_operation (comm, &call);
    post_control (operation, 0, bytes, sizeof bytes);
    post_send (operation, 2, operation->window, bytes, sizeof bytes, 6);
    post_recv (operation, 0, operation->window, bytes, sizeof bytes, 6);
    post_send (operation, 0, operation->window, bytes, sizeof bytes, 6);
    ok (standin.count == 4 && standin.posts[0].peer == 2 && !standin.posts[1].peer && standin.posts[2].peer == 2
            && operation->transfers[0].left == 3 && operation->transfers[2].left == 1
                && operation->window->left == 4, "four messages");
    post_cancel (operation);
    ok (!standin.posts[0].is_cancelled && !standin.posts[1].is_cancelled && standin.posts[2].is_cancelled
            && !standin.posts[3].is_cancelled, "receives are cancelled, and sends are not");
    standin.poll = end_one;
    ok (!test_one (comm, 0) && operation->window->left == 3 && operation->transfers[0].left == 2,
        "a control message is gone");
    ok (test_one (comm, 1) && operation->window->left == 2 && operation->transfers[0].left == 1, "data has come");
    ok (!test_one (comm, -1) && operation->window->left == 2 && mpi.world.request_count == 2, "nothing has");
    ok (test_one (comm, 0) && operation->window->left == 1 && !operation->transfers[2].left, "data is gone");
    mpi.world.request_count = 0;
    operation->transfers[0].left = operation->transfers[2].left = 0;
    operation_destroy (operation);
    standin.count = 0;
    post_final (2, bytes, sizeof bytes);
    ok (standin.count == 1 && standin.posts[0].peer == 2, "last words go to the rank that they are for");
    operation = make_operation (comm, &call);
    for (int i = 0; i < MANY_POSTS; i++)
        post_control (operation, 0, bytes, sizeof bytes);
    ok (mpi.world.request_count == MANY_POSTS && mpi.world.request_room >= MANY_POSTS
            && malloc_usable_size (mpi.world.posted) >= MANY_POSTS * sizeof *mpi.world.posted,
        "there is room for %d messages at once", MANY_POSTS);
    mpi.world.request_count = 0;
    operation->transfers[0].left = 0;
    operation_destroy (operation);
    standin.poll = NULL;
    comm_destroy (comm);
}

static void
test_ring (void)
{
    standin.count = 0;
    ok (ring_open () && standin.count == RING && mpi.world.control_most == CONTROL_BYTES,
        "messages of any rank may come");
    ring_close ();
    int closed = 0;
    for (int i = 0; i < RING; i++)
        closed += standin.posts[i].is_cancelled && standin.posts[i].is_awaited && mpi.world.ring[i] == MPI_REQUEST_NULL;
    ok (closed == RING, "and at the end none any more");
    free (mpi.world.ring_bytes);
    mpi.world.ring_bytes = NULL;
}

/* ---- waiting ---- */

extern const struct accel_engine accel_engine;

int __real_nanosleep (const struct timespec *time, struct timespec *left);
int __wrap_nanosleep (const struct timespec *time, struct timespec *left);
static int naps;
static long least_nap, longest_nap;

/* The first one takes so long that the next one would. */
int
__wrap_nanosleep (const struct timespec *time, struct timespec *left)
{
    least_nap = !naps || time->tv_nsec < least_nap ? time->tv_nsec : least_nap;
    longest_nap = time->tv_nsec > longest_nap ? time->tv_nsec : longest_nap;
    return naps++ ? 0 : __real_nanosleep (&(struct timespec){ .tv_nsec = 50000000 }, left);
}

static struct operation *waited;

/* Data comes, and then nothing, and then the call is over. */
static void
move_once (int number)
{
    standin.done = number == 2 ? 0 : -1;
    waited->over = number == 4;
}

static void
move_never (int number)
{
    (void) number;
    waited->over = naps == 3;
}

static void
wait_for (void (*poll) (int number), const char *what)
{
    struct accel_engine_call call = { .helpers = &helpers, .kind = ACCEL_ENGINE_BARRIER, .root = -1 };
    char bytes[8] = "";
    struct communicator *comm = make_comm (2, 0);
    waited = comm->first = make_operation (comm, &call);
    post_recv (waited, 1, waited->window, bytes, sizeof bytes, 6);
    post_recv (waited, 1, waited->window + 1, bytes, sizeof bytes, 6);
    standin.poll = poll;
    standin.polls = naps = 0;
    longest_nap = 0;
    waited->transfers[1].left = 1; /* of the one that comes */
    ok (!accel_engine.wait (comm, waited, NULL) && !comm->first && !mpi.world.waiters, "%s", what);
    standin.poll = NULL;
    mpi.world.request_count = 0;
    mpi.world.is_stuck = false; /* though it did not get all */
    comm_destroy (comm);
}

static void
test_naps (void)
{
    wait_for (move_once, "a call is over soon");
    ok (!naps && standin.polls == 4, "who waits for it does not sleep after something has moved");
    wait_for (move_never, "a call is over late");
    ok (naps == 3 && least_nap >= 20000 && longest_nap == 1000000, "who waits for it sleeps ever longer: %ld to %ld ns",
        least_nap, longest_nap);
}

/* ---- beginning ---- */

static void
fails_to_open (const char *wanted, const char *what)
{
    struct accel_engine_job job = { .size = sizeof job, .world_size = 2, .local_world_size = 1, .timeout_ms = 10000,
                                    .helpers = &helpers };
    struct accel_error err = { .text = "" };
    void *transport = &job;
    ok (accel_engine.open (&transport, &job, &err) && !transport && !mpi.world.session, "%s", what);
    is_text (err.text, wanted, "and the error names it");
}

static void
test_open (void)
{
    standin.connected = 3;
    fails_to_open ("accel_open: engine mpi: MPI connects 3 processes, but this job has 2: Stand-in 1.2 was not started "
                   "by its own mpirun, or srun has no PMI that it knows (srun --mpi=list)", "another job of MPI's");
    standin.is_running = false;
    standin.init_code = MPI_ERR_OTHER;
    fails_to_open ("accel_open: engine mpi: MPI_Init_thread() failed", "MPI does not begin");
    standin.is_running = true;
    fails_to_open ("accel_open: engine mpi: an earlier job of this process failed, and MPI cannot be used again: start "
                   "the program again", "and is not asked again");
}

int
main (void)
{
#define AT(number, its_rank, its_size) { .machine = number, .rank = its_rank, .size = its_size }
    test_topology ();
    test_bundles ();
    test_seen ();
    test_edges ();
    test_memory ();
    test_watch (false);
    test_watch (true);
    test_comms ();
    test_start ();
    test_failed_rank ();
    test_meeting ();
    test_direct ();
    test_offsets ();
    test_posts ();
    test_ring ();
    test_naps ();
    test_open ();
    test_hosts ("two hosts one after the other",
                (struct host_info[]){ AT (1, 0, 2), AT (1, 1, 2), AT (2, 0, 2), AT (2, 1, 2) }, 4, true,
                (int[]){ 0, 0, 2, 2 });
    test_hosts ("two hosts in turns", (struct host_info[]){ AT (1, 0, 2), AT (2, 0, 2), AT (1, 1, 2), AT (2, 1, 2) },
                4, true, (int[]){ 0, 1, 0, 1 });
    test_hosts ("two of one machine", (struct host_info[]){ AT (1, 0, 2), AT (1, 1, 2), AT (1, 0, 2), AT (1, 1, 2) },
                4, true, (int[]){ 0, 0, 2, 2 });
    test_hosts ("a rank that is alone on its host", (struct host_info[]){ AT (1, 0, 1), AT (2, 1, 2) }, 2, false,
                NULL);
    test_hosts ("a host that lacks a rank", (struct host_info[]){ AT (1, 0, 2), AT (2, 0, 1) }, 2, false, NULL);
    test_hosts ("ranks that say other sizes", (struct host_info[]){ AT (1, 0, 2), AT (1, 1, 3) }, 2, false, NULL);
    test_hosts ("a host whose memory cannot be opened",
                (struct host_info[]){ { .machine = 1, .size = 2, .fd = -1 }, AT (1, 1, 2) }, 2, false, NULL);
    test_hosts ("one of one rank needs none",
                (struct host_info[]){ { .machine = 1, .size = 1, .fd = -1 }, AT (2, 0, 1) }, 2, true,
                (int[]){ 0, 1 });
    return done_testing ();
}
