/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of engine mpi that need no other rank: bundles of messages, who is on which host, and what it asks of MPI. */
#include <config.h>

#include "engines/mpi/mpi_private.h"

#include "engines/mpi/boards.c"
#include "engines/mpi/flight.c"
#include "engines/mpi/host.c"
#include "engines/mpi/team.c"

#include "tests/balance.h"
#include "tests/engines/mpi_standin.h"
#include "tests/tap.h"

enum { RANKS = 4, SLOT = 256, ROOM = 2048, MANY_POSTS = 150 };

static _Alignas (max_align_t) unsigned char memory[sizeof (struct message) + ROOM];
static struct message *const bundle = (struct message *) (void *) memory;

/* Add a message of a rank with so many bytes of data to the bundle. */
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
    *mpi_world.error = '\0';
}

/* How many messages are taken, each from the rank that is next in @ranks. */
static int
take (struct team *team, const int *ranks)
{
    size_t at = 0;
    int rank, count = 0;
    while (boards_unpack (team, bundle, &at, &rank) && rank == ranks[count] && team->direct
           && team->direct->rank == rank)
        count++;
    return count;
}

/* Ranks 0 and 1 are here, 2 and 3 on another host; whoever sends, nothing behind the bundle is read. */
static void
test_bundles (void)
{
    const int labels[RANKS] = { 0, 0, 2, 2 };
    struct queue bundled[RANKS] = { 0 };
    struct team team = { .size = RANKS, .rank = 1, .bundled = bundled };
    mpi_host.places = places_create (labels, RANKS, 1);
    mpi_host.world_size = RANKS;
    mpi_host.slot_bytes = SLOT;
    if (!mpi_host.places)
        exit (99);
    for (uint32_t bytes = 0; bytes <= 9; bytes++) {
        begin_bundle ();
        add (2, bytes);
        add (3, bytes);
        ok (take (&team, (int[]){ 2, 3, -1 }) == 2 && !*mpi_world.error, "two messages of %u bytes", bytes);
    }
    begin_bundle ();
    add (3, (uint32_t) (SLOT - data_at ()));
    ok (take (&team, (int[]){ 3, -1 }) == 1 && !*mpi_world.error, "one that fills its slot");
    begin_bundle ();
    add (3, (uint32_t) (SLOT - data_at () + 1));
    ok (!take (&team, (int[]){ 3, -1 }) && *mpi_world.error, "one that does not fit");
    begin_bundle ();
    add (2, 16);
    bundle->header.inline_bytes -= 8;
    ok (!take (&team, (int[]){ 2, -1 }) && *mpi_world.error, "a bundle that ends in the data of a message");
    begin_bundle ();
    add (2, 0);
    add (3, 0);
    bundle->header.inline_bytes -= 8;
    ok (take (&team, (int[]){ 2, 3, -1 }) == 1 && !*mpi_world.error, "what is less than a message is none");
    for (int i = 0; i < 4; i++) {
        begin_bundle ();
        add ((int[]){ -1, RANKS, 0, 1 }[i], 0);
        ok (!take (&team, (int[]){ -1, -1 }) && *mpi_world.error, "a message of rank %d",
            (int[]){ -1, RANKS, 0, 1 }[i]);
    }
    places_destroy (mpi_host.places);
    mpi_host.places = NULL;
}

/* @hosts: of each rank, what it says: machine, rank and size on its host */
static void
test_hosts (const char *what, const struct whereabouts *all, int count, bool good, const int *wanted)
{
    int labels[RANKS] = { 0 }, counts[RANKS] = { 0 };
    bool found = find_hosts (all, count, labels, counts);
    ok (found == good && (!good || !memcmp (labels, wanted, (size_t) count * sizeof *labels)), "%s", what);
}

/* ---- where ranks are ---- */

/* @return @bytes of memory with nothing before them, or nothing behind them; to be released with its page */
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
    static struct marks marks[2];
    static char boards[1 << 16];
    for (int at_end = 0; at_end < 2; at_end++) {
        struct places *places = places_create (labels, RANKS, 0);
        struct team *team = team_create (RANKS, 0, 0, 1000);
        char *pages;
        if (!places || !team)
            exit (99);
        int *numbers = places->host_of;
        places->host_of = memcpy (at_an_edge (RANKS * sizeof *numbers, at_end, &pages), numbers,
                                  RANKS * sizeof *numbers);
        mpi_host = (struct host){ .fd = -1, .size = 2, .marks = marks, .places = places,
                                  .boards = (unsigned char *) boards, .world_size = RANKS };
        look_at_boards (team);
        ok (true, "no rank %s is looked at", at_end ? "above the last one" : "below 0");
        places->host_of = numbers;
        places_destroy (places);
        team_destroy (team);
        munmap (pages, 3 * (size_t) sysconf (_SC_PAGESIZE));
        mpi_host = (struct host){ .fd = -1 };
    }
}

