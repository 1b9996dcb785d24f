/* SPDX-License-Identifier: Apache-2.0 */
/* What the head reports of several hosts: which process of MPI has ended the ranks, and what ranks were doing. */
#include <config.h>

#include "hosts/head/state.h"
#include "launch/report/report.h"
#include "tests/tap.h"
#include "util/cleanup.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Three hosts; those whose ranks have no status were told to end. */
struct mpi_case {
    const char *what;
    enum starter_mpi mpi;
    struct {
        int status; /* of a rank; 0: the host was told to end */
        int64_t failed_ms;
        const char *words;
        int64_t mpi_ms; /* a process of MPI has ended there; 0: none */
        bool is_daemon;
        int mpi_status;
    } hosts[3];
    bool has_abort;
    int mpi_launcher; /* its wait status */
    int cause; /* -1: none */
    int status;
    const char *first_line;
    const char *other; /* that has ended at nearly the same time; NULL: none */
};

#define RANK "rank 1 exited"
#define DUE "process "
#define ENDED ", and ranks that use MPI ended with it"
#define READLINE "\n  its last line on stderr:\n    [cli_2]: readline failed"

#define SOCKET "\n    [b:00000] *** An error occurred in Socket closed"
#define EVENT "\n    [b:00000] *** An error occurred in PMIx Event Notification"

static const struct mpi_case mpi_cases[] = {
    { "a daemon, on the host of the rank", STARTER_MPI_OPEN,
      { { 0 }, { 195, 500, RANK, 510, true, 137 } }, false, 0, 1, 137, DUE "1" ENDED },
    { "on another host, seen long after it", STARTER_MPI_OPEN,
      { { 195, 500, RANK, 0, false, 0 }, { 0, 0, NULL, 9000, true, 0 } }, false, 0, 1, 1,
      DUE "1" ENDED },
    { "the earliest of two", STARTER_MPI_OPEN,
      { { 195, 500, RANK, 490, false, 137 }, { 195, 500, RANK, 489, true, 1 } }, false, 0, 1, 1,
      DUE "1" ENDED, DUE "0" },
    { "two that ended at nearly the same time", STARTER_MPI_HYDRA,
      { { 15, 900, RANK READLINE, 490, true, 0 }, { 15, 900, RANK READLINE, 1489, true, 0 } }, false, 0, 0, 1,
      DUE "0" ENDED, DUE "1" },
    { "not at nearly the same time", STARTER_MPI_HYDRA,
      { { 15, 900, RANK READLINE, 490, true, 0 }, { 15, 900, RANK READLINE, 1490, true, 0 } }, false, 0, 0, 1,
      DUE "0" ENDED },
    { "two that were killed", STARTER_MPI_OPEN,
      { { 195, 500, RANK, 490, true, 137 }, { 195, 500, RANK, 480, true, 137 } }, false, 0, 1, 137,
      DUE "1" ENDED, DUE "0" },
    { "version 5 of Open MPI, in an abort", STARTER_MPI_OPEN,
      { { 14, 500, RANK SOCKET, 0, false, 0 }, { 0, 0, NULL, 510, true, 0 } }, false, 0, 1, 1, DUE "1" ENDED },
    { "and of the daemon itself", STARTER_MPI_OPEN,
      { { 14, 500, RANK EVENT, 0, false, 0 }, { 0, 0, NULL, 510, true, 0 } }, false, 0, 1, 1, DUE "1" ENDED },
    { "an abort for another reason", STARTER_MPI_OPEN,
      { { 14, 500, RANK, 0, false, 0 }, { 0, 0, NULL, 510, true, 0 } }, false, 0, 0, 14, RANK },
    { "a daemon that was killed, whatever clocks say", STARTER_MPI_OPEN,
      { { 195, 500, RANK, 490, true, 137 }, { 195, 500, RANK, 480, false, 137 } }, false, 0, 0, 137,
      DUE "0" ENDED },
    { "mpirun, which says why", STARTER_MPI_OPEN,
      { { 195, 500, RANK, 490, true, 137 } }, false, SIGKILL, 0, 137,
      "mpirun on a was killed by signal 9 (SIGKILL), and ranks that use MPI ended with it" },
    { "mpiexec of another MPI", STARTER_MPI_HYDRA,
      { { 0 }, { 15, 500, RANK READLINE, 490, false, 137 } }, false, SIGTERM, 1, 143,
      "mpirun on a was killed by signal 15 (SIGTERM), and ranks that use MPI ended with it" },
    { "an MPI_Abort(): the rank that exits in another way", STARTER_MPI_OPEN,
      { { 195, 500, RANK, 490, true, 137 }, { 7, 900, "rank 2 exited", 0, false, 0 } }, true, 0, 1, 7,
      "rank 2 exited", RANK },
    { "a rank that SIGPIPE killed", STARTER_MPI_OPEN,
      { { 195, 500, RANK, 490, false, 137 }, { 141, 490, "rank 2 killed", 0, false, 0 } }, false, 0, 0, 137,
      DUE "0" ENDED },
    { "a rank that fails by itself, long after a daemon", STARTER_MPI_HYDRA,
      { { 7, 9000, "rank 2 exited", 490, true, 137 } }, false, 0, 0, 7, "rank 2 exited" },
    { "MPICH, at the end of the ranks", STARTER_MPI_HYDRA,
      { { 0, 0, NULL, 490, true, 137 }, { 15, 9000, RANK READLINE, 0, false, 0 } }, false, 0, 0, 137,
      DUE "0" ENDED },
    { "195 with Slurm", STARTER_MPI_SRUN,
      { { 195, 500, RANK, 0, false, 0 }, { 0, 0, NULL, 490, false, 0 } }, false, 0, 1, 1,
      DUE "1" ENDED },
    { "195 with MPICH is a rank's own", STARTER_MPI_HYDRA,
      { { 195, 500, RANK, 490, true, 137 } }, false, 0, 0, 195, RANK },
    { "a rank that was killed at about that time", STARTER_MPI_OPEN,
      { { 195, 500, RANK, 490, true, 137 }, { 137, 4000, "rank 2 killed", 0, false, 0 } }, false, 0, 1, 137,
      "rank 2 killed" },
    { "no rank has failed", STARTER_MPI_OPEN, { { 0, 0, NULL, 490, true, 137 } }, false, 0, -1, 0, "" },
};

