/* SPDX-License-Identifier: Apache-2.0 */
/* Loading libcurl; see curl.h.  Linked in the usual way, it and the thirty libraries that it needs would take longer to
 * load than a whole launch. */
#include <config.h>

#include "http/curl.h"

#include "http/http.h"

#include <dlfcn.h>
#include <string.h>

/* Of OpenSSL's build, and of GnuTLS's, which Debian gives another name. */
static const char *const names[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };

static int
find_functions (void *library, struct curl *curl, struct fail *fail)
{
#define X(name)                                                                                              \
    if (!(*(void **) &curl->name = dlsym (library, "curl_" #name)))                                          \
        return fail_set (fail, FAIL_GENERAL, "libcurl has no function curl_%s: install version 7.75 or later", #name);
    CURL_FUNCTION_MAP (X)
#undef X
    return 0;
}

const struct curl *
curl_load (struct fail *fail)
{
    static struct curl curl;
    static bool is_loaded;
    if (is_loaded)
        return &curl;
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen (names[i], RTLD_NOW | RTLD_LOCAL);
    const char *reason = library ? NULL : dlerror ();
    if (!library && reason && strstr (reason, "memory")) { /* "cannot allocate ...", "out of memory" */
        fail_nomem (fail);
        return NULL;
    }
    if (!library) {
        fail_set (fail, FAIL_GENERAL, "cannot load libcurl.so.4, which HTTP requests need: install libcurl4");
        return NULL;
    }
    if (find_functions (library, &curl, fail))
        return NULL;
    CURLcode code = curl.global_init (CURL_GLOBAL_DEFAULT);
    if (code) {
        fail_set (fail, FAIL_GENERAL, "cannot start libcurl: %s", curl.easy_strerror (code));
        return NULL;
    }
    is_loaded = true;
    return &curl;
}

const char *
http_version (void)
{
    static char text[256];
    struct fail fail = { 0 };
    const struct curl *curl = curl_load (&fail);
    if (!curl) {
        snprintf (text, sizeof text, "%.250s", fail.text);
        return text;
    }
    const curl_version_info_data *info = curl->version_info (CURLVERSION_NOW);
    snprintf (text, sizeof text, "%s, %s", info->version, info->ssl_version ? info->ssl_version : "without TLS");
    return text;
}