static void
test_places (void)
{
    enum { MANY = 1000 };
    static int labels[MANY];
    struct places *places = NULL;
    for (int i = 0; i < MANY; i++)
        labels[i] = i;
    for (long left = 0; left < 4 && !places; left++) {
        calls_left = left;
        places = places_create (labels, MANY, MANY - 1);
        calls_left = -1;
        if (!ok (!places == (left < 3), "a thousand hosts, with memory for %ld things", left))
            break;
    }
    ok (places && places->hosts == MANY && places->here == MANY - 1 && places->begins[MANY] == MANY
            && places->order[MANY - 1] == MANY - 1, "each rank is alone on its host");
    places_destroy (places);
    places_destroy (NULL);
}

/* Ranks 0 and 1 are here, and 2 and 3 on another host. */
static void
test_seen (void)
{
    const int labels[RANKS] = { 0, 0, 2, 2 };
    static struct marks marks[2];
    uint64_t matched[RANKS] = { 0, BOARD_FIRST + 5, BOARD_FIRST, BOARD_FIRST };
    struct team team = { .size = RANKS, .matched = matched };
    mpi_host = (struct host){ .fd = -1, .size = 2, .marks = marks, .places = places_create (labels, RANKS, 0) };
    for (int ahead = 4; ahead <= 6; ahead++) {
        marks[0].written = (uint64_t) (BOARD_FIRST + ahead);
        mark_seen (&team);
        ok (marks[0].seen == (uint64_t) (BOARD_FIRST + (ahead < 5 ? ahead : 5)),
            "what ranks here wrote is seen, whatever those of other hosts did: %d", ahead);
    }
    places_destroy (mpi_host.places);
    mpi_host = (struct host){ .fd = -1 };
}

static void
test_memory (void)
{
    const struct accel_engine_job job = { .rank = 2, .world_size = 4, .local_world_size = 2 };
    struct accel_engine_job alone = job;
    struct whereabouts own;
    struct stat file = { 0 };
    host_prepare (&job, &own);
    bool is_there = own.fd >= 0 && own.fd == mpi_host.fd && !fstat (own.fd, &file);
    ok (is_there && ((struct label *) (void *) mpi_host.memory)->token == own.token,
        "the first rank of a host makes memory");
    ok (is_there && (size_t) file.st_blocks * 512 >= arenas_at (2, 4)
            && (size_t) file.st_size >= arenas_at (2, 4) + 2 * ARENA_LEAST, "all but the arenas is reserved");
    host_close ();
    alone.local_world_size = 1;
    host_prepare (&alone, &own);
    ok (own.fd < 0 && !mpi_host.memory, "one that is alone there needs none");
    host_close ();
}

