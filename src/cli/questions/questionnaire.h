/* SPDX-License-Identifier: Apache-2.0 */
/* The dialogue of `accelerate config`: walks the questions, back as well as forth, and shows the answers at the end. */
#ifndef CLI_QUESTIONS_QUESTIONNAIRE_H
#define CLI_QUESTIONS_QUESTIONNAIRE_H

#include "config/values.h"

/**
 * Ask what flags do not answer, with the old file's values as proposals; with --yes, ask nothing.
 *
 * @param old         flags, and the file that will be replaced
 * @param gpus        of this machine, for proposals
 * @param[out] file   what is to be written; initialized here, release it also after a failure
 * @param[out] wants_role  whether the IAM role of the file is to be created
 * @return 0, or -1 with @p fail set: status 130 after Ctrl-C
 */
int questionnaire_run (const struct config *old, int gpus, struct config *file, bool *wants_role,
                       struct fail *fail);

#endif
