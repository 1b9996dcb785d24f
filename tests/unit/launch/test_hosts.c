/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of hosts, allocations of schedulers, what goes over the wire, and which host a failure is due to. */
#include <config.h>

#include "hosts/list/hostlist.h"
#include "hosts/head/state.h"
#include "hosts/job_spec.h"
#include "hosts/mpi/mpi.h"
#include "hosts/root_cause.h"
#include "tests/tap.h"
#include "util/cleanup.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "a:4 b" : names, and slots if they are known. */
static void
show (const struct hostlist *list, struct strbuf *out)
{
    for (size_t i = 0; i < list->count; i++) {
        strbuf_printf (out, "%s%s", i ? " " : "", list->hosts[i].name);
        if (list->hosts[i].slots)
            strbuf_printf (out, "=%d", list->hosts[i].slots);
    }
}

static void
test_texts (void)
{
    static const struct {
        const char *text, *expected; /* the list, or after '!' a part of the message */
    } cases[] = {
        { "a", "a" },
        { "a,b:4", "a b=4" },
        { "node[1-3]", "node1 node2 node3" },
        { "node[08-10]:2", "node08=2 node09=2 node10=2" },
        { "n[1,3-4]x", "n1x n3x n4x" },
        { "r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2" },
        { "a,a,b", "a=2 b" },
        { "a:2,a", "a=3" },
        { "me@a:2", "me@a=2" },
        { "10.0.0.1:3", "10.0.0.1=3" },
        { "fe80::1", "fe80::1" },
        { "[fe80::1]:2", "fe80::1=2" },
        { "me@[fe80::1]", "me@fe80::1" },
        { "", "!got an empty one" },
        { "a,", "!got an empty one" },
        { "a:0", "!'0' is not a number of processes" },
        { "a:x", "!'x' is not a number of processes" },
        { "a:-1", "!'-1' is not a number of processes" },
        { "a:99999999999", "!is not a number of processes" },
        { "-oProxyCommand=x", "!is not a host name" },
        { "-l@a", "!does not begin with the name of a user" },
        { "a b", "!'a b' is not a host name" },
        { "ssh://a", "a" },
        { "ssh://u@a/,ssh://u@b:22/", "u@a ssh://u@b:22" },
        { "ssh://a:65535:4,a:2", "ssh://a:65535=4 a=2" },
        { "ssh://n[1-2]:2222:3", "ssh://n1:2222=3 ssh://n2:2222=3" },
        { "ssh://[fe80::1],ssh://u@[fe80::1]:1:2", "fe80::1 ssh://u@[fe80::1]:1=2" },
        { "ssh://a:0", "!'ssh://a:0' has no port from 1 to 65535" },
        { "ssh://a:65536", "!has no port from 1 to 65535" },
        { "ssh://a:", "!has no port from 1 to 65535" },
        { "ssh://a:22:", "!'' is not a number of processes" },
        { "ssh://", "!is not a host name" },
        { "ssh://:22", "!is not a host name" },
        { "ssh://-oProxyCommand=x:22", "!is not a host name" },
        { "ssh://-u@a:22", "!does not begin with the name of a user" },
        { "ssh://[fe80::g]:22", "!is not a host name" },
        { "a;b", "!'a;b' is not a host name" },
        { "n[3-1]", "!ends before it begins" },
        { "n[1-", "!has a '[' without a ']'" },
        { "n[]", "!'' is not a range of numbers" },
        { "n[a-b]", "!'a-b' is not a range of numbers" },
        { "n[0-99999]", "!too many hosts" },
        { "n[0-99999][x]", "!too many hosts" },
        { "[fe80::1]x:2", "!between ']' and the number" },
        { "fe80::1%eth0", "fe80::1%eth0" },
        { "fe80::1%$(id)", "!is not a host name" },
        { "a:4096,a", "!has too many slots" },
        { "n[1-2][1,1,1,1,1,1,1,1][1,1,1,1,1,1,1,1][1,1,1,1,1,1,1,1][1,1,1,1,1,1,1,1][1,1,1,1,1,1,1,1]",
          "!has too many slots" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hostlist list = { 0 };
        struct fail fail = { 0 };
        AUTO_STRBUF struct strbuf out = { 0 };
        int result = hostlist_add_text (&list, cases[i].text, &fail);
        hostlist_finish (&list);
        show (&list, &out);
        ok (*cases[i].expected == '!' ? result && strstr (fail.text, cases[i].expected + 1)
                                      : !result && !strcmp (out.text, cases[i].expected),
            "--hosts '%s': %s", cases[i].text, result ? fail.text : out.text);
        hostlist_release (&list);
    }
}

static void
test_files (void)
{
    static const struct {
        const char *text, *expected;
    } cases[] = {
        { "a slots=4\nb\n", "a=4 b" },
        { "# comment\n\n  a:2 # more\nb max_slots=8 slots=2\r\n", "a=2 b=2" },
        { "a slots=2 max_slots=8\nb max_slots=4\n", "a=2 b" },
        { "a\na\nb", "a=2 b" },
        { "node[1-2] slots=3\n", "node1=3 node2=3" },
        { "a\nb slot=2\n", "!f:2: 'slot=2' is not one of slots=N, max_slots=N (did you mean 'slots'?)" },
        { "a slots\n", "!f:1: 'slots' needs a value" },
        { "a slots=x\n", "!f:1: 'x' is not a number of processes" },
        { "# nothing\n", "!f: names no host" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hostlist list = { 0 };
        struct fail fail = { 0 };
        AUTO_STRBUF struct strbuf out = { 0 };
        int result = hostlist_add_file (&list, "f", cases[i].text, &fail);
        hostlist_finish (&list);
        show (&list, &out);
        ok (*cases[i].expected == '!' ? result && strstr (fail.text, cases[i].expected + 1)
                                      : !result && !strcmp (out.text, cases[i].expected),
            "file %zu: %s", i, result ? fail.text : out.text);
        hostlist_release (&list);
    }
}

/* A name is found again, however many there are. */
static void
test_many (void)
{
    struct hostlist list = { 0 };
    struct fail fail = { 0 };
    bool good = !hostlist_add_text (&list, "n[0-9999]", &fail) && !hostlist_add_text (&list, "n[0-9999]:2", &fail);
    for (size_t i = 0; i < list.count; i++) {
        char name[32];
        snprintf (name, sizeof name, "n%zu", i);
        good = good && !strcmp (list.hosts[i].name, name) && list.hosts[i].slots == 2 && list.hosts[i].times == 1;
    }
    ok (good && list.count == 10000, "10000 hosts, named twice");
    hostlist_release (&list);
}

static void
test_division (void)
{
    static const struct {
        const char *text;
        int processes;
        const char *expected; /* "NAME=FIRST+RANKS" */
    } cases[] = {
        { "a:2,b:1", 0, "a=0+2 b=2+1" },     { "a,b", 0, "a=0+1 b=1+1" },
        { "a,b,c", 4, "a=0+2 b=2+1 c=3+1" }, { "a:2,b:2", 3, "a=0+2 b=2+1" },
        { "a:2,b:2", 2, "a=0+2" },           { "a,b,c", 2, "a=0+1 b=1+1" },
        { "a:4,b", 6, "a=0+4 b=4+2" },       { "b,a:2,c", 5, "b=0+2 a=2+2 c=4+1" },
        { "a:4,b", 3, "a=0+3" },             { "a:2,b", 0, "a=0+2 b=2+1" },
        { "a:2,b:2", 5,
          "!--num_processes 5 is more than the 4 slots of the hosts; raise the slots of some, as in host:3" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hostlist list = { 0 };
        struct fail fail = { 0 };
        AUTO_STRBUF struct strbuf out = { 0 };
        hostlist_add_text (&list, cases[i].text, &fail);
        hostlist_finish (&list);
        int result = hostlist_divide (&list, cases[i].processes, &fail);
        for (size_t j = 0; !result && j < list.count; j++)
            strbuf_printf (&out, "%s%s=%d+%d", j ? " " : "", list.hosts[j].name, list.hosts[j].first_rank,
                           list.hosts[j].ranks);
        ok (*cases[i].expected == '!' ? result && !strcmp (fail.text, cases[i].expected + 1)
                                      : !result && !strcmp (out.text, cases[i].expected),
            "%s with %d processes: %s", cases[i].text, cases[i].processes, result ? fail.text : out.text);
        hostlist_release (&list);
    }
    struct hostlist mixed = { 0 };
    hostlist_add_text (&mixed, "a:2,b", NULL);
    ok (!hostlist_is_complete (&mixed, 0) && hostlist_is_complete (&mixed, 3), "a host without slots has to be asked");
    hostlist_release (&mixed);
}

/* Some hosts are gone; others that had no process take their place. */
static void
test_losses (void)
{
    static const struct {
        const char *text;
        int processes;
        bool lost[3];
        const char *expected; /* "!": too few are left */
    } cases[] = {
        { "a:2,b:1,c:1", 0, { false, true }, "a=0+2 c=2+1" },
        { "a:2,b:2,c:2,d:2", 4, { true }, "b=0+2 c=2+2" },
        { "a:2,b:2,c:1,d:1", 4, { true }, "b=0+2 c=2+1 d=3+1" },
        { "a:2,b:2,c:1,d:1", 4, { true, true }, "!" },
        { "a:2,b:2", 4, { true }, "!" },
        { "a,b,c", 6, { true }, "b=0+3 c=3+3" },
        { "a:1", 0, { true }, "!" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hostlist list = { 0 };
        struct fail fail = { 0 };
        AUTO_STRBUF struct strbuf out = { 0 };
        bool good = !hostlist_add_text (&list, cases[i].text, &fail)
                    && !hostlist_divide (&list, cases[i].processes, &fail);
        if (!hostlist_can_lose (&list, cases[i].lost, cases[i].processes))
            strbuf_add (&out, "!");
        else {
            hostlist_lose (&list, cases[i].lost);
            good = good && !hostlist_divide (&list, cases[i].processes, &fail);
        }
        for (size_t j = 0; good && (!out.text || *out.text != '!') && j < list.count; j++)
            strbuf_printf (&out, "%s%s=%d+%d", j ? " " : "", list.hosts[j].name, list.hosts[j].first_rank,
                           list.hosts[j].ranks);
        ok (good && !strcmp (out.text, cases[i].expected), "%s with %d processes, some lost: %s", cases[i].text,
            cases[i].processes, out.text ? out.text : fail.text);
        hostlist_release (&list);
    }
}

static const char *const *variables; /* name, value, ..., NULL */

static char *
look_up (const char *name)
{
    for (const char *const *at = variables; *at; at += 2)
        if (!strcmp (*at, name))
            return (char *) at[1];
    return NULL;
}

static void
test_allocations (void)
{
    static const struct {
        const char *variables[8];
        const char *expected;
    } cases[] = {
        { { NULL }, "" },
        { { "SLURM_JOB_NODELIST", "n[1-3]", "SLURM_TASKS_PER_NODE", "2(x2),1" }, "n1=2 n2=2 n3=1" },
        { { "SLURM_JOB_NODELIST", "n[1-2]", "SLURM_TASKS_PER_NODE", "1(x2)" }, "n1 n2" },
        { { "SLURM_JOB_NODELIST", "n[1-2]", "SLURM_TASKS_PER_NODE", "?" }, "n1 n2" },
        { { "SLURM_JOB_NODELIST", "n[1-2]", "SLURM_STEP_ID", "0" }, "" },
        { { "SLURM_JOB_NODELIST", "n[1-2]", "SLURM_STEP_ID", "4294967290" }, "n1 n2" },
        { { "SLURM_JOB_NODELIST", "n[1-2]", "PMI_RANK", "0" }, "" },
        { { "SLURM_JOB_NODELIST", "n[1" }, "!SLURM_JOB_NODELIST: 'n[1' has a '[' without a ']'" },
        { { "LSB_MCPU_HOSTS", "a 4 b 2", "LSB_HOSTS", "x" }, "a=4 b=2" },
        { { "LSB_MCPU_HOSTS", "a b" }, "!LSB_MCPU_HOSTS: expected pairs of a host and a number" },
        { { "LSB_MCPU_HOSTS", "a 4 b" }, "!LSB_MCPU_HOSTS: expected pairs of a host and a number" },
        { { "LSB_MCPU_HOSTS", "a 0 b 2" }, "!LSB_MCPU_HOSTS: expected pairs of a host and a number" },
        { { "LSB_HOSTS", "a a b" }, "a=2 b" },
        { { "PBS_NODEFILE", "/nonexistent" }, "!PBS_NODEFILE: /nonexistent" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hostlist list = { 0 };
        struct fail fail = { 0 };
        const char *source;
        AUTO_STRBUF struct strbuf out = { 0 };
        variables = cases[i].variables;
        int result = allocation_find (&list, &source, look_up, &fail);
        strbuf_add (&out, "");
        show (&list, &out);
        ok (*cases[i].expected == '!' ? result && strstr (fail.text, cases[i].expected + 1)
                                      : !result && !strcmp (out.text, cases[i].expected) && !source == !list.count,
            "allocation %zu: %s", i, result ? fail.text : out.text);
        hostlist_release (&list);
    }
}

/* Of one command that was started several times, each would be the head of a job. */
static void
test_tasks (void)
{
    static const struct {
        const char *variables[8];
        int count;
        const char *starter;
    } cases[] = {
        { { NULL }, 1, "" },
        { { "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "4" }, 4, "srun" },
        { { "SLURM_STEP_ID", "4294967291", "SLURM_STEP_NUM_TASKS", "4" }, 1, "" },
        { { "SLURM_STEP_NUM_TASKS", "4" }, 1, "" },
        { { "SLURM_STEP_ID", "0", "SLURM_STEP_NUM_TASKS", "1" }, 1, "srun" },
        { { "OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "2" }, 2, "mpirun" },
        { { "PMI_RANK", "0", "PMI_SIZE", "3" }, 3, "mpiexec" },
        { { "PMI_RANK", "0", "PMI_SIZE", "many" }, 1, "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *starter = "";
        variables = cases[i].variables;
        int64_t count = allocation_tasks (&starter, look_up);
        ok (count == cases[i].count && !strcmp (starter, cases[i].starter), "tasks %zu: %d of %s", i, (int) count,
            starter);
    }
}

static void
test_wire (void)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    AUTO_STRLIST struct strlist list = { 0 }, back = { 0 };
    struct wire_frame frame;
    size_t used = 0, partial = 0;
    strlist_add (&list, "x");
    strlist_add (&list, "");
    size_t begin = wire_begin (&out, WIRE_HELLO);
    wire_put_number (&out, -5);
    wire_put_text (&out, NULL);
    wire_put_text (&out, "text");
    wire_put_list (&out, &list);
    wire_end (&out, begin);
    for (size_t i = 0; i < out.length; i++)
        partial += wire_next (out.text, i, &frame, &used) == 0;
    ok (partial == out.length, "a frame is not taken before all of it is there");
    ok (wire_next (out.text, out.length, &frame, &used) == 1 && used == out.length && frame.type == WIRE_HELLO,
        "a frame");
    ok (wire_number (&frame) == -5 && !wire_text (&frame), "a number, no text");
    const char *text = wire_text (&frame);
    wire_list (&frame, &back);
    ok (text && !strcmp (text, "text") && back.count == 2 && !strcmp (back.items[0], "x") && !*back.items[1]
            && !frame.failed && !frame.left,
        "a text, a list");
    ok (!wire_number (&frame) && frame.failed && !wire_text (&frame), "nothing comes after the end");
    ok (wire_next ("\xff\xff\xff\xff\x01", 5, &frame, &used) == -1, "a frame that is too long is refused");
    ok (wire_next ("\0\0\0\0\x63", 5, &frame, &used) == -1, "a type that does not exist is refused");
    struct wire_frame open = { .at = "\x03\0\0\0\0\0\0\0abc", .left = 11 };
    ok (!wire_text (&open) && open.failed, "a text without its end is refused");
    struct wire_frame beyond = { .at = "\x05\0\0\0\0\0\0\0abcd", .left = 11 };
    ok (!wire_text (&beyond) && beyond.failed, "so is one that is longer than its frame");
}

static void
test_job_spec (void)
{
    static char *const arguments[] = { (char *) "launch", (char *) "a b", NULL };
    struct job_spec sent = { .folder = (char *) "/somewhere", .timeout_ms = 3000, .columns = 77, .host = 2 }, got;
    struct fail fail = { 0 };
    AUTO_STRBUF struct strbuf out = { 0 };
    struct wire_frame frame;
    size_t used;
    config_init (&sent.config, &fail);
    config_set (&sent.config, option_find ("mixed_precision"), "bf16", (struct origin){ ORIGIN_FILE, 7, 0 }, &fail);
    config_set (&sent.config, option_find ("vm"), "one", (struct origin){ .kind = ORIGIN_FLAG }, &fail);
    config_set (&sent.config, option_find ("vm"), "two", (struct origin){ .kind = ORIGIN_FLAG }, &fail);
    sent.config.program = strdup ("prog");
    strlist_add (&sent.arguments, arguments[1]);
    strlist_add (&sent.environment, "A=1");
    job_spec_put (&out, &sent);
    bool is_frame = wire_next (out.text, out.length, &frame, &used) == 1;
    const char *frame_begin = frame.at;
    size_t frame_bytes = frame.left;
    ok (is_frame && !job_spec_take (&got, &frame, &fail), "a job comes over");
    struct origin origin = config_origin (&got.config, "mixed_precision");
    ok (!strcmp (got.config.settings.mixed_precision, "bf16") && origin.kind == ORIGIN_FILE && origin.line == 7,
        "a setting keeps its value and its origin");
    ok (got.config.settings.vm.count == 2 && !strcmp (got.config.settings.vm.items[1], "two"), "so does a list");
    ok (!strcmp (got.config.program, "prog") && !strcmp (got.config.program_args[0], "a b")
            && !got.config.program_args[1] && !strcmp (got.environment.items[0], "A=1")
            && !strcmp (got.folder, "/somewhere") && got.columns == 77
            && got.timeout_ms == 3000 && got.host == 2,
        "program, environment, folder");
    job_spec_release (&got);
    struct wire_frame cut = { .type = WIRE_JOB, .at = out.text + 5, .left = out.length / 2 };
    ok (job_spec_take (&got, &cut, &fail) && *fail.text, "half a job is refused: %s", fail.text);
    cut = (struct wire_frame){ .type = WIRE_JOB, .at = frame_begin, .left = frame_bytes - 8 };
    ok (job_spec_take (&got, &cut, &fail) && *fail.text, "so is one without its last number: %s", fail.text);
    sent.folder = NULL;
    job_spec_release (&sent);
    ok (job_spec_sends ("PATH=/bin") && job_spec_sends ("WANDB_API_KEY=x") && !job_spec_sends ("HOME=/root")
            && !job_spec_sends ("SSH_AUTH_SOCK=x") && !job_spec_sends ("SLURM_JOB_ID=1") && job_spec_sends ("HOMES=1")
            && !job_spec_sends ("junk"),
        "variables of a host stay there");
}

/* Which of two hosts is to blame. */
static void
test_outcome (void)
{
    struct link links[2]
        = { { .name = "a", .failed_rank = -1, .err = -1 }, { .name = "b", .failed_rank = -1, .err = -1 } };
    struct failure failures[HEAD_FAILURES (2)];
    struct hosts hosts = { 0 };
    struct head head = { .hosts = &hosts, .links = links, .failures = failures, .count = 2 };
    links[0].state = links[1].state = LINK_ENDED;
    ok (!outcome_find (&head) && outcome_status (&head, NULL) == 0, "no failure");
    links[0].end = links[1].end = WIRE_END_FAILED;
    links[0].status = 1;
    links[1].status = 137;
    links[0].failed_ns = 2000;
    links[1].failed_ns = 1000;
    ok (outcome_find (&head) == &links[1] && outcome_status (&head, &links[1]) == 137, "the first failure counts");
    links[1].status = 4;
    links[0].end = WIRE_END_ERROR;
    links[0].status = 137;
    ok (outcome_find (&head) == &links[0], "a launcher that was killed is blamed, although its end is seen later");
    links[0].end = WIRE_END_FAILED;
    ok (outcome_find (&head) == &links[0], "so is a rank that was killed");
    links[0].status = 143;
    ok (outcome_find (&head) == &links[0], "by SIGTERM, too");
    links[0].status = 134;
    links[0].report = strdup ("accelerate: rank 0 was killed by signal 6\n  more\n");
    links[1].report = strdup ("accelerate: rank 1 exited with status 4\n  more\n");
    AUTO_STRBUF struct strbuf text = { 0 };
    outcome_text (&head, outcome_find (&head), &text);
    ok (!strcmp (text.text, "accelerate: rank 1 exited with status 4\n  more\n"
                            "  at nearly the same time, rank 0 was killed by signal 6\n"),
        "a rank that may have been first is named, too");
    free (links[0].report);
    free (links[1].report);
    links[0].report = links[1].report = NULL;
    links[0].status = 137;
    links[1].status = 137;
    links[0].state = LINK_LOST;
    links[0].failed_ns = 500;
    links[0].status = 0;
    ok (outcome_find (&head) == &links[0] && outcome_status (&head, &links[0]) == 1, "a lost host is one");
    links[1].status = 4;
    links[0].failed_ns = 2000;
    ok (outcome_find (&head) == &links[0], "also if its last message came after its victims had failed");
    links[0].failed_ns = 2000000000;
    ok (outcome_find (&head) == &links[1], "but not if it was long after that");
    links[0].state = LINK_ENDED;
    links[0].end = WIRE_END_STOPPED;
    links[0].end_requested = true;
    links[0].failed_ns = 500;
    ok (outcome_find (&head) == &links[1], "a host that was told to end has not failed");
    links[0].end = WIRE_END_ERROR;
    links[0].status = 143;
    links[0].failed_ns = 500;
    ok (outcome_find (&head) == &links[1], "nor has one whose launcher got the order before it could report");
    links[0].end = WIRE_END_STOPPED;
    links[0].failed_ns = 2000;
    links[0].end_requested = false;
    ok (outcome_find (&head) == &links[0], "a launcher that was ended from outside was first");
    links[0].end_requested = true;
    head.signal = 15;
    head.signal_ns = 900;
    ok (!outcome_find (&head) && outcome_status (&head, NULL) == 143, "what fails after a signal is due to the signal");
    head.signal_ns = 1100;
    links[1].round_trip_ns = 100;
    ok (outcome_find (&head) == &links[1], "what failed before it is not");
    links[1].round_trip_ns = 300;
    ok (!outcome_find (&head), "unless the host's clock is not known so well");
}

/* Ranks that have stopped because one of them was asked to. */
static void
test_asked (void)
{
    static const struct {
        const char *what;
        enum wire_end ends[2];
        int statuses[2];
        bool may_go_on;
    } rows[] = {
        { "all have stopped, for a rank was asked to", { WIRE_END_ASKED, WIRE_END_ASKED },
          { FAIL_STOPPED, FAIL_STOPPED }, true },
        { "one host's launcher has a reason of its own", { WIRE_END_STOPPED, WIRE_END_ASKED },
          { FAIL_STOPPED, FAIL_STOPPED }, false },
        { "one host was told to end meanwhile", { WIRE_END_ASKED, WIRE_END_STOPPED }, { FAIL_STOPPED, 143 }, true },
        { "no rank was asked", { WIRE_END_DONE, WIRE_END_DONE }, { 0, 0 }, false },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct link links[2] = { 0 };
        struct hosts hosts = { 0 };
        struct head head = { .hosts = &hosts, .links = links, .count = 2 };
        for (int j = 0; j < 2; j++)
            links[j] = (struct link){ .name = "a", .state = LINK_ENDED, .end = rows[i].ends[j],
                                      .status = rows[i].statuses[j] };
        ok (outcome_may_go_on (&head) == rows[i].may_go_on, "%s", rows[i].what);
        ok (outcome_status (&head, NULL) == (rows[i].ends[0] ? FAIL_STOPPED : 0), "and the status is right");
    }
}

/* Whoever says whose end made it give up is believed, rather than clocks. */
static void
test_words (void)
{
    struct failure all[] = {
        { .failed_ns = 1000, .end = WIRE_END_FAILED, .status = 3,
          .report = "accelerate: rank 0 (process 1 on a) exited with status 3\n"
                    "  it gave up: rank 2 ended (process 7); meanwhile rank 0 was in accel_gather at a.c:1\n" },
        { .failed_ns = 800000000, .end = WIRE_END_FAILED, .status = 134,
          .report = "accelerate: rank 2 (process 7 on b) was killed by signal 6 (SIGABRT)\n" },
        { .failed_ns = 2000, .end = WIRE_END_FAILED, .status = 4,
          .report = "accelerate: rank 4 (process 1 on c) exited with status 4\n"
                    "  at nearly the same time, rank 5 (process 2 on c) was killed by signal 6 (SIGABRT)\n" },
    };
    AUTO_STRBUF struct strbuf text = { 0 };
    ok (root_cause_find (all, 2) == 1, "the rank that is named was first");
    ok (root_cause_find (all, 3) == 2, "of those that name no rank, time decides");
    root_cause_add_simultaneous (all, 3, 1, &text);
    ok (text.text && !strcmp (text.text, "  at nearly the same time, rank 4 (process 1 on c) exited with status 4\n"
                              "  at nearly the same time, rank 5 (process 2 on c) was killed by signal 6 (SIGABRT)\n"),
        "who names it cannot have been first; who does not, can: %s", text.text);
    all[1].report = "accelerate: rank 2 (process 7 on b) exited with status 5\n"
                    "  it gave up: rank 0 ended (process 1)\n";
    ok (root_cause_find (all, 2) == 0, "if two name each other, time decides");
    all[1].report = "accelerate: rank 3 (process 7 on b) was killed by signal 6 (SIGABRT)\n";
    ok (root_cause_find (all, 2) == 0, "a rank that is not named was not first");
    all[0].failed_ns = all[1].failed_ns = 0;
    ok (root_cause_find (all, 2) == 2, "who has not failed is not blamed");
}

/* Hosts with one rank each.  Which is to blame does not depend on their order. */
static void
test_orders (void)
{
    enum { MOST = 4 };
    static const struct {
        const char *what;
        struct {
            int64_t failed_ms;
            int status, lost; /* -1: it does not say whose end it has seen */
        } ranks[MOST]; /* the first one is to blame; failed_ms 0: no more */
    } cases[] = {
        { "words lead further", { { 900, 134, -1 }, { 500, 3, 0 }, { 100, 3, 1 } } },
        { "so they do against what was killed", { { 900, 4, -1 }, { 500, 137, 0 }, { 700, 4, 1 } } },
        { "three that name each other: time", { { 100, 3, 1 }, { 200, 3, 2 }, { 300, 3, 0 } } },
        { "and another way round", { { 100, 3, 2 }, { 200, 3, 0 }, { 300, 3, 1 } } },
        { "their victim was earlier", { { 200, 3, 1 }, { 300, 3, 2 }, { 400, 3, 0 }, { 100, 3, 1 } } },
        { "signals, then time", { { 4000, 137, -1 }, { 100, 3, -1 }, { 3000, 139, -1 }, { 90, 4, -1 } } },
        { "exit (-1) is not a signal", { { 100, 1, -1 }, { 200, 255, -1 } } },
        { "a kill that came too late explains nothing", { { 100, 3, -1 }, { 5200, 137, -1 }, { 150, 4, -1 } } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int count = 0, wrong = 0;
        while (count < MOST && cases[i].ranks[count].failed_ms)
            count++;
        for (int order = 0; order < count * count * count * count; order++) {
            struct failure all[MOST];
            char reports[MOST][160];
            int places[MOST], used = 0, digits = order;
            for (int k = 0; k < count; k++, digits /= count)
                used |= 1 << (places[k] = digits % count);
            if (used != (1 << count) - 1 || digits)
                continue; /* not a permutation */
            for (int k = 0; k < count; k++) {
                int lost = cases[i].ranks[k].lost;
                snprintf (reports[k], sizeof *reports,
                          "accelerate: rank %d (process 1 on a) exited\n%s rank %d ended (process 7)\n", k,
                          lost < 0 ? "  it was: before" : "  it gave up:", lost);
                all[places[k]] = (struct failure){ .failed_ns = cases[i].ranks[k].failed_ms * 1000000,
                                                   .end = WIRE_END_FAILED, .status = cases[i].ranks[k].status,
                                                   .report = reports[k] };
            }
            wrong += root_cause_find (all, (size_t) count) != (size_t) places[0];
        }
        ok (!wrong, "order of hosts: %s (%d wrong)", cases[i].what, wrong);
    }
}

/* An mpirun that does not end by itself. */
static void
test_mpi_launcher (void)
{
    struct mpi_launcher mpi_launcher = MPI_LAUNCHER_NONE;
    mpi_launcher_hurry (&mpi_launcher);
    ok (!mpi_launcher.until_ms, "no process has to hurry");
    mpi_launcher.pid = fork ();
    if (mpi_launcher.pid == 0)
        for (;;)
            pause ();
    alarm (900);
    mpi_launcher_hurry (&mpi_launcher);
    ok (!mpi_launcher_end (&mpi_launcher) && mpi_launcher.end_requested,
        "after a failure, mpirun is asked to end at once");
    mpi_launcher_finish (&mpi_launcher);
    alarm (0);
    ok (!mpi_launcher.pid, "mpirun is ended by force");
}

/* Open MPI ends a rank with 195 if its mpirun has gone. */
static void
test_lost_mpirun (void)
{
    struct hosts hosts = { .starter.mpi = STARTER_MPI_OPEN, .own = "a" };
    struct link link = { .name = "b", .state = LINK_ENDED, .end = WIRE_END_FAILED, .status = 195, .failed_ns = 1,
                         .report = strdup ("accelerate: rank 1 exited with status 195\n  more\n") };
    struct head head = { .hosts = &hosts, .links = &link, .count = 1, .mpi_launcher = MPI_LAUNCHER_NONE };
    AUTO_STRBUF struct strbuf text = { 0 }, line = { 0 };
    ok (outcome_status (&head, &link) == 195, "mpirun runs: the rank is blamed");
    head.mpi_launcher.wait_status = SIGKILL;
    outcome_text (&head, &link, &text);
    ok (outcome_status (&head, &link) == 137 && text.text
        && !strcmp (text.text, "accelerate: mpirun on a was killed by signal 9 (SIGKILL), and ranks that use MPI ended "
                               "with it\n  the first of them: rank 1 exited with status 195\n"),
        "mpirun was killed, and is blamed: %s", text.text);
    head.mpi_launcher.names_cause = true;
    ok (outcome_status (&head, &link) == 137, "whatever it has said before");
    head.mpi_launcher.wait_status = 1 << 8;
    ok (outcome_status (&head, &link) == 195, "mpirun ended because of the rank, as it says: the rank is blamed");
    head.mpi_launcher.names_cause = false;
    ok (outcome_status (&head, &link) == 1, "mpirun ended without saying why, and is blamed");
    hosts.starter.mpi = STARTER_MPI_HYDRA;
    ok (outcome_status (&head, &link) == 195, "195 means nothing with another MPI");
    hosts.starter.mpi = STARTER_MPI_OPEN;
    link.status = 3;
    ok (outcome_status (&head, &link) == 3, "a rank that failed in another way is blamed all the same");
    free (link.report);
    strbuf_add (&head.mpi_launcher.said, "one\n\ntw");
    head.mpi_launcher.out = 0;
    ok (mpi_launcher_take_line (&head.mpi_launcher, &line) && !strcmp (line.text, "one"),
        "a line that mpirun has said");
    ok (mpi_launcher_take_line (&head.mpi_launcher, &line) && !line.length
        && !mpi_launcher_take_line (&head.mpi_launcher, &line), "one at a time");
    head.mpi_launcher.out = -1;
    ok (mpi_launcher_take_line (&head.mpi_launcher, &line) && !strcmp (line.text, "tw")
        && !mpi_launcher_take_line (&head.mpi_launcher, &line), "and the rest at its end");
    strbuf_release (&head.mpi_launcher.said);
}

/* What mpirun says. */
static void
test_words_of_mpirun (void)
{
    static const char error[] = "node host3 exiting improp", rest[] = "erly. There are\n",
                      aborted[] = "MPI_ABORT was invoked on rank 1\n";
    struct mpi_launcher mpi_launcher = MPI_LAUNCHER_NONE;
    AUTO_STRBUF struct strbuf line = { 0 };
    char bytes[1024];
    int ends[2], lines = 0, cut = 0;
    ok (!pipe2 (ends, O_NONBLOCK), "a pipe");
    mpi_launcher.out = ends[0];
    bool good = write (ends[1], error, sizeof error - 1) == sizeof error - 1;
    mpi_launcher_read_all (&mpi_launcher);
    ok (good && !mpi_launcher.names_cause, "half a reason does not count");
    good = write (ends[1], rest, sizeof rest - 1) == sizeof rest - 1;
    mpi_launcher_read_all (&mpi_launcher);
    ok (good && mpi_launcher.names_cause && mpi_launcher_take_line (&mpi_launcher, &line),
        "it has ended because of a rank, it says");
    good = !mpi_launcher.has_abort && write (ends[1], aborted, sizeof aborted - 1) == sizeof aborted - 1;
    mpi_launcher_read_all (&mpi_launcher);
    ok (good && mpi_launcher.has_abort && mpi_launcher_take_line (&mpi_launcher, &line),
        "and that it has called MPI_Abort()");
    memset (bytes, 'x', sizeof bytes);
    for (int i = 0; i < 8; i++) {
        bytes[sizeof bytes - 1 - (size_t) i] = '\n';
        good = good && write (ends[1], bytes, sizeof bytes) == sizeof bytes;
        mpi_launcher_read (&mpi_launcher);
    }
    while (mpi_launcher_take_line (&mpi_launcher, &line)) {
        const char *at = strstr (line.text, " (the rest was dropped)");
        cut += at && !at[strlen (" (the rest was dropped)")];
        lines++;
    }
    ok (good && cut == 1 && lines >= 4, "a line after which others are missing has a mark (%d of %d)", cut, lines);
    good = write (ends[1], "tail\nnext\n", 10) == 10;
    mpi_launcher_read_all (&mpi_launcher);
    ok (good && mpi_launcher_take_line (&mpi_launcher, &line) && !strcmp (line.text, "next"),
        "half a line is not shown then");
    close (ends[0]);
    close (ends[1]);
    strbuf_release (&mpi_launcher.said);
}

int
main (void)
{
    test_texts ();
    test_files ();
    test_many ();
    test_division ();
    test_losses ();
    test_allocations ();
    test_tasks ();
    test_wire ();
    test_job_spec ();
    test_outcome ();
    test_asked ();
    test_words ();
    test_orders ();
    test_mpi_launcher ();
    test_lost_mpirun ();
    test_words_of_mpirun ();
    return done_testing ();
}
