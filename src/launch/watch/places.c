/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of a job's ranks, from here or from a head; see places.h. */
#include <config.h>

#include "launch/watch/places.h"

#include "config/text/json_text.h"
#include "launch/watch/sample.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_NS = 20000000 };

int
places_take (const struct watch_job *job, int only, struct stacks *stacks, struct fail *fail)
{
    struct sample sample;
    *stacks = (struct stacks){ 0 };
    int result = sample_take (&sample, job, fail);
    for (int i = 0; i < sample.count && !result; i++)
        if ((only < 0 || i == only) && !stacks_add (stacks, &job->segment, i, sample.ranks[i].pid))
            result = fail_nomem (fail);
    sample_release (&sample);
    if (!result)
        stacks_take (stacks, STACKS_WAIT_MS);
    return result;
}

/* ---- from a head ---- */

void
places_ask (struct places *places, const struct watch_job *job, int only)
{
    struct jobseg_header *header = job->segment.header;
    *places = (struct places){ .job = job, .only = only, .since_ns = (uint64_t) clock_ns () };
    atomic_store (&header->stacks_only, only);
    places->number = atomic_fetch_add (&header->stacks_asked, 1) + 1;
    watch_job_ask (job);
}

static bool
is_asked (const struct places *places, int rank)
{
    return places->only < 0 || rank == places->only;
}

/* @return the text of the answer at @at of @fd, to be freed; NULL: there is no whole one */
static char *
read_answer (int fd, off_t at, struct places_answer *answer)
{
    struct stat info;
    if (fstat (fd, &info) || pread (fd, answer, sizeof *answer, at) != (ssize_t) sizeof *answer
        || answer->length > info.st_size)
        return NULL;
    char *text = malloc ((size_t) answer->length + 1);
    if (text && pread (fd, text, answer->length, at + (off_t) sizeof *answer) == (ssize_t) answer->length) {
        text[answer->length] = '\0';
        return text;
    }
    free (text);
    return NULL;
}

/* @ranks  [job->rank_count]; what is there is kept */
static void
add_ranks (const struct places *places, const char *text, const struct places_answer *answer, json_t **ranks)
{
    size_t i;
    json_t *rank, *all = json_loads (text, 0, NULL);
    json_array_foreach (all, i, rank) {
        json_int_t number = json_integer_value (json_object_get (rank, "rank"));
        if (number >= answer->first_rank && number - answer->first_rank < answer->ranks
            && number < places->job->rank_count && is_asked (places, (int) number) && !ranks[number])
            ranks[number] = json_incref (rank);
    }
    json_decref (all);
}

/* What has come in.  The file begins anew with each question, so what is in it may be about another one. */
static void
read_answers (const struct places *places, json_t **ranks)
{
    char path[64], *text;
    struct stat info;
    struct places_answer answer;
    snprintf (path, sizeof path, "/proc/%d/fd/%d", (int) places->job->holder,
              (int) places->job->segment.header->answers);
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat (fd, &info) || !S_ISREG (info.st_mode))
        return;
    for (off_t at = 0; (text = read_answer (fd, at, &answer)); at += (off_t) (sizeof answer + answer.length)) {
        if ((int32_t) (answer.number - places->number) >= 0)
            add_ranks (places, text, &answer, ranks);
        free (text);
    }
}

/* A host that says nothing else, either, is not waited for. */
static bool
may_answer (const struct places *places, int rank)
{
    const struct jobseg_told *told = &jobseg_slot (&places->job->segment, rank)->told;
    uint64_t told_ns = atomic_load (&told->ns), since_ns = told_ns > places->since_ns ? told_ns : places->since_ns;
    return atomic_load (&told->host_state) == JOBSEG_HOST_RUNS
           && (uint64_t) clock_ns () - since_ns < SAMPLE_SILENCE_MS * UINT64_C (1000000);
}

static void
release_ranks (json_t **ranks, int count)
{
    for (int i = 0; ranks && i < count; i++)
        json_decref (ranks[i]);
    free (ranks);
}

bool
places_are_complete (const struct places *places)
{
    int count = places->job->rank_count;
    json_t **ranks = calloc ((size_t) count, sizeof *ranks);
    bool is_complete = true;
    if (ranks)
        read_answers (places, ranks);
    for (int i = 0; ranks && i < count; i++)
        is_complete = is_complete && (ranks[i] || !is_asked (places, i) || !may_answer (places, i));
    release_ranks (ranks, count);
    watch_job_ask (places->job); /* whether hosts answer at all */
    return is_complete;
}

static json_t *
make_missing (const struct sample_rank *rank)
{
    return json_pack ("{si so so so ss so so}", "rank", rank->rank, "pid", json_integer (rank->pid), "doing",
                      json_text (rank->doing), "seconds", json_null (), "reason", "its host has not shown it",
                      "process", json_null (), "stack", json_array ());
}

json_t *
places_finish (const struct places *places)
{
    struct sample sample;
    int count = places->job->rank_count;
    json_t **ranks = calloc ((size_t) count, sizeof *ranks), *all = json_array ();
    if (ranks && !sample_take (&sample, places->job, NULL)) {
        read_answers (places, ranks);
        for (int i = 0; i < count && i < sample.count; i++) {
            if (!is_asked (places, i))
                continue;
            if (!ranks[i])
                ranks[i] = make_missing (&sample.ranks[i]);
            json_object_set_new (ranks[i], "host", json_text (sample.ranks[i].host));
            json_array_append (all, ranks[i]);
        }
        sample_release (&sample);
    }
    release_ranks (ranks, count);
    return all;
}

json_t *
places_await (const struct places *places)
{
    int64_t until_ms = clock_ms () + PLACES_WAIT_MS;
    while (!places_are_complete (places) && clock_ms () < until_ms)
        nanosleep (&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
    return places_finish (places);
}