static void
check_mpi_case (const struct mpi_case *one)
{
    struct hosts hosts = { .starter.mpi = one->mpi, .own = "a" };
    struct link links[3];
    struct failure failures[HEAD_FAILURES (3)];
    struct head head = { .hosts = &hosts, .links = links, .failures = failures, .count = 3,
                         .mpi_launcher = MPI_LAUNCHER_NONE };
    char why[3][16], reports[3][160];
    AUTO_STRBUF struct strbuf text = { 0 };
    head.mpi_launcher.wait_status = one->mpi_launcher;
    head.mpi_launcher.has_abort = head.mpi_launcher.names_cause = one->has_abort;
    for (int i = 0; i < 3; i++) {
        snprintf (why[i], sizeof why[i], "process %d", i);
        snprintf (reports[i], sizeof reports[i], "accelerate: %s\n", one->hosts[i].words ? one->hosts[i].words : "");
        links[i] = (struct link){ .name = "b", .state = LINK_ENDED, .end_requested = true, .err = -1,
                                  .end = one->hosts[i].status ? WIRE_END_FAILED : WIRE_END_STOPPED,
                                  .status = one->hosts[i].status, .failed_ns = one->hosts[i].failed_ms * 1000000,
                                  .report = reports[i], .mpi_ns = one->hosts[i].mpi_ms * 1000000,
                                  .mpi_is_daemon = one->hosts[i].is_daemon, .mpi_status = one->hosts[i].mpi_status,
                                  .mpi_why = why[i] };
    }
    const struct link *cause = outcome_find (&head);
    outcome_text (&head, cause, &text);
    const char *line = text.text ? root_cause_text (text.text) : "";
    size_t length = strcspn (line, "\n");
    const char *also = strstr (line, REPORT_SIMULTANEOUS), *other = one->other ? one->other : "";
    also = also ? also + sizeof REPORT_SIMULTANEOUS - 1 : "";
    ok ((cause ? cause - links : -1) == one->cause && outcome_status (&head, cause) == one->status
            && length == strlen (one->first_line) && !strncmp (line, one->first_line, length)
            && strcspn (also, "\n") == strlen (other) && !strncmp (also, other, strlen (other)),
        "%s (%d, %d, %s)", one->what, (int) (cause ? cause - links : -1), outcome_status (&head, cause), line);
}

static void
test_processes_of_mpi (void)
{
    for (size_t i = 0; i < sizeof mpi_cases / sizeof *mpi_cases; i++)
        check_mpi_case (&mpi_cases[i]);
}

