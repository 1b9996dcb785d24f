/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate ps: the running jobs of this user on this machine. */
#include <config.h>

#include "cli/command.h"
#include "cli/print.h"
#include "cli/table.h"
#include "cli/watch/watched.h"
#include "config/load.h"
#include "config/text/json_text.h"

#include <stdio.h>
#include <unistd.h>

static void
add_row (struct table *table, const struct watched *watched)
{
    const struct watch_job *job = &watched->job;
    AUTO_STRBUF struct strbuf pace = { 0 }, age = { 0 };
    int leader = watched_leader (watched);
    view_add_number (&pace, watched_pace (watched));
    view_add_age (&age, watched_age (watched));
    table->cells.failed |= pace.failed || age.failed;
    table_add (table, job->id);
    if (job->launcher)
        table_add_number (table, (uint64_t) job->launcher);
    else
        table_add (table, "-");
    strlist_printf (&table->cells, "%d/%d", sample_count_alive (&watched->sample), job->rank_count);
    if (leader < 0)
        table_add (table, "-");
    else
        table_add_number (table, watched->sample.ranks[leader].step);
    table_add (table, pace.text ? pace.text : "");
    table_add (table, age.text ? age.text : "");
    table_add (table, job->program);
}

static int
print_table (const struct watched_list *list, struct fail *fail)
{
    static const char *const headings[] = { "JOB", "LAUNCHER", "RANKS", "STEP", "STEP/S", "AGE", "PROGRAM" };
    enum { COLUMNS = sizeof headings / sizeof *headings };
    struct table table = { .columns = COLUMNS, .right = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 };
    AUTO_STRBUF struct strbuf out = { 0 };
    for (int i = 0; i < COLUMNS; i++)
        table_add (&table, headings[i]);
    for (size_t i = 0; i < list->count; i++)
        add_row (&table, &list->items[i]);
    if (list->count)
        table_show (&table, isatty (STDOUT_FILENO), &out);
    strlist_release (&table.cells);
    return print_text (&out, fail);
}

static int
print_json (const struct watched_list *list, struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    json_t *root = json_array ();
    for (size_t i = 0; i < list->count; i++)
        json_array_append_new (root, watched_json (&list->items[i], NULL));
    return json_add (&out, root, JSON_INDENT (2)) ? fail_nomem (fail) : print_text (&out, fail);
}

int
cmd_ps (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    struct watched_list list = { .is_patient = true };
    int status = config_load_command (&config, COMMAND_PS, argc, argv, 0, fail);
    if (!status)
        status = watched_refresh (&list, &(struct watched_filter){ 0 }, fail);
    if (!status && config.settings.json)
        status = print_json (&list, fail);
    else if (!status)
        status = print_table (&list, fail);
    if (!status && !config.settings.json && !list.count)
        print_note ("", "no job is running", "");
    if (!status && list.foreign)
        print_note ("jobs from different releases of accelerate are not shown", "", "");
    watched_release (&list);
    return status;
}
