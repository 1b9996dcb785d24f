/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: checkpoint, kill and top; options.c includes them. */

    { .key = "signal", OPT_TEXT (signal), .dflt = "TERM",
      .choices = WORDS ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "CONT", "TSTP", "KILL"),
      .synonyms = WORDS ("SIGTERM=TERM", "SIGINT=INT", "SIGHUP=HUP", "SIGQUIT=QUIT", "SIGUSR1=USR1", "SIGUSR2=USR2",
                         "SIGCONT=CONT", "SIGTSTP=TSTP", "SIGKILL=KILL", "9=KILL", "15=TERM", "2=INT", "1=HUP"),
      .group = GROUP_GENERAL, .commands = COMMAND_KILL, .metavar = "NAME",
      .help = "the signal to send",
      .doc = "The signal that the job's launcher gets, and passes on to all ranks. TERM, INT, HUP and QUIT end the "
             "job: ranks that are still there after the launcher's --grace are killed. KILL ends all at once; the "
             "ranks cannot save anything." },

    { .key = "wait", OPT_INT (wait, 0, 86400), .dflt = "600", .group = GROUP_GENERAL,
      .commands = COMMAND_CHECKPOINT | COMMAND_KILL, .metavar = "SECONDS",
      .help = "seconds to wait until it is done",
      .doc = "For how many seconds to wait until all ranks have saved (checkpoint), or for the end of the job (kill). "
             "0: do not wait." },

    { .key = "once", OPT_FLAG (once), .group = GROUP_GENERAL, .commands = COMMAND_TOP,
      .help = "print one look and exit",
      .doc = "Look for a second, print what was seen and exit, as happens without a terminal." },
