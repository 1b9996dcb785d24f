/* SPDX-License-Identifier: Apache-2.0 */
/* The tables with tabs between columns that files for SageMaker name: metrics and input channels. Their first line, the
 * header, is skipped; columns after the second are ignored. */
#ifndef SAGEMAKER_TABLES_H
#define SAGEMAKER_TABLES_H

#include "util/fail.h"

#include <jansson.h>

/** @param[out] metrics  a new list of { Name, Regex } */
int tables_read_metrics (const char *path, json_t **metrics, struct fail *fail);

/** @param[out] channels  a new mapping: channel to the S3 address of its data */
int tables_read_inputs (const char *path, json_t **channels, struct fail *fail);

#endif
