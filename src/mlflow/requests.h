/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to an MLflow server.
 *
 * What a run logs is kept as lines: one letter, and what MLflow's REST interface is sent, as JSON.
 *   r{...}  the run: the last such line counts      p{...}  a parameter      m{...}  a metric      eTIME  its end */
#ifndef MLFLOW_REQUESTS_H
#define MLFLOW_REQUESTS_H

#include "http/http.h"
#include "util/strbuf.h"

enum { MLFLOW_CONNECT_MS = 3000, MLFLOW_TOTAL_MS = 8000 };

/** A run, this process's or a former one. */
struct mlflow_run {
    char *experiment;
    char *name; /* NULL: MLflow makes one */
    char *tags; /* JSON: [{"key":..., "value":...}] */
    char *id;   /* NULL: it has not been created */
    int64_t start_ms;
    bool is_known; /* the server has confirmed the id in this process */
};

struct mlflow_server {
    struct http *http;
    char *uri;    /* without a '/' at its end */
    char *token;  /* NULL: none; never shown */
    char *header; /* "Authorization: Basic ..."; NULL: none; never shown */
};

/** What became of a request. */
enum mlflow_answer {
    MLFLOW_DONE,
    MLFLOW_LATER,   /* the server is away, or lets no one in: try again */
    MLFLOW_REFUSED, /* it will never take that */
};

/** Create the run, or continue the one of run->id.  @param[out] why  unless it is done */
enum mlflow_answer mlflow_begin (const struct mlflow_server *server, struct mlflow_run *run, struct fail *why);

/**
 * Send lines, a batch at a time.
 *
 * @param[out] sent     how many bytes of them the server has, or will never take
 * @param[out] refused  why it took some not; its text is "" if it took all
 * @param[out] why      if the result is not MLFLOW_DONE
 */
enum mlflow_answer mlflow_send (const struct mlflow_server *server, struct mlflow_run *run, const char *lines,
                                size_t length, size_t *sent, struct fail *refused, struct fail *why);

/** Set the run's status and end.  @param status  "FINISHED" or "FAILED" */
enum mlflow_answer mlflow_end (const struct mlflow_server *server, const struct mlflow_run *run, const char *status,
                               int64_t end_ms, struct fail *why);

void mlflow_run_release (struct mlflow_run *run);

/** Append @p text as a string of JSON; bytes that are not UTF-8 are characters of Latin-1. */
void mlflow_add_string (struct strbuf *out, const char *text);

#endif
