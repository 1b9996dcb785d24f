/* SPDX-License-Identifier: Apache-2.0 */
/* What a check of several hosts has found, as text or JSON; see test_hosts.h. */
#include <config.h>

#include "cli/test_hosts.h"
#include "cli/print.h"

#include "cli/table.h"
#include "config/text/json_text.h"
#include "hosts/check/check.h"
#include "util/cleanup.h"
#include "util/printable.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { MATRIX_MOST = TABLE_MAX_COLUMNS - 1 }; /* hosts; of more, only what is wrong is shown */

/* Three digits, or all of a whole number. */
static void
add_value (struct table *table, double value, const char *unit)
{
    strlist_printf (&table->cells, value >= 100 ? "%.0f%s" : value >= 10 ? "%.1f%s" : "%.2f%s", value, unit);
}

/* Over or under ours; what is less than a millisecond is not known so exactly. */
static void
add_clock (struct table *table, double seconds)
{
    bool is_equal = seconds > -0.001 && seconds < 0.001;
    strlist_printf (&table->cells, is_equal ? "%.0f s" : "%+.3f s", is_equal ? 0.0 : seconds);
}

static void
show_hosts (const struct check *check, struct strbuf *out)
{
    const char *carrier = check->hosts->starter.agents == STARTER_SRUN ? "srun" : "ssh";
    const char *const heads[] = { "host", "name", "version", "build", "clock", carrier, "ranks", "MPI", "state" };
    struct table table = { .columns = sizeof heads / sizeof *heads, .right = 1 << 4 | 1 << 5 | 1 << 6 };
    for (size_t i = 0; i < table.columns; i++)
        table_add (&table, heads[i]);
    for (int i = 0; i < check->count; i++) {
        const struct check_host *host = &check->items[i];
        const struct hostlist_host *listed = &check->hosts->list.hosts[i];
        table_add (&table, host->link.name);
        table_add (&table, host->link.host ? host->link.host : "-");
        table_add (&table, host->link.version ? host->link.version : "-");
        strlist_printf (&table.cells, "%.8s", host->build ? host->build : "-");
        if (host->clock_trip_ns) {
            add_clock (&table, (double) host->clock_ns / 1e9);
            add_value (&table, (double) host->clock_trip_ns / 1e6, " ms");
        } else {
            table_add (&table, "-");
            table_add (&table, "-");
        }
        if (host->has_facts)
            table_add_number (&table, (uint64_t) (listed->slots ? listed->slots : host->link.ranks_found));
        else
            table_add (&table, "-");
        table_add (&table, !host->has_facts ? "-" : host->no_engine ? "no" : "yes");
        table_add (&table, check_is_lost (host) ? "not ready" : "ok");
    }
    table_show (&table, true, out);
    strlist_release (&table.cells);
}

static size_t
count_known (const struct check *check)
{
    size_t known = 0;
    for (int i = 0; i < check->count; i++)
        known += check->items[i].has_facts;
    return known;
}

/* The values are from the host of the row to the host of the column, or both ways. */
static void
show_matrix (const struct check *check, const char *title, const double *values, struct strbuf *out)
{
    struct table table = { .columns = count_known (check) + 1, .right = ~1u };
    strbuf_printf (out, "\n%s\n", title);
    table_add (&table, "");
    for (int j = 0; j < check->count; j++)
        if (check->items[j].has_facts)
            table_add (&table, check->items[j].link.name);
    for (int i = 0; i < check->count; i++) {
        if (!check->items[i].has_facts)
            continue;
        table_add (&table, check->items[i].link.name);
        for (int j = 0; j < check->count; j++) {
            double value = values[i * check->count + j];
            if (!check->items[j].has_facts)
                continue;
            if (value > 0 && !check->whys[i * check->count + j])
                add_value (&table, value, "");
            else
                table_add (&table, i == j ? "." : check->whys[i * check->count + j] ? "none" : "-");
        }
    }
    table_show (&table, true, out);
    strlist_release (&table.cells);
}

