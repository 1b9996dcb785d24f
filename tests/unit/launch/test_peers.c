/* SPDX-License-Identifier: Apache-2.0 */
/* Launchers that were started by hand: sealed connections, who is to blame, and which machine this
 * one is. */
#include <config.h>

#include "config/mode.h"
#include "hosts/net/channel.h"
#include "hosts/list/hosts.h"
#include "hosts/peers/state.h"
#include "hosts/root_cause.h"
#include "tests/tap.h"
#include "util/cleanup.h"

#include <string.h>

/* ---- sealed connections ---- */

struct side {
    struct channel channel;
    struct channel_key key;
    struct strbuf sent; /* to the other side */
    struct strbuf frame;
};

static void
begin (struct side *sides, const char *main_key, const char *other_key)
{
    for (int i = 0; i < 2; i++) {
        const char *key = i ? other_key : main_key;
        sides[i] = (struct side){ .key = { .length = strlen (key) } };
        memcpy (sides[i].key.bytes, key, strlen (key));
        channel_init (&sides[i].channel, i == 0, &sides[i].sent);
    }
}

static void
end (struct side *sides)
{
    for (int i = 0; i < 2; i++) {
        strbuf_release (&sides[i].sent);
        strbuf_release (&sides[i].frame);
    }
}

/* Side @to takes what side @from has sent, as much as makes one frame. */
static enum channel_result
take (struct side *to, struct side *from)
{
    size_t used = 0;
    const char *bytes = from->sent.text ? from->sent.text : "";
    enum channel_result result = channel_next (&to->channel, &to->key, bytes, from->sent.length, &to->sent, &to->frame,
                                               &used);
    if (used) {
        memmove (from->sent.text, from->sent.text + used, from->sent.length - used);
        strbuf_truncate (&from->sent, from->sent.length - used);
    }
    return result;
}

static void
put (struct side *side, const char *text)
{
    channel_put (&side->channel, text, strlen (text), &side->sent);
}

static bool
has (const struct side *side, const char *text)
{
    return side->frame.length == strlen (text) && !memcmp (side->frame.text, text, strlen (text));
}

/* Greetings in both directions; then each side has a message for the other. */
static void
meet (struct side *sides)
{
    ok (!sides[0].sent.length && sides[1].sent.length == CHANNEL_GREETING_BYTES,
        "who connects greets, who listens waits");
    ok (take (&sides[0], &sides[1]) == CHANNEL_MORE && channel_is_open (&sides[0].channel), "the greeting is accepted");
    put (&sides[0], "welcome");
}

static void
test_channel (void)
{
    struct side sides[2];
    begin (sides, "0123456789abcdef", "0123456789abcdef");
    meet (sides);
    ok (take (&sides[1], &sides[0]) == CHANNEL_FRAME && has (&sides[1], "welcome"), "the welcome is understood");
    put (&sides[1], "first");
    put (&sides[1], "second");
    ok (!memmem (sides[1].sent.text, sides[1].sent.length, "second", 6), "nothing is readable on its way");
    AUTO_STRBUF struct strbuf copy = { 0 };
    strbuf_add_bytes (&copy, sides[1].sent.text, sides[1].sent.length);
    ok (take (&sides[0], &sides[1]) == CHANNEL_FRAME && has (&sides[0], "first"), "the first frame");
    ok (take (&sides[0], &sides[1]) == CHANNEL_FRAME && has (&sides[0], "second"), "the second frame");
    ok (take (&sides[0], &sides[1]) == CHANNEL_MORE, "no third one");
    static char large[3 * CHANNEL_FIRST_BYTES];
    memset (large, 'x', sizeof large - 1);
    put (&sides[1], large);
    ok (take (&sides[0], &sides[1]) == CHANNEL_FRAME && has (&sides[0], large), "later ones may be larger");
    strbuf_add_bytes (&sides[1].sent, copy.text + crypto_secretstream_xchacha20poly1305_HEADERBYTES,
                      copy.length - crypto_secretstream_xchacha20poly1305_HEADERBYTES);
    ok (take (&sides[0], &sides[1]) == CHANNEL_WRONG, "a repeated frame is refused");
    put (&sides[0], "x");
    sides[0].sent.text[sides[0].sent.length - 1] ^= 1;
    ok (take (&sides[1], &sides[0]) == CHANNEL_WRONG, "a changed frame is refused");
    end (sides);
}

