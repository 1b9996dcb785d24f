/* SPDX-License-Identifier: Apache-2.0 */
/* The check of several hosts: which links are slow, what is said of what was found, and the measurement itself. */
#include <config.h>

#include "hosts/check/check.c"
#include "hosts/check/check.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 4 };

/* "0-1 2" : links, and hosts all of whose links are slow; "~" before those that are slow by their round trip. */
static void
show (const struct slow_link *found, size_t count, struct strbuf *out)
{
    strbuf_add (out, "");
    for (size_t i = 0; i < count; i++) {
        strbuf_printf (out, "%s%s%d", i ? " " : "", found[i].is_latency ? "~" : "", found[i].from);
        if (found[i].to >= 0)
            strbuf_printf (out, "-%d", found[i].to);
    }
}

static void
test_slow (void)
{
    static const struct {
        const char *what;
        int count;
        double rates[MOST * MOST], trips[MOST * MOST];
        const char *expected;
        double loads[MOST];
    } cases[] = {
        { "no host", 0, { 0 }, { 0 }, "" },
        { "one host", 1, { 0 }, { 0 }, "" },
        { "nothing measured", 2, { 0 }, { 0 }, "" },
        { "equal", 2, { 0, 100, 100, 0 }, { 0, 1, 1, 0 }, "" },
        { "two hosts, one direction", 2, { 0, 100, 10, 0 }, { 0 }, "1-0" },
        { "exactly the limit", 2, { 0, 100, 25, 0 }, { 0 }, "" },
        { "below the limit", 2, { 0, 100, 24.9, 0 }, { 0 }, "1-0" },
        { "one link among three hosts", 3, { 0, 100, 100, 100, 0, 9, 100, 100, 0 }, { 0 }, "1-2" },
        { "both directions, the slower first", 3, { 0, 100, 100, 100, 0, 9, 100, 8, 0 }, { 0 }, "2-1 1-2" },
        { "one host of three, which makes most links slow", 3, { 0, 100, 9, 100, 0, 9, 9, 9, 0 }, { 0 }, "2" },
        { "one host of three, but only when it sends", 3, { 0, 100, 100, 100, 0, 100, 9, 9, 0 }, { 0 }, "2-0 2-1" },
        { "a host that was not measured", 3, { 0, 100, 0, 10, 0, 0, 0, 0, 0 }, { 0 }, "1-0" },
        { "a host with one link that was measured", 3, { 0, 100, 9, 100, 0, 0, 0, 0, 0 }, { 0 }, "0-2" },
        { "two bad hosts of four", 4, { 0, 100, 9, 9, 100, 0, 9, 9, 9, 9, 0, 9, 9, 9, 9, 0 }, { 0 }, "2 3" },
        { "a long round trip", 3, { 0 }, { 0, 1, 1, 1, 0, 50, 1, 50, 0 }, "~1-2" },
        { "a host with long round trips", 3, { 0 }, { 0, 1, 50, 1, 0, 50, 50, 50, 0 }, "~2" },
        { "a round trip that is short all the same", 3, { 0 }, { 0, .02, .02, .02, 0, 1.9, .02, 1.9, 0 }, "" },
        { "both", 3, { 0, 100, 100, 100, 0, 10, 100, 100, 0 }, { 0, 1, 1, 1, 0, 50, 1, 50, 0 }, "~1-2 1-2" },
        { "a busy host that sends", 2, { 0, 100, 10, 0 }, { 0 }, "", { 1, 2.5 } },
        { "a busy host that receives", 2, { 0, 100, 10, 0 }, { 0 }, "", { 2.5, 1 } },
        { "slower than that explains", 2, { 0, 100, 9.9, 0 }, { 0 }, "1-0", { 1, 2.5 } },
        { "idle hosts", 2, { 0, 100, 24.9, 0 }, { 0 }, "1-0", { .1, .2 } },
        { "another busy host", 3, { 0, 100, 100, 100, 0, 9, 100, 100, 0 }, { 0 }, "1-2", { 50, 1, 1 } },
        { "all links of a busy host", 3, { 0, 100, 9, 100, 0, 9, 9, 9, 0 }, { 0 }, "", { 1, 1, 4 } },
        { "round trips of busy hosts", 3, { 0 }, { 0, 1, 1, 1, 0, 50, 1, 50, 0 }, "~1-2", { 50, 50, 50 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct slow_link found[MOST];
        AUTO_STRBUF struct strbuf out = { 0 };
        size_t count = slow_links_find (cases[i].rates, cases[i].trips, cases[i].loads, cases[i].count, found, MOST);
        show (found, count < MOST ? count : MOST, &out);
        ok (!strcmp (out.text, cases[i].expected), "slow links, %s: '%s'", cases[i].what, out.text);
    }
}

static void
test_slow_numbers (void)
{
    static const double rates[] = { 0, 100, 120, 110, 0, 5, 100, 10, 0 }, trips[9] = { 0 };
    struct slow_link found[1];
    size_t count = slow_links_find (rates, trips, NULL, 3, found, 1);
    ok (count == 2 && found[0].from == 1 && found[0].to == 2, "the slowest is found where there is room for one");
    ok (fabs (found[0].is - 5) < 1e-9 && fabs (found[0].usual - 120) < 1e-9 && fabs (found[0].times - 24) < 1e-9,
        "with its numbers: %g, usual %g", found[0].is, found[0].usual);
}

/* ---- diagnoses ---- */

enum { HOSTS = 3 };

struct lab {
    struct check check;
    struct hosts hosts;
    char *whys[HOSTS * HOSTS];
    enum net_benchmark_trouble troubles[HOSTS * HOSTS];
    double rates[HOSTS * HOSTS], trips[HOSTS * HOSTS];
    bool needs_mpi;
};

static char program[] = "accelerate";
static char version[] = PACKAGE_VERSION, other_version[] = "9.9", host_name[] = "name";
static char build_one[] = "1234567890", build_two[] = "abcdefghij", engine_why[] = "not installed";
static char pair_why[] = "cannot connect";

static struct lab
make_lab (struct check_host *items)
{
    static const char *const names[HOSTS] = { "a", "b", "c" };
    for (int i = 0; i < HOSTS; i++)
        items[i] = (struct check_host){ .link = { .name = names[i], .host = host_name, .version = version,
                                                  .state = LINK_READY },
                                        .has_facts = true, .build = build_one, .clock_trip_ns = 1000 };
    return (struct lab){ .check = { .items = items, .count = HOSTS, .port = 29500 }, .hosts = { .program = program } };
}

static void
lose (struct check_host *host, const char *its_version, const char *why)
{
    host->link.state = LINK_LOST;
    host->link.version = its_version ? (char *) its_version : NULL;
    snprintf (host->link.why, sizeof host->link.why, "%s", why);
}

static void
break_nothing (struct lab *lab)
{
    (void) lab;
}
static void
break_connection (struct lab *lab)
{
    lose (&lab->check.items[1], NULL, "cannot connect: no route");
}
static void
break_step (struct lab *lab)
{
    break_connection (lab);
    lab->hosts.starter.agents = STARTER_SRUN;
}
static void
break_version (struct lab *lab)
{
    lose (&lab->check.items[2], other_version, "accelerate 9.9 is installed there");
}
static void
break_answer (struct lab *lab)
{
    lose (&lab->check.items[2], version, "no answer within 3 s");
}
static void
break_pair (struct lab *lab)
{
    lab->whys[1 * HOSTS + 2] = pair_why;
}
static void
refuse_pair (struct lab *lab)
{
    break_pair (lab);
    lab->troubles[1 * HOSTS + 2] = NET_BENCHMARK_REFUSED;
}
static void
stall_pair (struct lab *lab)
{
    break_pair (lab);
    lab->troubles[1 * HOSTS + 2] = NET_BENCHMARK_STALLED;
}
static void
part_pair (struct lab *lab)
{
    break_pair (lab);
    lab->troubles[1 * HOSTS + 2] = NET_BENCHMARK_NO_ROUTE;
}
static void
ignore_busy (struct lab *lab)
{
    lab->check.items[1].load = 3;
}
static void
keep_busy (struct lab *lab)
{
    lab->check.loads_matter = true;
    lab->check.items[1].load = 2;
    lab->check.items[2].load = 1.99;
}
static void
break_port (struct lab *lab)
{
    snprintf (lab->check.port_why, sizeof lab->check.port_why, "host b cannot reach port 29500 of host a");
}
static void
refuse_port (struct lab *lab)
{
    lab->check.port = 0;
    snprintf (lab->check.port_why, sizeof lab->check.port_why, "host a: cannot listen");
}
static void
break_build (struct lab *lab)
{
    lab->check.items[1].build = build_two;
}
static void
lose_build (struct lab *lab)
{
    lab->check.items[0].build = NULL;
}
static void
break_clock (struct lab *lab)
{
    lab->check.items[1].clock_ns = -1500000000;
}
static void
shift_clock (struct lab *lab)
{
    lab->check.items[1].clock_ns = 990000000;
}
static void
break_engine (struct lab *lab)
{
    lab->check.items[2].no_engine = engine_why;
}
static void
lose_engines (struct lab *lab)
{
    for (int i = 0; i < HOSTS; i++)
        lab->check.items[i].no_engine = engine_why;
}
static void
slow_link (struct lab *lab)
{
    lab->check.slow[0] = (struct slow_link){ 1, 2, 10, 12, 120, false };
    lab->check.slow_count = 1;
}
static void
slow_host (struct lab *lab)
{
    lab->check.slow[0] = (struct slow_link){ 1, -1, 50, 50, 1, true };
    lab->check.slow_count = 1;
}

static void
slow_nccl (struct lab *lab)
{
    slow_link (lab);
    lab->check.nccl_slow[0] = lab->check.slow[0];
    lab->check.nccl_slow_count = 1;
    lab->check.slow_count = 0;
}
static void
break_nccl (struct lab *lab)
{
    lab->check.nccl.state = CHECK_TRANSPORT_FAILED;
    snprintf (lab->check.nccl.why, sizeof lab->check.nccl.why, "why");
}

static void
break_mpi (struct lab *lab)
{
    lab->check.mpi.state = CHECK_TRANSPORT_FAILED;
    snprintf (lab->check.mpi.why, sizeof lab->check.mpi.why, "why");
}
static void
need_mpi (struct lab *lab)
{
    break_mpi (lab);
    lab->needs_mpi = true;
}
static void
need_untried_mpi (struct lab *lab)
{
    need_mpi (lab);
    lab->check.mpi.state = CHECK_TRANSPORT_LEFT_OUT;
}
static void
need_more (struct lab *lab)
{
    need_untried_mpi (lab);
    break_answer (lab);
}

static void
test_diagnoses (void)
{
    static const struct {
        const char *what;
        void (*damage) (struct lab *lab);
        const char *problem, *note, *advice; /* NULL: none; else parts of the only one */
    } cases[] = {
        { "nothing", break_nothing, NULL, NULL, "a job can run" },
        { "a connection", break_connection, "host b: cannot connect", NULL, "ssh b accelerate --version\" work w" },
        { "a step of Slurm", break_step, "host b: cannot connect", NULL, "nodelist=b accelerate --version\" work" },
        { "another version", break_version, "host c: accelerate 9.9", NULL, "install accelerate " PACKAGE_VERSION },
        { "no answer", break_answer, "host c: no answer", NULL, "repair host c" },
        { "a pair", break_pair, "from b to c: cannot connect", NULL, "between hosts b and c on all ports" },
        { "a pair that is refused", refuse_pair, "from b to c: cannot connect", NULL, "allow TCP connections" },
        { "a pair that stalls", stall_pair, "from b to c: cannot connect", NULL, "check the network between hosts b" },
        { "a pair without a route", part_pair, "from b to c: cannot connect", NULL, "connects hosts b and c with --" },
        { "a busy host", keep_busy, NULL, "busy hosts: b, with up to 2 processes for each processor;",
          "see the notes" },
        { "a busy host whose links are as good as others", ignore_busy, NULL, NULL, "a job can run" },
        { "the port", break_port, "host b cannot reach port 29500 of host a", NULL, "open port 29500 of host a" },
        { "a port in use", refuse_port, "host a: cannot listen", NULL, "change the option" },
        { "another build", break_build, NULL, "host b has another build", "see the notes" },
        { "an unknown build", lose_build, NULL, NULL, "a job can run" },
        { "a clock", break_clock, NULL, "host b is 1.5 s behind ours", "see the notes" },
        { "a clock that is good enough", shift_clock, NULL, NULL, "a job can run" },
        { "an engine", break_engine, NULL, "host c has no MPI engine", "see the notes" },
        { "no engine anywhere", lose_engines, NULL, NULL, "a job can run" },
        { "MPI", break_mpi, NULL, "MPI failed between these hosts; programs that use libaccel or MPI need it: why",
          "see the notes" },
        { "NCCL", break_nccl, NULL, "NCCL failed between the GPUs of these hosts; programs on GPUs need it: why",
          "see the notes" },
        { "a slow link through NCCL", slow_nccl, NULL,
          "from host b to host c is slow through NCCL: 12 MB/s, usual here is 120",
          "the slow link between hosts b and c" },
        { "MPI, where it is needed", need_mpi, "MPI failed between these hosts", NULL, "or start the job without it" },
        { "no MPI, where it is needed", need_untried_mpi, "MPI was not tried: why", NULL, "make MPI work" },
        { "no MPI because of another problem", need_more, "host c: no answer", NULL, "repair host c" },
        { "a slow link", slow_link, NULL, "from host b to host c is slow: 12 MB/s, usual here is 120",
          "the slow link between hosts b and c" },
        { "a slow host", slow_host, NULL, "all links of host b are slow: 50 ms there and back at best",
          "host b would slow it down" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct check_host items[HOSTS];
        struct fail fail = { 0 };
        struct lab lab = make_lab (items);
        struct check *check = &lab.check;
        check->hosts = &lab.hosts;
        check->whys = lab.whys;
        check->troubles = lab.troubles;
        cases[i].damage (&lab);
        int result = check_diagnose (check, lab.needs_mpi, &fail);
        const char *problem = check->problems.count == 1 ? check->problems.items[0] : NULL;
        const char *note = check->notes.count == 1 ? check->notes.items[0] : NULL;
        ok (!result && (cases[i].problem ? problem && strstr (problem, cases[i].problem) : !check->problems.count)
                && (cases[i].note ? note && strstr (note, cases[i].note) : !check->notes.count)
                && strstr (check->advice, cases[i].advice),
            "diagnosed, %s: %s; %s; %s", cases[i].what, problem ? problem : "", note ? note : "", check->advice);
        strlist_release (&check->problems);
        strlist_release (&check->notes);
        free (check->advice);
    }
}

/* ---- clocks ---- */

/* The other clock is five seconds ahead. */
static void
test_clock (void)
{
    enum { AHEAD_S = 5, NS = 1000000000 };
    struct check_host host = { .link = { .name = "a" } };
    struct strbuf *asked = &host.link.pipe.to_write;
    AUTO_STRBUF struct strbuf answer = { 0 };
    struct wire_frame frame;
    size_t used = 0;
    int64_t before = check_clock_ns ();
    ask_clock (&host);
    bool is_asked = wire_next (asked->text, asked->length, &frame, &used) == 1 && frame.type == WIRE_CHECK
                    && wire_number (&frame) == CHECK_CLOCK;
    int64_t sent = wire_number (&frame);
    size_t once = asked->length;
    ok (is_asked && used == once && sent >= before && sent <= check_clock_ns (),
        "a host is asked for its time, and told ours");
    size_t begin = wire_begin (&answer, WIRE_CHECKED);
    wire_put_number (&answer, CHECK_CLOCK);
    wire_put_number (&answer, sent);
    wire_put_number (&answer, sent + AHEAD_S * (int64_t) NS);
    wire_end (&answer, begin);
    used = 0;
    if (wire_next (answer.text, answer.length, &frame, &used) == 1)
        take_checked (&host.link, &frame);
    ok (host.clock_trip_ns > 0 && host.clock_trip_ns < NS && host.clock_ns > (AHEAD_S - 1) * (int64_t) NS
            && host.clock_ns <= AHEAD_S * (int64_t) NS && host.clocks == 1 && asked->length == 2 * once,
        "its answer says how far ahead it is, and it is asked again");
    strbuf_release (asked);
}

/* ---- the measurement ---- */

static void
test_net_benchmark (void)
{
    struct net_benchmark benchmark = { 0 };
    struct net_benchmark_result result;
    struct fail fail = { 0 };
    AUTO_STRLIST struct strlist addresses = { 0 };
    strlist_add (&addresses, "127.0.0.1");
    ok (!net_benchmark_start (&benchmark, &fail) && benchmark.port > 0, "a benchmark is started: %s", fail.text);
    struct net_benchmark stranger = benchmark;
    for (int i = 0; i < 2; i++) { /* the second client finds it as the first did */
        net_benchmark_measure (&benchmark, &addresses, 600000, &result);
        ok (!*result.why && result.round_trip_ns > 0 && result.to > 0 && result.from > 0
                && !strcmp (result.address, "127.0.0.1"), "measured: %.3g ms, %.3g and %.3g MB/s",
            (double) result.round_trip_ns / 1e6, result.to / 1e6, result.from / 1e6);
    }
    stranger.key[0] ^= 1;
    net_benchmark_measure (&stranger, &addresses, 600000, &result);
    ok (strstr (result.why, "stalled") && result.trouble == NET_BENCHMARK_STALLED,
        "without its key it does nothing: %s", result.why);
    memcpy (stranger.token, stranger.key, sizeof stranger.token);
    net_benchmark_measure (&stranger, &addresses, 2000, &result);
    ok (strstr (result.why, "cannot connect to port") && result.trouble == NET_BENCHMARK_NO_ANSWER,
        "another program at its port is not taken for it: %s", result.why);
    net_benchmark_stop (&benchmark);
    int64_t begin = clock_ms ();
    net_benchmark_measure (&benchmark, &addresses, 600000, &result);
    ok (strstr (result.why, " at 127.0.0.1: the connection was refused (after ")
            && result.trouble == NET_BENCHMARK_REFUSED
            && clock_ms () - begin < 300000, "no process listens: %s", result.why);
    net_benchmark_stop (&benchmark);
    ok (!benchmark.pid, "stopped twice");
}

/* ---- MPI: this program is also the launch that the check starts ---- */

static const char all_links[] = "libaccel\nlink 0 2 3000000 5e6 6e6\nlink 0 1 1000000 2e6 4e6\nlink 1 2 1 7e6 8e6\n";

static int
play_launch (int argc, char **argv)
{
    const char *out = getenv ("TRIAL_OUT"), *err = getenv ("TRIAL_ERR"), *status = getenv ("TRIAL_STATUS");
    fputs (out ? out : "", stdout);
    fputs (err ? err : "", stderr);
    if (err && !strcmp (err, "accelerate: "))
        for (int i = 2; i < argc; i++)
            fprintf (stderr, "%s ", argv[i]);
    fflush (NULL);
    if (!status)
        pause ();
    return atoi (status);
}

static void
set_or_clear (const char *name, const char *value)
{
    if (value)
        setenv (name, value, 1);
    else
        unsetenv (name);
}

/* @config  has what options say */
static void
run_mpi (struct lab *lab, struct config *config, const char *selftest)
{
    struct fail fail = { 0 };
    struct check *check = &lab->check;
    check->whys = lab->whys;
    check->mpi.rates = lab->rates;
    check->mpi.trips = lab->trips;
    if (!check->launch_ms)
        check->launch_ms = 600000;
    check->limit_ms = 30000;
    ok (!check_mpi_run (check, config, selftest, &fail), "MPI: the check itself can be made");
}

static void
test_mpi_launch (struct config *config)
{
    char longest[2001] = "";
    memset (longest, 'x', sizeof longest - 1);
    const struct {
        const char *what, *out, *err, *status;
        enum check_transport_state mpi;
        const char *why;
    } cases[] = {
        { "all pairs", all_links, "accelerate: note: a port\n", "0", CHECK_TRANSPORT_MEASURED, "" },
        { "a pair is missing", "link 0 2 1 1 1\nlink 0 1 1 1 1\n", "", "0", CHECK_TRANSPORT_FAILED,
          "without a message" },
        { "pairs that do not exist", "link 0 3 1 1 1\nlink 2 1 1 1 1\nlink -1 1 1 1 1\nlink 1 1 1 1 1\n", "", "0",
          CHECK_TRANSPORT_FAILED, "without a message" },
        { "one that does not exist for one that does", "link 0 1 1 1 1\nlink 0 2 1 1 1\nlink 0 3 1 1 1\n", "", "0",
          CHECK_TRANSPORT_FAILED, "without a message" },
        { "a status", all_links, "accelerate: note: a port\naccelerate: no way\nsh: gone\n", "2",
          CHECK_TRANSPORT_FAILED, "no way" },
        { "a rank", "", "accelerate: rank 1 exited\n  its last lines:\n    accel_selftest: rank 1: open: why\n", "1",
          CHECK_TRANSPORT_FAILED, "accel_selftest: rank 1: open: why" },
        { "another program", "", "one\n two\n\n", "1", CHECK_TRANSPORT_FAILED, "two" },
        { "a long line", "", longest, "1", CHECK_TRANSPORT_FAILED, "xxx ..." },
        { "no end", all_links, "", NULL, CHECK_TRANSPORT_FAILED, "no result within 1.5 s" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct check_host items[HOSTS];
        struct lab lab = make_lab (items);
        set_or_clear ("TRIAL_OUT", cases[i].out);
        set_or_clear ("TRIAL_ERR", cases[i].err);
        set_or_clear ("TRIAL_STATUS", cases[i].status);
        lab.check.launch_ms = cases[i].status ? 0 : 1500;
        run_mpi (&lab, config, "selftest");
        const char *why = lab.check.mpi.why, *end = cases[i].why;
        ok (lab.check.mpi.state == cases[i].mpi && strlen (why) >= strlen (end) && strlen (why) < 320
                && !strcmp (why + strlen (why) - strlen (end), end), "MPI, %s: %s", cases[i].what, why);
        if (cases[i].mpi == CHECK_TRANSPORT_MEASURED)
            ok (lab.rates[1] == 2 && lab.rates[HOSTS] == 4 && lab.rates[2] == 5 && lab.trips[1] == 1
                    && lab.trips[2 * HOSTS] == 3, "MB/s in both directions, and ms there and back");
    }
}

static void
test_mpi_arguments (struct config *config)
{
    static char interface[] = "eth7";
    struct check_host items[HOSTS];
    struct lab lab = make_lab (items);
    items[2].link.name = "fe80::1";
    config->settings.interface = interface;
    config->settings.main_process_port = 23;
    set_or_clear ("TRIAL_OUT", NULL);
    set_or_clear ("TRIAL_ERR", "accelerate: ");
    set_or_clear ("TRIAL_STATUS", "1");
    run_mpi (&lab, config, "/a/selftest");
    ok (strstr (lab.check.mpi.why, "--mpi yes") && strstr (lab.check.mpi.why, "--hosts a:1,b:1,[fe80::1]:1 ")
            && strstr (lab.check.mpi.why, "--starter=ssh --host_timeout=30 --interface=eth7 --main_process_port=23 ")
            && strstr (lab.check.mpi.why, "-- /a/selftest --links 30000"), "the launch: %s", lab.check.mpi.why);
    config->settings.interface = NULL;
    config->settings.main_process_port = 0;
}

/* What is known to fail is not started; the launch would measure. */
static void
test_mpi_obstacles (struct config *config)
{
    static const struct {
        const char *what;
        void (*damage) (struct lab *lab);
        const char *selftest, *why;
    } cases[] = {
        { "nothing", break_nothing, "selftest", "" },
        { "a host", break_connection, "selftest", "other problems" },
        { "a pair", break_pair, "selftest", "other problems" },
        { "the port", break_port, "selftest", "other problems" },
        { "an engine", break_engine, "selftest", "cannot be used on host c: not installed" },
        { "all engines", lose_engines, "selftest", "no host has" },
        { "the self-test", break_nothing, NULL, "self-test is not installed" },
    };
    set_or_clear ("TRIAL_OUT", all_links);
    set_or_clear ("TRIAL_ERR", NULL);
    set_or_clear ("TRIAL_STATUS", "0");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct check_host items[HOSTS];
        struct lab lab = make_lab (items);
        cases[i].damage (&lab);
        run_mpi (&lab, config, cases[i].selftest);
        ok (lab.check.mpi.state == (*cases[i].why ? CHECK_TRANSPORT_LEFT_OUT : CHECK_TRANSPORT_MEASURED)
                && strstr (lab.check.mpi.why, cases[i].why), "MPI without %s: %s", cases[i].what, lab.check.mpi.why);
    }
}

/* ---- NCCL ---- */

static void
lack_gpu (struct lab *lab)
{
    lab->check.items[1].gpus = 0;
}
static void
lack_gpus (struct lab *lab)
{
    for (int i = 0; i < HOSTS; i++)
        lab->check.items[i].gpus = 0;
}
static void
lack_gpu_engine (struct lab *lab)
{
    lab->check.items[2].no_gpu_engine = engine_why;
}

/* It is unknown what a lost host has. */
static void
lose_host (struct lab *lab)
{
    break_connection (lab);
    lab->check.items[1].gpus = 0;
    lab->check.mpi.state = CHECK_TRANSPORT_LEFT_OUT;
}

/* All hosts have GPUs, MPI was measured, and the launch measures; of three links, one is slow. */
static void
test_nccl (struct config *config)
{
    static const struct {
        const char *what;
        void (*damage) (struct lab *lab);
        enum check_transport_state state;
        const char *why;
    } cases[] = {
        { "nothing", break_nothing, CHECK_TRANSPORT_MEASURED, "" },
        { "a GPU", lack_gpu, CHECK_TRANSPORT_LEFT_OUT, "host b has no GPU" },
        { "GPUs", lack_gpus, CHECK_TRANSPORT_UNWANTED, "" },
        { "the engine", lack_gpu_engine, CHECK_TRANSPORT_LEFT_OUT, "cannot be used on host c: not installed" },
        { "a host", lose_host, CHECK_TRANSPORT_LEFT_OUT, "find each other through MPI, which was not measured" },
        { "MPI", break_mpi, CHECK_TRANSPORT_LEFT_OUT, "find each other through MPI, which was not measured" },
    };
    set_or_clear ("TRIAL_OUT", "link 0 2 1000000 1e9 1e9\nlink 0 1 1000000 1e9 1e9\nlink 1 2 1000000 1e9 1e7\n");
    set_or_clear ("TRIAL_ERR", NULL);
    set_or_clear ("TRIAL_STATUS", "0");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct check_host items[HOSTS];
        struct fail fail = { 0 };
        struct lab lab = make_lab (items);
        struct check *check = &lab.check;
        for (int k = 0; k < HOSTS; k++)
            items[k].gpus = 1;
        check->mpi.state = CHECK_TRANSPORT_MEASURED;
        check->nccl.rates = lab.rates;
        check->nccl.trips = lab.trips;
        check->launch_ms = 600000;
        check->limit_ms = 30000;
        cases[i].damage (&lab);
        ok (!check_nccl_run (check, config, "selftest", &fail) && check->nccl.state == cases[i].state
                && strstr (check->nccl.why, cases[i].why), "NCCL without %s: %s", cases[i].what, check->nccl.why);
        bool is_measured = cases[i].state == CHECK_TRANSPORT_MEASURED;
        ok (check->nccl_slow_count == is_measured
                && (!is_measured || (check->nccl_slow[0].from == 2 && check->nccl_slow[0].to == 1)),
            "the slow link is found: %zu", check->nccl_slow_count);
    }
    struct check_host items[HOSTS];
    struct fail fail = { 0 };
    struct lab lab = make_lab (items);
    for (int k = 0; k < HOSTS; k++)
        items[k].gpus = 1;
    lab.check.mpi.state = CHECK_TRANSPORT_MEASURED;
    lab.check.launch_ms = 600000;
    lab.check.limit_ms = 30000;
    set_or_clear ("TRIAL_OUT", NULL);
    set_or_clear ("TRIAL_ERR", "accelerate: ");
    set_or_clear ("TRIAL_STATUS", "1");
    ok (!check_nccl_run (&lab.check, config, "/a/selftest", &fail) && lab.check.nccl.state == CHECK_TRANSPORT_FAILED
            && strstr (lab.check.nccl.why, "-- env -u ACCELERATE_USE_CPU /a/selftest --links 30000 gpu"),
        "the launch: %s", lab.check.nccl.why);
    set_or_clear ("TRIAL_ERR", "rank 0: WARNING: this program computes on CPUs: no GPU today\n"
                               "accelerate: rank 0 failed\naccel_selftest: rank 0: links between GPUs: none\n");
    ok (!check_nccl_run (&lab.check, config, "/a/selftest", &fail) && !strcmp (lab.check.nccl.why, "no GPU today"),
        "the library's reason: %s", lab.check.nccl.why);
}

static void
test_mpi (void)
{
    static char starter[] = "ssh", yes[] = "auto", no[] = "no";
    struct config config = { .settings = { .starter = starter, .mpi = yes, .host_timeout = 30 } };
    struct check_host items[HOSTS];
    test_mpi_launch (&config);
    test_mpi_arguments (&config);
    test_mpi_obstacles (&config);
    test_nccl (&config);
    struct lab lab = make_lab (items);
    lab.check.count = 1;
    run_mpi (&lab, &config, "selftest");
    ok (lab.check.mpi.state == CHECK_TRANSPORT_UNWANTED, "one host has no other to reach");
    config.settings.mpi = no;
    lab = make_lab (items);
    run_mpi (&lab, &config, "selftest");
    ok (lab.check.mpi.state == CHECK_TRANSPORT_UNWANTED && !*lab.check.mpi.why, "--mpi no");
}

int
main (int argc, char **argv)
{
    if (argc > 1)
        return play_launch (argc, argv);
    test_mpi ();
    test_slow ();
    test_slow_numbers ();
    test_diagnoses ();
    test_clock ();
    test_net_benchmark ();
    return done_testing ();
}