static void
show_lines (const char *word, const struct strlist *lines, struct strbuf *out)
{
    for (size_t i = 0; i < lines->count; i++) {
        strbuf_printf (out, "%s: ", word);
        printable_add (out, lines->items[i]);
        strbuf_add_char (out, '\n');
    }
}

/* The reason may be a host's own words. */
static void
show_left_out (const char *name, const struct check_transport *transport, struct strbuf *out)
{
    if (transport->state != CHECK_TRANSPORT_LEFT_OUT)
        return;
    strbuf_printf (out, "%s: not tried, because ", name);
    printable_add (out, transport->why);
    strbuf_add_char (out, '\n');
}

static void
show_text (const struct check *check, struct strbuf *out)
{
    show_hosts (check, out);
    if (count_known (check) > 1 && count_known (check) <= MATRIX_MOST) {
        show_matrix (check, "MB/s, from the host on the left to the host above", check->rates, out);
        show_matrix (check, "ms there and back", check->trips, out);
        if (check->mpi.state == CHECK_TRANSPORT_MEASURED) {
            show_matrix (check, "MB/s through MPI", check->mpi.rates, out);
            show_matrix (check, "ms there and back through MPI", check->mpi.trips, out);
        }
        if (check->nccl.state == CHECK_TRANSPORT_MEASURED) {
            show_matrix (check, "MB/s through NCCL", check->nccl.rates, out);
            show_matrix (check, "ms there and back through NCCL", check->nccl.trips, out);
        }
    }
    strbuf_add_char (out, '\n');
    if (check->address)
        strbuf_printf (out, "port: all hosts reach %s at %s, port %d\n", check->items[0].link.name, check->address,
                       check->port);
    show_left_out ("MPI", &check->mpi, out);
    show_left_out ("NCCL", &check->nccl, out);
    show_lines ("problem", &check->problems, out);
    show_lines ("note", &check->notes, out);
    strbuf_printf (out, "%s: ", check->problems.count ? "Not ready" : "Ready");
    printable_add (out, check->advice);
    strbuf_add_char (out, '\n');
}

static json_t *
text_or_null (const char *text)
{
    return text ? json_text (text) : json_null ();
}

static json_t *
number_or_null (double value)
{
    return value > 0 ? json_real (value) : json_null ();
}

static json_t *
json_of_host (const struct check_host *host)
{
    json_t *one = json_object ();
    json_object_set_new (one, "host", json_text (host->link.name));
    json_object_set_new (one, "name", text_or_null (host->link.host));
    json_object_set_new (one, "ready", json_boolean (!check_is_lost (host)));
    json_object_set_new (one, "why", text_or_null (check_is_lost (host) ? host->link.why : NULL));
    json_object_set_new (one, "version", text_or_null (host->link.version));
    json_object_set_new (one, "build", text_or_null (host->build));
    json_object_set_new (one, "clock_s",
                         host->clock_trip_ns ? json_real ((double) host->clock_ns / 1e9) : json_null ());
    json_object_set_new (one, "ssh_ms", number_or_null ((double) host->clock_trip_ns / 1e6));
    json_object_set_new (one, "mpi", host->has_facts ? json_boolean (!host->no_engine) : json_null ());
    json_object_set_new (one, "gpus", host->has_facts ? json_integer (host->gpus) : json_null ());
    return one;
}

static json_t *
json_of_links (const struct check *check)
{
    json_t *links = json_array ();
    for (int i = 0; i < check->count; i++)
        for (int j = 0; j < check->count; j++) {
            int at = i * check->count + j;
            if (i == j || check_is_lost (&check->items[i]) || check_is_lost (&check->items[j]))
                continue;
            json_t *one = json_object ();
            json_object_set_new (one, "from", json_text (check->items[i].link.name));
            json_object_set_new (one, "to", json_text (check->items[j].link.name));
            json_object_set_new (one, "mb_per_s", number_or_null (check->rates[at]));
            json_object_set_new (one, "round_trip_ms", number_or_null (check->trips[at]));
            json_object_set_new (one, "mpi_mb_per_s", number_or_null (check->mpi.rates[at]));
            json_object_set_new (one, "mpi_round_trip_ms", number_or_null (check->mpi.trips[at]));
            json_object_set_new (one, "nccl_mb_per_s", number_or_null (check->nccl.rates[at]));
            json_object_set_new (one, "nccl_round_trip_ms", number_or_null (check->nccl.trips[at]));
            json_object_set_new (one, "why", text_or_null (check->whys[at]));
            json_array_append_new (links, one);
        }
    return links;
}

