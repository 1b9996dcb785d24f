/* SPDX-License-Identifier: Apache-2.0 */
/* Files of lines that a server has not got: LOGGING_DIR/PROJECT[/RUN]/mlflow-*.unsent, each of one run, and locked as
 * long as the run's process lives.  They are sent later, by this run or by the next one that finds them. */
#ifndef MLFLOW_UNSENT_H
#define MLFLOW_UNSENT_H

#include "mlflow/requests.h"

/** A file of lines that were not sent; all zero but fd -1 is none. */
struct mlflow_unsent {
    int fd;
    char *path;
};

/** Append lines, in a new file of @p folder if there is none yet.  @return 0, or -1 with @p why */
int mlflow_unsent_add (struct mlflow_unsent *unsent, const char *folder, const struct mlflow_run *run,
                       const struct strbuf *lines, struct fail *why);

/** Send the file of this run, and its end at @p end_ms (0: it continues), and remove it. */
enum mlflow_answer mlflow_unsent_send (struct mlflow_unsent *unsent, const struct mlflow_server *server,
                                       struct mlflow_run *run, int64_t end_ms, struct fail *refused,
                                       struct fail *why);

/** Send those of former runs whose processes have ended, and remove them. */
enum mlflow_answer mlflow_unsent_send_former (const char *folder, const struct mlflow_server *server,
                                              struct fail *refused, struct fail *why);

/** Leave the file as it is. */
void mlflow_unsent_close (struct mlflow_unsent *unsent);

#endif
