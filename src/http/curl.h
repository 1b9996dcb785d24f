/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl's functions, found when they are needed. */
#ifndef HTTP_CURL_H
#define HTTP_CURL_H

#include "util/fail.h"

#include <curl/curl.h>

#define CURL_FUNCTION_MAP(X) \
    X (global_init)          \
    X (version_info)         \
    X (easy_init)            \
    X (easy_cleanup)         \
    X (easy_reset)           \
    X (easy_setopt)          \
    X (easy_getinfo)         \
    X (easy_strerror)        \
    X (slist_append)         \
    X (slist_free_all)       \
    X (multi_init)           \
    X (multi_cleanup)        \
    X (multi_add_handle)     \
    X (multi_remove_handle)  \
    X (multi_perform)        \
    X (multi_poll)           \
    X (multi_info_read)      \
    X (multi_strerror)

struct curl {
#define X(name) __typeof__ (curl_##name) *name;
    CURL_FUNCTION_MAP (X)
#undef X
};

/** Load the library on the first call; it stays.  @return NULL with @p fail set. */
const struct curl *curl_load (struct fail *fail);

#endif
