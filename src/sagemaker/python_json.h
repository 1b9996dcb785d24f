/* SPDX-License-Identifier: Apache-2.0 */
/* JSON with the bytes of Python's json.dumps(), which programs in the job's containers read back. */
#ifndef SAGEMAKER_PYTHON_JSON_H
#define SAGEMAKER_PYTHON_JSON_H

#include "config/text/tree.h"
#include "util/fail.h"

#include <jansson.h>

/** Append @p value in the form of json.dumps (value). */
void python_json_add (struct strbuf *out, const json_t *value);

/** Say why jansson did not take @p text: there was no memory, or else @p format.  @return -1 */
int python_json_refuse (const char *text, struct fail *fail, int status, const char *format, ...)
    __attribute__ ((format (printf, 4, 5)));

/** Append Python's str() of a scalar. */
void python_text_add (struct strbuf *out, const json_t *value);

/** A file's content. @return a new reference; NULL with @p fail set */
json_t *python_json_of_node (const struct node *node, struct fail *fail);

/**
 * A word of a command line as Accelerate reads it for SageMaker: a number, True, False, or a text. Numbers without a
 * fraction are integers of any size.
 *
 * @return the JSON for it in @p out; -1 with @p fail set
 */
int python_json_of_word (struct strbuf *out, const char *word, struct fail *fail);

#endif
