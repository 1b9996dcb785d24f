/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of the page.  Each appends itself, or nothing if there is nothing to say. */
#ifndef REPORT_SECTIONS_H
#define REPORT_SECTIONS_H

#include "report/run.h"

void section_overview (const struct runs *runs, struct strbuf *out);
void section_failures (const struct runs *runs, struct strbuf *out);
void section_restarts (const struct runs *runs, struct strbuf *out);
void section_curves (const struct runs *runs, struct strbuf *out);

/* sections_ranks.c */
void section_profiles (const struct runs *runs, struct strbuf *out);
void section_processes (const struct runs *runs, struct strbuf *out);

/* sections_snapshots.c */
void section_histograms (const struct runs *runs, struct strbuf *out);
void section_images (const struct runs *runs, struct strbuf *out);

/* sections_tables.c */
void section_config (const struct runs *runs, struct strbuf *out);
void section_environment (const struct runs *runs, struct strbuf *out);
void section_texts (const struct runs *runs, struct strbuf *out);
void section_notes (const struct runs *runs, struct strbuf *out);

/** Begin one.  @param id  of the heading */
void section_begin (const char *id, const char *title, struct strbuf *out);

/** Append the name of a run with the key to its colour, if there are several runs. */
void section_name (const struct runs *runs, size_t run, struct strbuf *out);

#endif
