/* SPDX-License-Identifier: Apache-2.0 */
/* Parsers of the types that are kept as Python's text, and of lists; the table of types is in opt_type.c. */
#ifndef CONFIG_TABLE_OPT_PYTHON_H
#define CONFIG_TABLE_OPT_PYTHON_H

#include "config/table/options.h"

int opt_parse_number (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail);
int opt_parse_truth (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail);
int opt_parse_python_bool (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail);
int opt_parse_switch (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail);
int opt_parse_triple (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail);
int opt_parse_item (const struct option *row, const char *text, bool from_file, void *field, struct fail *fail);
void opt_format_list (const void *field, struct strbuf *out);
void opt_release_list (void *field);

#endif
