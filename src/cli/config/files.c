/* SPDX-License-Identifier: Apache-2.0 */
/* Work on configuration files without questions; see files.h. */
#include <config.h>

#include "cli/config/files.h"
#include "cli/print.h"

#include "config/check.h"
#include "config/emit/emit.h"
#include "config/explain.h"
#include "config/file.h"
#include "config/load.h"
#include "config/mode.h"
#include "config/paths.h"
#include "config/update.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <stdio.h>
#include <string.h>

/* Whether an update has left a word that launch may refuse. */
static bool
still_defers (struct filedoc *doc)
{
    AUTO_CONFIG struct config again = { 0 };
    return config_init (&again, NULL) || filedoc_apply (&again, doc, NULL) || again.deferred;
}

/* The file itself is rewritten, not our settings: what we do not use stays, and so do the types of values. */
int
config_files_update (struct config *config, const char *path, struct fail *fail)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    AUTO_FILEDOC struct filedoc doc = { 0 };
    if (filedoc_read (&doc, path, fail) || filedoc_apply (config, &doc, fail) || filedoc_update (&doc, fail))
        return -1;
    if (config->deferred && still_defers (&doc))
        return fail_set (fail, FAIL_GENERAL, "%s", config->deferred);
    if (path_is_json (path) ? node_write_json (&doc.root, &text) : node_write_yaml (&doc.root, &text))
        return fail_nomem (fail);
    if (io_write_file (path, text.text, text.length, 0644, fail))
        return -1;
    print_line ("", path, " is now up to date");
    return 0;
}

int
config_files_load (struct config *config, const char *path, struct fail *fail)
{
    if (!access (path, F_OK)) {
        config->file = strdup (path);
        if (!config->file)
            return fail_nomem (fail);
        if (config_read_file (config, path, fail))
            return -1;
    } else if (config->settings.config_file)
        return config_read_file (config, path, fail); /* says why it cannot be read */
    config_load_environment (config);
    return config_resolve (config, fail) || config_check_deferred (config, fail) ? -1 : 0;
}

int
config_files_show (struct config *config, const char *path, struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    if (config_files_load (config, path, fail))
        return -1;
    (config->settings.json ? explain_json : explain_text) (config, true, &out);
    return print_text (&out, fail);
}

int
config_files_schema (struct config *config, const char *path, struct fail *fail)
{
    AUTO_STRBUF struct strbuf out = { 0 };
    (void) config;
    (void) path;
    return emit_schema (&out, fail) ? -1 : print_text (&out, fail);
}
