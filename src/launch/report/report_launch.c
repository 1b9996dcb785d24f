/* SPDX-License-Identifier: Apache-2.0 */
/* What the report says about the launch, however the job went: when it was, where, and with which settings. */
#include <config.h>

#include "launch/report/report.h"

#include "config/explain.h"
#include "config/text/json_text.h"

#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

double
report_time (void)
{
    struct timespec now;
    clock_gettime (CLOCK_REALTIME, &now);
    return (double) now.tv_sec + (double) (now.tv_nsec / 1000000) / 1e3;
}

static json_t *
make_environment (void)
{
    struct utsname name;
    AUTO_STRBUF struct strbuf system = { 0 };
    if (!uname (&name))
        strbuf_printf (&system, "%s %s %s", name.sysname, name.release, name.machine);
    json_int_t pages = sysconf (_SC_PHYS_PAGES), page = sysconf (_SC_PAGESIZE);
    return json_pack ("{ss so si sI}", "version", PACKAGE_VERSION, "system",
                      json_text (system.text ? system.text : ""), "processors",
                      (int) sysconf (_SC_NPROCESSORS_ONLN), "memory_bytes", pages > 0 ? pages * page : 0);
}

static json_t *
make_configuration (const struct config *config)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    if (config->origins)
        explain_json (config, false, &text);
    json_t *made = text.text && !text.failed ? json_loads (text.text, 0, NULL) : NULL;
    return made ? made : json_object ();
}

int
report_put_launch (const struct config *config, double started_s, struct strbuf *json, struct fail *fail)
{
    json_t *root = json->text ? json_loads (json->text, 0, NULL) : NULL;
    json_t *more = json_pack ("{sf sf so so}", "started", started_s, "ended", report_time (), "environment",
                              make_environment (), "configuration", make_configuration (config));
    if (!root || !more || json_object_update (root, more)) {
        json_decref (root);
        json_decref (more);
        return fail_nomem (fail);
    }
    json_decref (more);
    strbuf_truncate (json, 0);
    return report_print_json (root, json, fail);
}