static void
test_refusals (void)
{
    struct side sides[2];
    begin (sides, "0123456789abcdef", "0123456789abcdeg");
    meet (sides);
    ok (take (&sides[1], &sides[0]) == CHANNEL_WRONG, "another key is noticed");
    end (sides);

    begin (sides, "0123456789abcdef", "0123456789abcdef");
    meet (sides);
    struct side mirror = { .key = { .length = 0 } };
    strbuf_add_bytes (&mirror.sent, sides[0].sent.text + CHANNEL_GREETING_BYTES,
                      sides[0].sent.length - CHANNEL_GREETING_BYTES);
    ok (take (&sides[0], &mirror) == CHANNEL_WRONG, "what is sent back to its sender is refused");
    strbuf_release (&mirror.sent);
    end (sides);

    begin (sides, "0123456789abcdef", "0123456789abcdef");
    strbuf_truncate (&sides[1].sent, 0);
    strbuf_add (&sides[1].sent, "GET /");
    ok (take (&sides[0], &sides[1]) == CHANNEL_FOREIGN && !sides[0].sent.length, "a stranger gets no answer");
    end (sides);

    begin (sides, "0123456789abcdef", "0123456789abcdef");
    take (&sides[0], &sides[1]);
    strbuf_add_bytes (&sides[1].sent, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xff\xff\0", 28);
    ok (take (&sides[0], &sides[1]) == CHANNEL_WRONG, "a first message of 16 MiB is not waited for");
    end (sides);
}

/* What one side has sent is of no use for another connection with the same key. */
static void
test_recorded (void)
{
    struct side sides[2], later[2];
    AUTO_STRBUF struct strbuf recorded = { 0 };
    begin (sides, "0123456789abcdef", "0123456789abcdef");
    strbuf_add_bytes (&recorded, sides[1].sent.text, sides[1].sent.length);
    meet (sides);
    take (&sides[1], &sides[0]);
    put (&sides[1], "first");
    strbuf_add_bytes (&recorded, sides[1].sent.text, sides[1].sent.length);
    begin (later, "0123456789abcdef", "0123456789abcdef");
    strbuf_truncate (&later[1].sent, 0);
    strbuf_add_bytes (&later[1].sent, recorded.text, recorded.length);
    ok (take (&later[0], &later[1]) == CHANNEL_WRONG && !later[0].channel.has_opened,
        "a connection cannot be replayed");
    end (later);
    strbuf_truncate (&sides[1].sent, sides[1].sent.length - 1);
    enum channel_result result = take (&sides[0], &sides[1]);
    ok (result == CHANNEL_MORE && !sides[0].channel.has_opened, "a frame without its last byte is waited for");
    end (sides);
}

/* ---- who is to blame ---- */

enum { MACHINES = 3, MS = 1000000 };

struct failure_case {
    const char *what;
    struct {
        enum peers_machine_state state;
        int failed_ms; /* 0: it has not failed */
        enum wire_end end;
        int status;
        const char *text;
    } all[MACHINES];
    int expected; /* machine */
    const char *also;
};

static const struct failure_case failures[] = {
    { "the first failure counts",
      { { MACHINE_JOINED, 9000, WIRE_END_FAILED, 1, "accelerate: a\n" },
        { MACHINE_JOINED, 7000, WIRE_END_FAILED, 2, "accelerate: b\nmore\n" },
        { MACHINE_JOINED, 0, WIRE_END_DONE, 0, NULL } },
      1, NULL },
    { "others that may have been first are named",
      { { MACHINE_JOINED, 7100, WIRE_END_FAILED, 1, "accelerate: a\n- \n" },
        { MACHINE_ENDED, 7000, WIRE_END_FAILED, 2, "accelerate: b\n" },
        { MACHINE_JOINED, 7200, WIRE_END_FAILED, 3, "accelerate: c\n" } },
      1, "  at nearly the same time, a\n  at nearly the same time, c\n" },
    { "a rank that was killed was first",
      { { MACHINE_JOINED, 7100, WIRE_END_FAILED, 1, "accelerate: a\n" },
        { MACHINE_JOINED, 7000, WIRE_END_FAILED, 1, "accelerate: b\n" },
        { MACHINE_JOINED, 7900, WIRE_END_FAILED, 137, "accelerate: c\n" } },
      2, NULL },
    { "also where its launcher was busy for seconds",
      { { MACHINE_JOINED, 7100, WIRE_END_FAILED, 1, "accelerate: a\n" },
        { MACHINE_JOINED, 8000, WIRE_END_FAILED, 139, "accelerate: b\n" },
        { MACHINE_JOINED, 11900, WIRE_END_FAILED, 137, "accelerate: c\n" } },
      2, NULL },
    { "but not long after the others",
      { { MACHINE_JOINED, 7100, WIRE_END_FAILED, 1, "accelerate: a\n" },
        { MACHINE_ABSENT, 0, WIRE_END_DONE, 0, NULL },
        { MACHINE_JOINED, 12200, WIRE_END_FAILED, 137, "accelerate: c\n" } },
      0, NULL },
    { "a crash was before what it may have brought about",
      { { MACHINE_JOINED, 7100, WIRE_END_FAILED, 1, "accelerate: a\n" },
        { MACHINE_JOINED, 7900, WIRE_END_FAILED, 139, "accelerate: b\n" },
        { MACHINE_JOINED, 0, WIRE_END_DONE, 0, NULL } },
      1, NULL },
    { "but not before what has ended a second before",
      { { MACHINE_JOINED, 7100, WIRE_END_FAILED, 1, "accelerate: a\n" },
        { MACHINE_JOINED, 8200, WIRE_END_FAILED, 139, "accelerate: b\n" },
        { MACHINE_JOINED, 0, WIRE_END_DONE, 0, NULL } },
      0, NULL },
    { "a rank that lost its connection was not, though SIGPIPE has ended it",
      { { MACHINE_JOINED, 7000, WIRE_END_FAILED, 1, "accelerate: a\n" },
        { MACHINE_JOINED, 7500, WIRE_END_FAILED, 141, "accelerate: b\n" },
        { MACHINE_JOINED, 0, WIRE_END_DONE, 0, NULL } },
      0, "  at nearly the same time, b\n" },
    { "nor one that has aborted",
      { { MACHINE_JOINED, 7000, WIRE_END_FAILED, 1, "accelerate: a\n" },
        { MACHINE_JOINED, 0, WIRE_END_DONE, 0, NULL },
        { MACHINE_JOINED, 7500, WIRE_END_FAILED, 134, "accelerate: c\n" } },
      0, "  at nearly the same time, c\n" },
    { "a launcher that was told to end was first",
      { { MACHINE_JOINED, 7000, WIRE_END_FAILED, 1, "accelerate: a\n" },
        { MACHINE_JOINED, 7500, WIRE_END_STOPPED, 143, "accelerate: b\n" },
        { MACHINE_JOINED, 0, WIRE_END_DONE, 0, NULL } },
      1, NULL },
    { "but it does not make ranks crash",
      { { MACHINE_JOINED, 7000, WIRE_END_FAILED, 139, "accelerate: a\n" },
        { MACHINE_JOINED, 7500, WIRE_END_STOPPED, 143, "accelerate: b\n" },
        { MACHINE_JOINED, 0, WIRE_END_DONE, 0, NULL } },
      0, NULL },
    { "a lost machine was first",
      { { MACHINE_JOINED, 7000, WIRE_END_FAILED, 134, "accelerate: a\n" },
        { MACHINE_JOINED, 0, WIRE_END_DONE, 0, NULL },
        { MACHINE_LOST, 7500, WIRE_END_ERROR, 1, "accelerate: host c: lost\n" } },
      2, NULL },
};

static void
test_failure (void)
{
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        const struct failure_case *row = &failures[i];
        struct peers_machine all[MACHINES];
        struct failure found[MACHINES];
        struct peers peers = { .machines = MACHINES, .all = all, .own = all, .failures = found };
        for (int j = 0; j < MACHINES; j++) {
            all[j] = (struct peers_machine){ .state = row->all[j].state };
            if (row->all[j].failed_ms)
                peers_set_failure (&all[j], (int64_t) row->all[j].failed_ms * MS, row->all[j].end, row->all[j].status,
                                   row->all[j].text, NULL);
        }
        coordinator_decide (&peers, true);
        const char *also = peers.outcome.also ? peers.outcome.also : "", *expected = row->also ? row->also : "";
        ok (peers.outcome.is_known && peers.outcome.machine == row->expected && !strcmp (also, expected)
                && peers.hook.must_end, "%s: %d %s", row->what, peers.outcome.machine, also);
        for (int j = 0; j < MACHINES; j++)
            peers_reset_machine (&all[j]);
        peers_release_outcome (&peers.outcome);
        strbuf_release (&peers.to_say);
    }
}

