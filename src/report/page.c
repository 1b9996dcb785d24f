/* SPDX-License-Identifier: Apache-2.0 */
/* The page and its order; see page.h. */
#include <config.h>

#include "report/page.h"

#include "report/html.h"
#include "report/page_look.h"
#include "report/sections.h"

static void
add_title (const struct runs *runs, struct strbuf *out)
{
    for (size_t i = 0; i < runs->count && i < 3; i++) {
        strbuf_add (out, i ? ", " : "");
        html_text (out, runs->items[i].name);
    }
    if (runs->count > 3)
        strbuf_printf (out, " and %zu more", runs->count - 3);
}

/* Nothing is fetched, whatever is on the page. */
static void
add_head (const struct runs *runs, struct strbuf *out)
{
    strbuf_add (out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
                     "style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                     "<meta name=\"color-scheme\" content=\"light dark\">\n"
                     "<meta name=\"generator\" content=\"accelerate report\">\n<title>");
    add_title (runs, out);
    strbuf_add (out, "</title>\n<style>\n");
    strbuf_add (out, page_style);
    strbuf_add (out, "</style>\n</head>\n<body>\n");
}

void
page_add (const struct runs *runs, struct strbuf *out)
{
    add_head (runs, out);
    strbuf_add (out, "<header><p class=\"eyebrow\">accelerate report</p>\n<h1>");
    add_title (runs, out);
    strbuf_add (out, "</h1></header>\n<main>\n");
    section_overview (runs, out);
    section_failures (runs, out);
    section_restarts (runs, out);
    section_curves (runs, out);
    section_histograms (runs, out);
    section_images (runs, out);
    section_profiles (runs, out);
    section_processes (runs, out);
    section_config (runs, out);
    section_environment (runs, out);
    section_texts (runs, out);
    section_notes (runs, out);
    strbuf_add (out, "</main>\n<script>\n");
    strbuf_add (out, page_script);
    strbuf_add (out, "</script>\n</body>\n</html>\n");
}
