/* SPDX-License-Identifier: Apache-2.0 */
/* Models of the Hugging Face hub: what a repository has, its files by HTTP, and the cache that Python's huggingface_hub
 * keeps.  The variables are that library's: HF_ENDPOINT, HF_TOKEN, HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE,
 * HF_HUB_OFFLINE, HF_HUB_DISABLE_IMPLICIT_TOKEN.  This folder only reads: nothing is downloaded into the cache. */
#ifndef HUB_HUB_H
#define HUB_HUB_H

#include "http/http.h"

/** All zero before hub_open(). */
struct hub {
    struct http *http; /* NULL while offline */
    char *endpoint;    /* without a '/' at its end */
    char *token;       /* or NULL */
    char *cache;       /* the folder with "models--ORG--NAME" */
    bool is_offline;   /* HF_HUB_OFFLINE */
};

/** What the hub tells of a repository.  All zero before; for hub_model_release(). */
struct hub_model {
    char *library;        /* "transformers", or NULL: not stored on the hub */
    struct strlist files;
};

/** Read the variables; load libcurl unless offline. */
int hub_open (struct hub *hub, const struct http_options *options, struct fail *fail);

/** Accepts all zero. */
void hub_close (struct hub *hub);

/** Whether @p name can be that of a repository: "NAME" or "ORG/NAME". */
bool hub_is_name (const char *name);

/** Ask the hub for a repository. @param[out] trouble  why there was no answer, HTTP_FINE if there was one */
int hub_model (struct hub *hub, const char *name, struct hub_model *model, enum http_trouble *trouble,
               struct fail *fail);

/** Read the hub's JSON. */
int hub_model_parse (struct hub_model *model, const struct http_response *response, struct fail *fail);

void hub_model_release (struct hub_model *model);

/** @return the URL of a file of a repository's main revision; the caller frees it; NULL without memory */
char *hub_file_url (const struct hub *hub, const char *name, const char *file);

/** Say why there is no such file, by the status of @p response. @param file  NULL: the repository itself  @return -1 */
int hub_refuse (const struct hub *hub, const char *name, const char *file, const struct http_response *response,
                struct fail *fail);

/** @return the cache's folder with the files of the repository's main revision; the caller frees it; NULL: missing */
char *hub_cached (const struct hub *hub, const char *name);

#endif