struct lost_case {
    const char *what;
    int failed_ms, status; /* of ours; 0: nothing has failed here */
    int heard_ms;          /* of machine 0 */
    int expected;          /* machine */
};

static const struct lost_case lost[] = {
    { "machine 0 is lost: it is to blame", 0, 0, 9000, 0 },
    { "a rank here had failed long before machine 0 was lost", 7000, 3, 9000, 1 },
    { "it failed because machine 0 was lost", 8900, 3, 9000, 0 },
    { "it was killed before machine 0 was lost", 8900, 137, 9000, 1 },
    { "it failed after machine 0 was lost", 9500, 137, 9000, 0 },
};

static void
test_lost (void)
{
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
        const struct lost_case *row = &lost[i];
        char host[] = "b", program[] = "p", main_host[] = "a";
        struct plan plan = { .host = host, .program = program, .world_size = 2 };
        struct peers_machine own = { .state = MACHINE_JOINED, .host = host, .first_rank = 1, .ranks = 1 };
        struct peers peers = { .machine = 1, .machines = 2, .all = &own, .own = &own, .plan = &plan,
                               .main_host = main_host, .has_joined = true };
        struct peer peer = { .pipe = { .heard_ms = row->heard_ms } };
        if (row->failed_ms)
            peers_set_failure (&own, (int64_t) row->failed_ms * MS, WIRE_END_FAILED, row->status, "accelerate: b\n",
                               NULL);
        participant_lose (&peers, &peer, "gone");
        const struct job_outcome *outcome = &peers.outcome;
        bool is_ours = row->expected == 1;
        ok (outcome->is_known && outcome->machine == row->expected && outcome->is_ours == is_ours && peer.is_dead
                && outcome->status == (is_ours ? row->status : 1), "%s: %d", row->what, outcome->machine);
        const char *said = is_ours ? outcome->also : peers.to_say.text;
        ok (said && !strcmp (said, is_ours ? "  host a (machine 0): gone\n" : "accelerate: host a (machine 0): gone\n"),
            "and the loss is reported: %s", said ? said : "");
        peers_reset_machine (&own);
        peers_release_outcome (&peers.outcome);
        strbuf_release (&peers.to_say);
    }
}