static void
add_slow (const struct check *check, const struct slow_link *all, size_t count, bool through_nccl, json_t *list)
{
    for (size_t i = 0; i < count; i++) {
        const struct slow_link *slow = &all[i];
        json_t *one = json_object ();
        json_object_set_new (one, "from", json_text (check->items[slow->from].link.name));
        json_object_set_new (one, "to", text_or_null (slow->to < 0 ? NULL : check->items[slow->to].link.name));
        json_object_set_new (one, slow->is_latency ? "round_trip_ms" : "mb_per_s", json_real (slow->is));
        json_object_set_new (one, "usual", json_real (slow->usual));
        json_object_set_new (one, "through_nccl", json_boolean (through_nccl));
        json_array_append_new (list, one);
    }
}

static json_t *
json_of_slow (const struct check *check)
{
    json_t *list = json_array ();
    add_slow (check, check->slow, check->slow_count, false, list);
    add_slow (check, check->nccl_slow, check->nccl_slow_count, true, list);
    return list;
}

static json_t *
json_of_lines (const struct strlist *lines)
{
    json_t *list = json_array ();
    for (size_t i = 0; i < lines->count; i++)
        json_array_append_new (list, json_text (lines->items[i]));
    return list;
}

static int
show_json (const struct check *check, struct strbuf *out)
{
    json_t *root = json_object (), *list = json_array ();
    for (int i = 0; i < check->count; i++)
        json_array_append_new (list, json_of_host (&check->items[i]));
    json_object_set_new (root, "ready", json_boolean (!check->problems.count));
    json_object_set_new (root, "hosts", list);
    json_object_set_new (root, "links", json_of_links (check));
    json_object_set_new (root, "slow", json_of_slow (check));
    json_object_set_new (root, "mpi_measured", json_boolean (check->mpi.state == CHECK_TRANSPORT_MEASURED));
    json_object_set_new (root, "mpi_why", text_or_null (*check->mpi.why ? check->mpi.why : NULL));
    json_object_set_new (root, "nccl_measured", json_boolean (check->nccl.state == CHECK_TRANSPORT_MEASURED));
    json_object_set_new (root, "nccl_why", text_or_null (*check->nccl.why ? check->nccl.why : NULL));
    json_object_set_new (root, "address", text_or_null (check->address));
    json_object_set_new (root, "port", check->port ? json_integer (check->port) : json_null ());
    json_object_set_new (root, "problems", json_of_lines (&check->problems));
    json_object_set_new (root, "notes", json_of_lines (&check->notes));
    json_object_set_new (root, "advice", json_text (check->advice));
    return json_add (out, root, JSON_INDENT (2) | JSON_REAL_PRECISION (6));
}

static bool
needs_mpi (const struct config *config)
{
    return !strcmp (config->settings.mpi, "yes") || !strcmp (config->settings.starter, "mpirun");
}

int
test_hosts (struct hosts *hosts, struct config *config, const char *selftest, struct fail *fail)
{
    struct check check;
    AUTO_STRBUF struct strbuf out = { 0 };
    int status = check_run (&check, hosts, config, fail) || check_mpi_run (&check, config, selftest, fail)
                         || check_nccl_run (&check, config, selftest, fail)
                         || check_diagnose (&check, needs_mpi (config), fail)
                     ? -1 : 0;
    if (!status && config->settings.json && show_json (&check, &out))
        status = fail_nomem (fail);
    if (!status && !config->settings.json)
        show_text (&check, &out);
    if (!status)
        status = print_text (&out, fail);
    if (!status && check.problems.count)
        status = FAIL_GENERAL;
    check_release (&check);
    return status;
}
