/* SPDX-License-Identifier: Apache-2.0 */
/* What keys do to a view, and which rank is chosen in it. */
#include <config.h>

#include "cli/watch/watched.h"

#include <math.h>
#include <stdlib.h>

/* What is unknown comes last. */
static double
key_of (const struct watched *watched, enum view_sort sort, int i)
{
    const struct sample_rank *rank = &watched->sample.ranks[i];
    const struct history_rates *rates = &watched->rates[i];
    double value = sort == SORT_STEP      ? (double) rank->step
                   : sort == SORT_PACE    ? rates->steps_per_second
                   : sort == SORT_WAITING ? rates->waiting
                   : sort == SORT_AWAITED ? rates->awaited
                   : sort == SORT_CPU     ? rates->cpu
                   : sort == SORT_MEMORY  ? (double) rank->memory
                                          : 0;
    return isnan (value) ? -1 : value;
}

/* The highest first, and equal ones by rank; of steps the lowest, because the slowest rank is looked for. */
static void
add_sorted (struct view_row *rows, const struct watched *watched, enum view_sort sort)
{
    bool is_rising = sort == SORT_STEP || sort == SORT_PACE;
    for (int i = 0; i < watched->sample.count; i++) {
        double key = key_of (watched, sort, i);
        int at = i;
        for (; at > 0; at--) {
            double other = key_of (watched, sort, rows[at - 1].i);
            if (is_rising ? other <= key : other >= key)
                break;
            rows[at] = rows[at - 1];
        }
        rows[at] = (struct view_row){ watched, i };
    }
}

int
view_rows (const struct view *view, const struct watched_list *list, struct view_row **rows)
{
    int count = 0;
    for (size_t i = 0; i < list->count; i++)
        count += list->items[i].sample.count;
    *rows = calloc ((size_t) count + 1, sizeof **rows);
    if (!*rows)
        return -1;
    count = 0;
    for (size_t i = 0; i < list->count; i++) {
        add_sorted (*rows + count, &list->items[i], view->sort);
        count += list->items[i].sample.count;
    }
    return count;
}

int
view_find_chosen (const struct view *view, const struct view_row *rows, int count)
{
    for (int row = 0; row < count; row++)
        if (rows[row].watched->job.inode == view->chosen.inode && rows[row].i == view->chosen.i)
            return row;
    return 0;
}

struct watched *
watched_find (const struct watched_list *list, uint64_t inode)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].job.inode == inode)
            return &list->items[i];
    return NULL;
}

/* By @by rows.  @return the job of the row that is chosen then, its inode; 0: there are no rows */
static uint64_t
move (struct view *view, int by, const struct watched_list *list)
{
    struct view_row *rows;
    int count = view_rows (view, list, &rows);
    if (count > 0) {
        int row = view_find_chosen (view, rows, count) + by;
        row = row >= count ? count - 1 : row < 0 ? 0 : row;
        view->chosen.inode = rows[row].watched->job.inode;
        view->chosen.i = rows[row].i;
    }
    free (rows);
    return count > 0 ? view->chosen.inode : 0;
}

/* What is typed into a question. */
static enum view_action
answer (struct view *view, int key)
{
    if (key == 'y' || key == 'Y')
        return VIEW_STOPS;
    view->asked = 0;
    return VIEW_STAYS;
}

/* Over stacks, which are longer than the screen. */
static void
scroll (struct view *view, int key, int page)
{
    switch (key) {
    case VIEW_KEY_UP:
    case 'k': view->first--; break;
    case VIEW_KEY_DOWN:
    case 'j': view->first++; break;
    case VIEW_KEY_PAGE_UP: view->first -= page; break;
    case VIEW_KEY_PAGE_DOWN: view->first += page; break;
    default: view->screen = view->before;
    }
}

enum view_action
view_key (struct view *view, int key, const struct watched_list *list)
{
    int page = view->lines > 8 ? view->lines - 6 : 2;
    if (view->asked)
        return answer (view, key);
    *view->message = '\0';
    if (view->screen == SCREEN_STACKS) {
        scroll (view, key, page);
        return VIEW_STAYS;
    }
    switch (key) {
    case 'q':
    case 'Q': return VIEW_QUITS;
    case VIEW_KEY_ESCAPE: view->screen = SCREEN_LIST; break;
    case 'h':
    case '?': view->screen = view->screen == SCREEN_HELP ? SCREEN_LIST : SCREEN_HELP; break;
    case '\r':
    case '\n':
        move (view, 0, list);
        view->screen = view->screen == SCREEN_LIST ? SCREEN_RANK : SCREEN_LIST;
        break;
    case 's': view->sort = (view->sort + 1) % SORTS; break;
    case 'c': return move (view, 0, list) ? VIEW_SAVES : VIEW_STAYS;
    case 'd':
        view->before = view->screen == SCREEN_RANK ? SCREEN_RANK : SCREEN_LIST;
        return move (view, 0, list) ? VIEW_DUMPS : VIEW_STAYS;
    case 'x': view->asked = move (view, 0, list); break;
    case VIEW_KEY_UP:
    case 'k': move (view, -1, list); break;
    case VIEW_KEY_DOWN:
    case 'j': move (view, 1, list); break;
    case VIEW_KEY_PAGE_UP: move (view, -page, list); break;
    case VIEW_KEY_PAGE_DOWN: move (view, page, list); break;
    default: break;
    }
    return VIEW_STAYS;
}