struct victim_case {
    const char *what;
    enum job_end end;
    bool is_ours, is_said;
    const char *also;
    bool expected;
};

static const struct victim_case victims[] = {
    { "a rank here that failed later is reported", JOB_FAILED, false, false, NULL, true },
    { "but not if it has not failed by itself", JOB_ELSEWHERE, false, false, NULL, false },
    { "nor if it is to blame", JOB_FAILED, true, false, NULL, false },
    { "nor after the outcome was said", JOB_FAILED, false, true, NULL, false },
    { "nor twice", JOB_FAILED, false, false,
      "  at nearly the same time, rank 1 (process 77 on b) exited with status 3\n", false },
    { "though others were close, too", JOB_FAILED, false, false,
      "  at nearly the same time, rank 2 (process 77 on c) exited with status 3\n", true },
};

static void
test_victims (void)
{
    char host[] = "b";
    struct plan plan = { .host = host };
    struct plan_process process = { .rank = 1 };
    struct job_rank rank = { .process = &process, .pid = 77, .ended = true, .wait_status = 3 << 8 };
    for (size_t i = 0; i < sizeof victims / sizeof *victims; i++) {
        const struct victim_case *row = &victims[i];
        struct job job = { .plan = &plan, .ranks = &rank, .count = 1, .end = row->end };
        struct peers peers = { .machine = 1, .machines = 2, .plan = &plan,
                               .outcome = { .is_known = true, .is_ours = row->is_ours, .also = (char *) row->also } };
        const char *said = row->is_said ? "" : "accelerate: outcome\n";
        AUTO_STRBUF struct strbuf expected = { 0 };
        strbuf_printf (&expected, "%s%s", said,
                       row->expected ? "  after it, rank 1 (process 77 on b) exited with status 3\n" : "");
        strbuf_add (&peers.to_say, said);
        peers_add_victim (&peers, &job);
        ok (!strcmp (peers.to_say.text ? peers.to_say.text : "", expected.text), "%s: %s", row->what,
            peers.to_say.text);
        strbuf_release (&peers.to_say);
    }
}