/* What the ranks of several hosts were doing. */
static void
test_doing (void)
{
    static const char *const reports[] = {
        "{\"killed\":2,\"ranks\":[{\"rank\":4,\"doing\":\"in b\",\"seconds\":12.5,\"frame\":\"f (a.c:3)\"},"
        "{\"rank\":5,\"doing\":\"in a\"}]}",
        "{\"killed\":0,\"ranks\":[{\"rank\":0,\"doing\":\"in a\"},{\"rank\":1,\"doing\":\"in a\"},"
        "{\"rank\":2,\"doing\":\"in a\"},{\"rank\":3,\"doing\":\"gave up: rank 9 ended\"}]}",
        "{\"ranks\":[{\"rank\":\"x\",\"doing\":\"in x\"},{\"rank\":7}]}", "not JSON", "", NULL };
    struct rank_activity doing = { 0 }, failed = { 0 }, many = { 0 };
    AUTO_STRBUF struct strbuf text = { 0 };
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        rank_activity_add (&doing, reports[i], true);
        rank_activity_add (&failed, reports[i], false);
    }
    rank_activity_put (&doing, "ranks", &text);
    is_text (text.text, "  ranks:\n    ranks 0-2, 5: in a\n    rank 3: gave up: rank 9 ended\n"
             "    rank 4: in b for 12 s, in f (a.c:3)\n",
             "ranks of several hosts, those that were doing the same together");
    json_t *json = rank_activity_json (&doing);
    AUTO_FREE char *dumped = json_dumps (json_array_get (json, 4), JSON_COMPACT | JSON_SORT_KEYS);
    ok (doing.killed == 2 && json_array_size (json) == 6
        && !strcmp (dumped, "{\"doing\":\"in b\",\"frame\":\"f (a.c:3)\",\"rank\":4,\"seconds\":12.5}"),
        "as JSON, in their order; 2 had to be killed: %s", dumped);
    json_decref (json);
    strbuf_truncate (&text, 0);
    rank_activity_put (&failed, "others", &text);
    is_text (text.text, "  others:\n    ranks 0-2, 5: in a\n    rank 4: in b for 12 s, in f (a.c:3)\n",
             "those that gave up are left out");
    for (int i = 0; i < 17; i++) {
        char report[80];
        snprintf (report, sizeof report, "{\"ranks\":[{\"rank\":%d,\"doing\":\"in %d\"}]}", 16 - i, i);
        rank_activity_add (&many, report, true);
        strbuf_truncate (&text, 0);
        rank_activity_put (&many, "many", &text);
        if (i == 15)
            ok (strstr (text.text, "rank 16: in 0\n") && !strstr (text.text, "..."), "16 lines");
    }
    ok (strstr (text.text, "rank 15: in 1\n    ...\n") && !strstr (text.text, "rank 16"),
        "of more, the rest is left out");
    strbuf_truncate (&text, 0);
    rank_activity_put (&(struct rank_activity){ 0 }, "nothing", &text);
    ok (!text.length, "nothing is known of ranks without libaccel");
    rank_activity_release (&doing);
    rank_activity_release (&failed);
    rank_activity_release (&many);
}

/* Launchers get SIGTERM from the head when the time of the job is over. */
static void
check_end (const char *what, int signal, const char *reason, const char *reports[2], const char *wanted)
{
    struct hosts hosts = { .own = "a" };
    struct link links[2];
    struct head head = { .hosts = &hosts, .links = links, .count = 2, .signal = signal, .stop_reason = reason,
                         .mpi_launcher = MPI_LAUNCHER_NONE };
    AUTO_STRBUF struct strbuf text = { 0 };
    for (int i = 0; i < 2; i++)
        links[i] = (struct link){ .name = "b", .state = LINK_ENDED, .end_requested = true, .end = WIRE_END_STOPPED,
                                  .status = 143, .json = strdup (reports[i]), .failed_rank = -1, .err = -1 };
    int result = outcome_json (&head, NULL, &text, NULL);
    json_t *report = json_loads (text.text ? text.text : "", 0, NULL);
    AUTO_FREE char *end = report ? json_dumps (report, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    ok (!result && end && !strcmp (end, wanted), "%s: %s", what, end ? end : "?");
    json_decref (report);
    for (int i = 0; i < 2; i++)
        free (links[i].json);
}

static void
test_ends (void)
{
    static const char nine[] = "{\"exit_status\":143,\"saved_step\":9,\"signal\":15}",
                      none[] = "{\"exit_status\":143,\"saved_step\":null,\"signal\":15}";
    check_end ("the time limit", SIGTERM, "at the time limit", (const char *[2]){ nine, nine },
               "{\"exit_status\":75,\"killed\":0,\"ranks\":[],\"saved_step\":9,\"signal\":null,"
               "\"stop_reason\":\"at the time limit\"}");
    check_end ("SIGTERM", SIGTERM, NULL, (const char *[2]){ nine, nine },
               "{\"exit_status\":143,\"killed\":0,\"ranks\":[],\"saved_step\":9,\"signal\":15}");
    check_end ("one host has not saved", SIGTERM, NULL, (const char *[2]){ nine, none },
               "{\"exit_status\":143,\"killed\":0,\"ranks\":[],\"saved_step\":null,\"signal\":15}");
}

int
main (void)
{
    test_processes_of_mpi ();
    test_ends ();
    test_doing ();
    return done_testing ();
}