/* All are on one machine: the process itself stands for each. */
static void
test_watch (bool has_places)
{
    const int peers[RANKS] = { 2, 3, 0, 1 }, labels[RANKS] = { 0, 0, 2, 2 };
    const struct accel_engine_job job = { .rank = 1, .world_size = RANKS };
    struct whereabouts all[RANKS];
    for (int i = 0; i < RANKS; i++)
        all[i] = (struct whereabouts){ .machine = 7, .rank = i % 2, .size = 2, .pid = (int32_t) getpid () };
    mpi_host = (struct host){ .fd = -1, .places = has_places ? places_create (labels, RANKS, 1) : NULL };
    if (!ok (watch (&job, all, peers), "processes are watched, %s places", has_places ? "with" : "without"))
        return;
    for (int i = 0; i < RANKS; i++) {
        const struct process *process = &mpi_host.processes[peers[i]];
        int host = has_places ? i / 2 : 0;
        ok (process->rank == i && process->host == host && process->is_postman == (i % 2 == host % 2)
                && (process->fd >= 0) == (i != 1 && (!has_places || !host)) && !host_find_ended (peers[i]),
            "rank %d", i);
    }
    host_note_ended (3);
    ok (host_find_ended (peers[3]) == &mpi_host.processes[peers[3]] && !host_find_ended (peers[2]),
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
                                                     .time_is_out = find_nothing, .blame = say_who,
                                                     .fail = note_failure, .reduce = reduce_nothing };

static struct team *
make_team (int size, int rank)
{
    struct team *team = team_create (size, rank, 0, 1000);
    if (!team)
        exit (99);
    for (int i = 0; i < size; i++)
        team->peers[i] = size - 1 - i;
    team_add (team);
    mpi.count = 0;
    *mpi_world.error = '\0';
    mpi_world.request_count = 0;
    return team;
}

static struct flight *
make_flight (struct team *team, const struct accel_engine_call *call)
{
    struct flight *flight = flight_create (team, call);
    if (!flight)
        exit (99);
    return flight;
}

static void
test_teams (void)
{
    struct team *team = NULL;
    long before = blocks;
    for (long left = 0; left < 8 && !team; left++) {
        calls_left = left;
        team = team_create (2, 1, 5, 30);
        calls_left = -1;
        if (!ok (!team == (left < 7), "a communicator, with memory for %ld things", left))
            break;
    }
    ok (team && team->size == 2 && team->rank == 1 && team->place == 5 && team->timeout_ms == 30 && team->quitter == -1
            && team->shared_at == FOREIGN, "it begins empty");
    if (team)
        team_destroy (team);
    ok (blocks == before, "and leaves no memory behind, nor does one that there was no memory for");
}

static void
test_start (void)
{
    struct accel_engine_call call = { .helpers = &helpers, .kind = ACCEL_ENGINE_BARRIER, .root = -1 };
    struct team *team = make_team (1, 0);
    struct flight *flight = make_flight (team, &call);
    mpi_world.has_all = true;
    team_start (team, flight);
    ok (flight->over && mpi_world.has_all, "a call that is over at once does not ask MPI");
    flight_destroy (flight);
    team->first = NULL;
    team_destroy (team);
}

/* Rank 1 of 3 waits for the others. */
static void
test_quitters (void)
{
    struct accel_engine_call call = { .helpers = &helpers, .kind = ACCEL_ENGINE_BARRIER, .root = -1 };
    struct process processes[3] = { { .rank = 12, .pid = 120, .fd = -1 }, { .rank = 11, .pid = 110, .fd = -1 },
                                    { .rank = 10, .pid = 100, .fd = -1 } };
    struct accel_error err = { .text = "" };
    struct team *team = make_team (3, 1);
    struct flight *flight = make_flight (team, &call);
    mpi_host.processes = processes;
    mpi_host.world_size = 3;
    mpi_world.ended = 0;
    ok (!look_for_quitters (team, flight, &err) && !mpi_world.ended, "nobody has ended");
    processes[0].has_ended = true;
    ok (look_for_quitters (team, flight, &err) == ACCEL_ERR_PEER && mpi_world.ended == 13,
        "a rank that has ended is passed on");
    is_text (err.text, "rank 12 ended (process 120); this one waits", "it is named, and who waits for it");
    mpi_host.processes = NULL;
    mpi_host.world_size = 0;
    mpi_world.ended = 0;
    team->quitter = 10;
    strcpy (team->its_reason, "tired");
    ok (look_for_quitters (team, flight, &err) == ACCEL_ERR_PEER && !strcmp (err.text, "rank 10 gave up: tired"),
        "so is one that has given up");
    flight_destroy (flight);
    team_destroy (team);
}

/* A control message for a call that is over, and one for a call that is not. */
static void
test_meeting (void)
{
    struct accel_engine_call call = { .helpers = &helpers, .kind = ACCEL_ENGINE_BARRIER, .root = -1 };
    struct team *team = make_team (2, 0);
    struct flight *flight = make_flight (team, &call);
    struct header header = { .called = flight->mine, .tag = 8, .send_at = FOREIGN, .recv_at = FOREIGN };
    flight->over = true;
    flight_meet (flight, 1, &header, NULL);
    ok (flight->missing == 1 && !flight->legs[1].has_come, "a call that has failed meets nobody");
    flight->over = false;
    flight_meet (flight, 1, &header, NULL);
    ok (!flight->missing && flight->legs[1].has_come && flight->legs[1].tag == 8, "another one does");
    flight_destroy (flight);
    team_destroy (team);
}

/* A large sum that goes from rank to rank after all. */
static void
test_direct (void)
{
    static char values[1 << 20];
    struct accel_engine_call call = { .helpers = &helpers, .kind = ACCEL_ENGINE_ALL_REDUCE, .dtype = ACCEL_FLOAT32,
                                      .count = sizeof values / 4, .element_bytes = 4, .root = -1, .send = values,
                                      .recv = values };
    struct team *team = make_team (2, 0);
    struct flight *flight = make_flight (team, &call);
    flight->tiers.is_direct = true;
    flight_advance (flight);
    size_t begun = flight->begun;
    team->moved = false;
    flight_advance (flight);
    ok (begun && flight->begun == begun && !team->moved && !flight->over, "it begins once");
    for (int i = 0; i < 2; i++)
        flight->legs[i].left = 0;
    flight_destroy (flight);
    team_destroy (team);
}

/* The last bytes of the arena: what one row takes fits, and what a row for each rank would take does not. */
static void
test_offsets (void)
{
    static unsigned char arena[4096];
    struct accel_engine_call call = { .helpers = &helpers, .kind = ACCEL_ENGINE_ALL_REDUCE, .dtype = ACCEL_FLOAT32,
                                      .count = 16, .element_bytes = 4, .root = -1, .send = arena + sizeof arena - 64,
                                      .recv = arena };
    struct team *team = make_team (4, 1);
    mpi_host.arenas = arena;
    mpi_host.arena_bytes = sizeof arena;
    for (int each = 0; each < 2; each++) {
        call.kind = each ? ACCEL_ENGINE_REDUCE_SCATTER : ACCEL_ENGINE_ALL_REDUCE;
        struct flight *flight = make_flight (team, &call);
        ok (flight->legs[1].send_at == (each ? FOREIGN : sizeof arena - 64) && !flight->legs[1].recv_at,
            "%s at the end of the arena", each ? "a row for each rank" : "one row");
        flight_destroy (flight);
    }
    mpi_host = (struct host){ .fd = -1 };
    team_destroy (team);
}

/* ---- what is asked of MPI ---- */

static int ending; /* the request that MPI says has ended */

static void
end_one (int number)
{
    (void) number;
    mpi.done = ending;
}

/* @return whether data has moved */
static bool
test_one (struct team *team, int number)
{
    ending = number;
    team->moved = false;
    post_test ();
    return team->moved;
}

static void
test_posts (void)
{
    struct accel_engine_call call = { .helpers = &helpers, .kind = ACCEL_ENGINE_BARRIER, .root = -1 };
    char bytes[8] = "";
    struct team *team = make_team (3, 1);
    struct flight *flight = make_flight (team, &call);
    post_control (flight, 0, bytes, sizeof bytes);
    post_send (flight, 2, flight->window, bytes, sizeof bytes, 6);
    post_recv (flight, 0, flight->window, bytes, sizeof bytes, 6);
    post_send (flight, 0, flight->window, bytes, sizeof bytes, 6);
    ok (mpi.count == 4 && mpi.posts[0].peer == 2 && !mpi.posts[1].peer && mpi.posts[2].peer == 2
            && flight->legs[0].left == 3 && flight->legs[2].left == 1 && flight->window->left == 4, "four messages");
    post_cancel (flight);
    ok (!mpi.posts[0].is_cancelled && !mpi.posts[1].is_cancelled && mpi.posts[2].is_cancelled
            && !mpi.posts[3].is_cancelled, "what is received is taken back, and what is sent is not");
    mpi.poll = end_one;
    ok (!test_one (team, 0) && flight->window->left == 3 && flight->legs[0].left == 2, "a control message is gone");
    ok (test_one (team, 1) && flight->window->left == 2 && flight->legs[0].left == 1, "data has come");
    ok (!test_one (team, -1) && flight->window->left == 2 && mpi_world.request_count == 2, "nothing has");
    ok (test_one (team, 0) && flight->window->left == 1 && !flight->legs[2].left, "data is gone");
    mpi_world.request_count = 0;
    flight->legs[0].left = flight->legs[2].left = 0;
    flight_destroy (flight);
    mpi.count = 0;
    post_last_words (2, bytes, sizeof bytes);
    ok (mpi.count == 1 && mpi.posts[0].peer == 2, "last words go to the rank that they are for");
    flight = make_flight (team, &call);
    for (int i = 0; i < MANY_POSTS; i++)
        post_control (flight, 0, bytes, sizeof bytes);
    ok (mpi_world.request_count == MANY_POSTS && mpi_world.request_room >= MANY_POSTS
            && malloc_usable_size (mpi_world.notes) >= MANY_POSTS * sizeof *mpi_world.notes,
        "there is room for %d messages at once", MANY_POSTS);
    mpi_world.request_count = 0;
    flight->legs[0].left = 0;
    flight_destroy (flight);
    mpi.poll = NULL;
    team_destroy (team);
}

static void
test_ring (void)
{
    mpi.count = 0;
    ok (ring_open () && mpi.count == RING && mpi_world.control_most == CONTROL_BYTES, "messages of any rank may come");
    ring_close ();
    int closed = 0;
    for (int i = 0; i < RING; i++)
        closed += mpi.posts[i].is_cancelled && mpi.posts[i].is_awaited && mpi_world.ring[i] == MPI_REQUEST_NULL;
    ok (closed == RING, "and at the end none any more");
    free (mpi_world.ring_bytes);
    mpi_world.ring_bytes = NULL;
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

static struct flight *waited;

/* Data comes, and then nothing, and then the call is over. */
static void
move_once (int number)
{
    mpi.done = number == 2 ? 0 : -1;
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
    struct team *team = make_team (2, 0);
    waited = team->first = make_flight (team, &call);
    post_recv (waited, 1, waited->window, bytes, sizeof bytes, 6);
    post_recv (waited, 1, waited->window + 1, bytes, sizeof bytes, 6);
    mpi.poll = poll;
    mpi.polls = naps = 0;
    longest_nap = 0;
    waited->legs[1].left = 1; /* of the one that comes */
    ok (!accel_engine.wait (team, waited, NULL) && !team->first && !mpi_world.waiters, "%s", what);
    mpi.poll = NULL;
    mpi_world.request_count = 0;
    mpi_world.is_stuck = false; /* though it did not get all */
    team_destroy (team);
}

static void
test_naps (void)
{
    wait_for (move_once, "a call is over soon");
    ok (!naps && mpi.polls == 4, "who waits for it does not sleep after something has moved");
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
    ok (accel_engine.open (&transport, &job, &err) && !transport && !mpi_world.session, "%s", what);
    is_text (err.text, wanted, "and it says so");
}

static void
test_open (void)
{
    mpi.connected = 3;
    fails_to_open ("accel_open: engine mpi: MPI connects 3 processes, but this job has 2: Stand-in 1.2 was not started "
                   "by its own mpirun, or srun has no PMI that it knows (srun --mpi=list)", "another job of MPI's");
    mpi.is_running = false;
    mpi.init_code = MPI_ERR_OTHER;
    fails_to_open ("accel_open: engine mpi: MPI_Init_thread() failed", "MPI does not begin");
    mpi.is_running = true;
    fails_to_open ("accel_open: engine mpi: an earlier job of this process failed, and MPI cannot be used again: start "
                   "the program again", "and is not asked again");
}

int
main (void)
{
#define AT(number, its_rank, its_size) { .machine = number, .rank = its_rank, .size = its_size }
    test_places ();
    test_bundles ();
    test_seen ();
    test_edges ();
    test_memory ();
    test_watch (false);
    test_watch (true);
    test_teams ();
    test_start ();
    test_quitters ();
    test_meeting ();
    test_direct ();
    test_offsets ();
    test_posts ();
    test_ring ();
    test_naps ();
    test_open ();
    test_hosts ("two hosts one after the other",
                (struct whereabouts[]){ AT (1, 0, 2), AT (1, 1, 2), AT (2, 0, 2), AT (2, 1, 2) }, 4, true,
                (int[]){ 0, 0, 2, 2 });
    test_hosts ("two hosts in turns", (struct whereabouts[]){ AT (1, 0, 2), AT (2, 0, 2), AT (1, 1, 2), AT (2, 1, 2) },
                4, true, (int[]){ 0, 1, 0, 1 });
    test_hosts ("two of one machine", (struct whereabouts[]){ AT (1, 0, 2), AT (1, 1, 2), AT (1, 0, 2), AT (1, 1, 2) },
                4, true, (int[]){ 0, 0, 2, 2 });
    test_hosts ("a rank whose host nobody else is on", (struct whereabouts[]){ AT (1, 0, 1), AT (2, 1, 2) }, 2, false,
                NULL);
    test_hosts ("a host that lacks a rank", (struct whereabouts[]){ AT (1, 0, 2), AT (2, 0, 1) }, 2, false, NULL);
    test_hosts ("ranks that say other sizes", (struct whereabouts[]){ AT (1, 0, 2), AT (1, 1, 3) }, 2, false, NULL);
    test_hosts ("a host whose memory cannot be opened",
                (struct whereabouts[]){ { .machine = 1, .size = 2, .fd = -1 }, AT (1, 1, 2) }, 2, false, NULL);
    test_hosts ("one of one rank needs none",
                (struct whereabouts[]){ { .machine = 1, .size = 1, .fd = -1 }, AT (2, 0, 1) }, 2, true,
                (int[]){ 0, 1 });
    return done_testing ();
}