/* ---- places ---- */

static const char *const *variables;

static char *
look_up (const char *name)
{
    for (const char *const *at = variables; *at; at += 2)
        if (!strcmp (*at, name))
            return (char *) at[1];
    return NULL;
}

/* A value that begins with = is one of the configuration file. */
static void
set (struct config *config, const char *key, const char *value)
{
    struct fail fail = { 0 };
    bool is_flag = value && *value != '=';
    struct origin origin = { .kind = is_flag ? ORIGIN_FLAG : ORIGIN_FILE, .line = is_flag ? 0 : 1 };
    if (value && config_set (config, option_find (key), value + !is_flag, origin, &fail))
        ok (false, "%s: %s", key, fail.text);
}

struct place_case {
    const char *variables[12];
    const char *hosts, *rank, *ip, *machines; /* NULL: not given */
    const char *expected; /* "RANK of MACHINES at IP", or "!" and a part of the message */
};

static const struct place_case places[] = {
    { { NULL }, NULL, "1", "h", "2", "1 of 2 at h" },
    { { NULL }, "a,b,c", "auto", "auto", NULL, "1 of 3 at a" },
    { { NULL }, "u@a,10.0.0.9:4", "auto", "auto", NULL, "1 of 2 at a" },
    { { NULL }, "a,bb", "auto", "auto", NULL, "!this host, b.local, is not in --hosts" },
    { { NULL }, "a,b.other", "auto", "auto", NULL, "!this host, b.local, is not in --hosts" },
    { { NULL }, NULL, "auto", "h", "2", "!nothing says which machine this is" },
    { { NULL }, NULL, "0", "auto", "2", "!nothing names the hosts" },
    { { "SLURM_NODEID", "2", "SLURM_STEP_NODELIST", "n[5-7]", "SLURM_JOB_NODELIST", "n[1-9]", "SLURM_STEP_NUM_NODES",
        "3", NULL }, NULL, "auto", "auto", NULL, "2 of 3 at n5" },
    { { "SLURM_NODEID", "0", "SLURM_JOB_NODELIST", "n[1-2]", NULL }, NULL, "auto", "auto", "2", "0 of 2 at n1" },
    { { "SLURM_NODEID", "1", "SLURM_STEP_NUM_NODES", "2", "SLURM_STEP_NUM_TASKS", "4", NULL }, NULL, "auto", "h", NULL,
      "!use srun --ntasks-per-node 1" },
    { { "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2", "OMPI_COMM_WORLD_LOCAL_SIZE", "1", "SLURM_NODEID",
        "0", NULL }, NULL, "auto", "h", NULL, "1 of 2 at h" },
    { { "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2", "OMPI_COMM_WORLD_LOCAL_SIZE", "2", NULL }, NULL,
      "auto", "h", NULL, "!use mpirun --map-by ppr:1:node" },
    { { "PMI_RANK", "1", "PMI_SIZE", "3", NULL }, NULL, "auto", "h", NULL, "1 of 3 at h" },
    { { "LSB_HOSTS", "a b b", NULL }, NULL, "auto", "auto", NULL, "1 of 2 at a" },
    { { "PMI_RANK", "3", "PMI_SIZE", "4", NULL }, NULL, "auto", "h", "2", "!must be less than num_machines" },
    { { NULL }, "=a,b,c", "auto", "auto", "=3", "1 of 3 at a" },
    { { NULL }, "=a,b,c", "=auto", "h", "=2", "1 of 3 at h" },
    { { NULL }, "=a,c", "auto", "auto", NULL, "!b.local, is not in the hosts of the configuration file" },
    { { "PMI_RANK", "0", "PMI_SIZE", "4", NULL }, "=a,b", "auto", "auto", NULL, "1 of 2 at a" },
    { { "LSB_HOSTS", "a b b", NULL }, "=a,b,c,d", "auto", "auto", "=4", "1 of 2 at a" },
    { { NULL }, "=a,b,c", "2", "auto", "=3", "2 of 3 at a" },
    { { NULL }, "a,b,c", "2", "auto", NULL, "2 of 3 at a" },
    { { NULL }, "=a,b,c", "auto", "auto", "2", "1 of 2 at a" },
    { { NULL }, "=a,b,c", "=1", NULL, "=3", "0 of 1 at -" },
    { { NULL }, "=a,b,c", "1", NULL, "=3", "1 of 3 at -" },
};

