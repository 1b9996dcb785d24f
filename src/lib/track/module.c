/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the module of tracker mlflow; see module.h. */
#include <config.h>

#include "lib/track/module.h"

#include "lib/base/error.h"
#include "lib/track/kinds.h"
#include "util/engine_files.h"

#include <accel/utility.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const struct tracker_helpers helpers = { .fail = accel_fail, .log = accel_logger_log };

/* It stays loaded. */
static enum accel_status
load (const struct tracker_module **module, const struct engine_file *file, struct accel_error *err)
{
    if (file->refusal)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "the module is not loaded: %s", file->refusal);
    void *library = dlopen (file->path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "the module cannot be loaded: %s", dlerror ());
    *module = dlsym (library, TRACKER_SYMBOL);
    if (*module && !strcmp ((*module)->release, PACKAGE_VERSION)
        && (*module)->calls_size == sizeof (struct accel_tracker_calls))
        return ACCEL_OK;
    dlclose (library);
    return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s is from a different release than libaccel %s", file->path,
                       PACKAGE_VERSION);
}

static enum accel_status
create (struct accel_tracker_calls *calls, struct accel_error *err)
{
    AUTO_ENGINE_FILES struct engine_files files = { 0 };
    const struct tracker_module *module = NULL;
    size_t at = 0;
    engine_files_find_trackers (&files);
    while (at < files.count && strcmp (files.items[at].name, calls->name))
        at++;
    enum accel_status status = files.failed          ? accel_fail_nomem (err)
                               : at == files.count ? accel_fail (err, ACCEL_ERR_UNSUPPORTED,
                                                                 "accel_tracker_%s.so is not installed", calls->name)
                                                   : load (&module, &files.items[at], err);
    if (!status)
        status = module->create (&helpers, calls, err);
    return status ? accel_fail_in (err, status, "tracker '%s'", calls->name) : ACCEL_OK;
}

/* "all" means where there is a server. */
static bool
is_configured (void)
{
    const char *uri = getenv ("MLFLOW_TRACKING_URI");
    return uri && *uri;
}

const struct tracker_kind tracker_mlflow = { .name = "mlflow", .is_configured = is_configured, .create = create };
