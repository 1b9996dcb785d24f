/* SPDX-License-Identifier: Apache-2.0 */
/* accelerate report: runs as a page of HTML. */
#include <config.h>

#include "cli/command.h"
#include "cli/print.h"
#include "config/load.h"
#include "report/page.h"
#include "report/run.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <inttypes.h>
#include <sys/stat.h>

/* What was passed over is on the page, too. */
static int
note_skipped (const struct runs *runs, struct fail *fail)
{
    for (size_t i = 0; i < runs->count; i++) {
        const struct metrics *metrics = &runs->items[i].metrics;
        AUTO_STRBUF struct strbuf text = { 0 };
        if (!metrics->skipped)
            continue;
        strbuf_printf (&text, ": lines left out because they are not valid: %" PRIu64 ", the first is line %" PRIu64,
                       metrics->skipped, metrics->first_skipped);
        if (text.failed)
            return fail_nomem (fail);
        print_note ("", runs->items[i].metrics_path, text.text);
    }
    return 0;
}

/* A page that takes the place of what it is made of would be the last one. */
static int
check_output (const struct runs *runs, const char *output, struct fail *fail)
{
    struct stat page, input;
    if (stat (output, &page))
        return 0; /* a new file */
    for (size_t i = 0; i < runs->count; i++) {
        const struct run *run = &runs->items[i];
        const char *paths[] = { run->metrics_path, run->profile_path, run->launch_path };
        for (size_t j = 0; j < sizeof paths / sizeof *paths; j++)
            if (paths[j] && !stat (paths[j], &input) && input.st_dev == page.st_dev && input.st_ino == page.st_ino)
                return fail_set (fail, FAIL_GENERAL, "%s would be overwritten, but the report reads it; name another "
                                 "file with -o", paths[j]);
    }
    return 0;
}

static int
write_page (const struct runs *runs, const char *path, struct fail *fail)
{
    AUTO_STRBUF struct strbuf page = { 0 };
    page_add (runs, &page);
    if (page.failed)
        return fail_nomem (fail);
    return io_write_file (path, page.text, page.length, 0666, fail);
}

int
cmd_report (int argc, char **argv, struct fail *fail)
{
    AUTO_CONFIG struct config config = { 0 };
    struct runs runs = { 0 };
    int status = config_load_command (&config, COMMAND_REPORT, argc, argv, SIZE_MAX, fail);
    if (!status && !config.words.count)
        status = fail_set (fail, FAIL_USAGE, "no run to report: accelerate report FOLDER");
    if (!status)
        status = io_check_writable (config.settings.report_output, fail);
    if (!status)
        status = runs_read (&runs, &config.words, fail);
    if (!status)
        status = check_output (&runs, config.settings.report_output, fail);
    if (!status)
        status = note_skipped (&runs, fail);
    if (!status)
        status = write_page (&runs, config.settings.report_output, fail);
    runs_release (&runs);
    return status;
}