static void
test_places (void)
{
    AUTO_STRLIST struct strlist addresses = { 0 };
    const struct machine_rank_host host = { "b.local", &addresses };
    strlist_add (&addresses, "10.0.0.9");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const struct place_case *row = &places[i];
        struct config config = { 0 };
        struct fail fail = { .text = "" };
        char got[128] = "";
        variables = row->variables;
        config_init (&config, &fail);
        set (&config, "hosts", row->hosts);
        set (&config, "machine_rank", row->rank);
        set (&config, "main_process_ip", row->ip);
        set (&config, "num_machines", row->machines);
        int result = config_resolve (&config, &fail) ? -1 : machine_rank_find (&config, &host, look_up, &fail);
        if (result >= 0)
            snprintf (got, sizeof got, "%d of %d at %s", (int) config.settings.machine_rank,
                      (int) config.settings.num_machines,
                      config.settings.main_process_ip ? config.settings.main_process_ip : "-");
        ok (*row->expected == '!' ? result < 0 && strstr (fail.text, row->expected + 1) : !strcmp (got, row->expected),
            "place %zu: %s%s", i, got, fail.text);
        config_release (&config);
    }
    ok (peers_first_port (29500) == 30500 && peers_first_port (65535) == 64535, "the ports exist");
}

int
main (void)
{
    if (sodium_init () < 0)
        return 99;
    test_channel ();
    test_refusals ();
    test_recorded ();
    test_failure ();
    test_lost ();
    test_victims ();
    test_places ();
    return done_testing ();
}
