/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs as `accelerate ps` and `accelerate top` see them: found, looked at again and again, shown as text or JSON.
 *
 * watched.c reads; show.c, keys.c and json.c only turn what was read into lines, keys into a view, and so on. */
#ifndef CLI_WATCH_WATCHED_H
#define CLI_WATCH_WATCHED_H

#include "launch/watch/gpus.h"
#include "launch/watch/history.h"
#include "util/strbuf.h"

#include <jansson.h>

/** A job and what its ranks did. */
struct watched {
    struct watch_job job;
    struct sample sample;   /* the latest */
    struct history history;
    struct history_rates *rates; /* [rank_count] of the latest sample */
    bool *awaited;          /* [rank_count] as sample_find_awaited() says */
    int *awaits;            /* [rank_count] the same */
    uint32_t *saves;        /* of watch_saves_ask(): a checkpoint was asked for; NULL: none is awaited */
};

/** {0} is an empty one. */
struct watched_list {
    struct watched *items; /* in the order of watch_jobs */
    size_t count;
    int foreign;           /* as in watch_jobs */
    unsigned refreshed;    /* how often */
    bool is_patient;       /* hosts of a job are waited for, as far as WATCH_JOB_WAIT_MS */
    struct watched_gpus gpus;
};

/** Which jobs: one, also after a restart, which gives it another segment; {0}: all. */
struct watched_filter {
    pid_t launcher;
    uint64_t inode; /* if there is no launcher */
};

/** Look at all jobs.  Those that are over are removed at once, and every few times new ones are looked for, which takes
 *  milliseconds. */
int watched_refresh (struct watched_list *list, const struct watched_filter *filter, struct fail *fail);

/** In between: who waits for whom.  Takes microseconds. */
void watched_look (struct watched_list *list);

void watched_release (struct watched_list *list);

/** The rank that is furthest, whose step is its job's; -1: no rank shows steps */
int watched_leader (const struct watched *watched);

/** Steps per second of that one; NAN: not known */
double watched_pace (const struct watched *watched);

/** The GPU that a rank uses, on its host; of number 0: none, or that is not known. */
struct jobseg_gpu watched_rank_gpu (const struct watched_gpus *gpus, const struct sample_rank *rank);

/** As watch_saves_ask() does. */
int watched_ask_save (struct watched *watched, struct fail *fail);

/** Seconds since it was started; -1: not known */
int64_t watched_age (const struct watched *watched);

/** What a rank is doing, in one word. */
const char *watched_state (const struct watched *watched, int i);

/* ---- json.c ---- */

/** @return a new object, NULL without memory
 *  @param gpus  of the list; not NULL: with what each rank does */
json_t *watched_json (const struct watched *watched, const struct watched_gpus *gpus);

/** @return a new array, NULL without memory */
json_t *watched_gpus_json (const struct watched_gpus *gpus);

/* ---- show.c ---- */

enum view_sort { SORT_RANK, SORT_STEP, SORT_PACE, SORT_WAITING, SORT_AWAITED, SORT_CPU, SORT_MEMORY, SORTS };
enum view_screen { SCREEN_LIST, SCREEN_RANK, SCREEN_HELP, SCREEN_STACKS };

/** How a user looks at them. */
struct view {
    int columns, lines; /* of the terminal; lines 0: as many as it takes, without a footer */
    bool is_ascii;      /* the terminal shows no UTF-8 */
    enum view_sort sort;
    enum view_screen screen;
    struct {
        uint64_t inode; /* of the job */
        int i;          /* rank i of this host */
    } chosen;           /* if there is no such rank, the first one that is shown */
    int first;          /* line of the list, or of the stacks, that is shown first */
    const struct strlist *stacks; /* of SCREEN_STACKS, printable */
    enum view_screen before; /* SCREEN_STACKS, where any key but those that scroll leads back to */
    uint64_t asked;     /* the job that may be stopped, its inode: the question is open; 0: none is */
    char message[200];  /* for the last line; "" */
};

enum view_style { VIEW_PLAIN, VIEW_TITLE, VIEW_STRONG, VIEW_FAINT };

/** All zero is an empty list; it remembers its first failure. */
struct view_lines {
    struct view_line {
        enum view_style style;
        char *text; /* printable */
    } *items;
    size_t count;
    bool failed;
};

void view_lines_release (struct view_lines *lines);
#define AUTO_VIEW_LINES __attribute__ ((cleanup (view_lines_release)))

/** Add the lines that are shown, at most `lines`, each at most `columns` wide.  Scrolls to the chosen row. */
void view_show (struct view *view, const struct watched_list *list, struct view_lines *lines);

/** A duration in words, "0:12:33" or "3d 04:05:06"; "-" if it is negative. */
void view_add_age (struct strbuf *out, int64_t seconds);

/** A number in few digits, "-" for NAN. */
void view_add_number (struct strbuf *out, double number);

/* ---- keys.c ---- */

enum { VIEW_KEY_UP = 0x100, VIEW_KEY_DOWN, VIEW_KEY_PAGE_UP, VIEW_KEY_PAGE_DOWN, VIEW_KEY_ESCAPE };
enum view_action {
    VIEW_STAYS,
    VIEW_QUITS,
    VIEW_STOPS, /* the job `asked`; the caller sets it to 0 */
    VIEW_SAVES, /* ask the chosen job for a checkpoint */
    VIEW_DUMPS, /* the chosen job's stacks, or, on SCREEN_RANK, the chosen rank's; the caller sets `screen` */
};

/** What @p key does: a character or a constant from above. */
enum view_action view_key (struct view *view, int key, const struct watched_list *list);

/** A rank as a row of the list. */
struct view_row {
    const struct watched *watched;
    int i;
};

/** All ranks in the order in which they are shown.
 *  @param[out] rows  to be freed  @return how many, -1 without memory */
int view_rows (const struct view *view, const struct watched_list *list, struct view_row **rows);

/** @return the index of the chosen one of @p rows */
int view_find_chosen (const struct view *view, const struct view_row *rows, int count);

/** The job whose segment is @p inode.  @return NULL if it is over */
struct watched *watched_find (const struct watched_list *list, uint64_t inode);

#endif
