/* SPDX-License-Identifier: Apache-2.0 */
/* Functions in threads of their own; see background.h. */
#include <config.h>

#include "lib/checkpoint/background.h"

#include "util/threads.h"

#include <stdlib.h>

struct background {
    struct background *next;
    void (*run) (void *user);
    void (*at_exit) (void *user);
    void *user;
    unsigned process; /* the fork that started it */
    bool is_over;
    bool is_joined; /* or about to be */
    bool is_told;   /* that the process ends */
    pthread_t thread;
};

/* The lock guards all of this, `is_over` and `is_joined`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static struct background *all;
static unsigned process; /* how many forks lie between the first process and this one */

static void
take_lock (void)
{
    pthread_mutex_lock (&lock);
}

static void
release_lock (void)
{
    pthread_mutex_unlock (&lock);
}

/* Threads do not survive fork(): the parent's are not this process's to wait for. */
static void
note_fork (void)
{
    process++;
    all = NULL;
    release_lock ();
}

/* A thread may be joined only once: another thread of the program may just be doing that. */
static bool
claim_join (struct background *background)
{
    bool first = !background->is_joined;
    background->is_joined = true;
    return first;
}

/* What has set `is_over` and let go of the lock needs it no more, so its end can be awaited with the lock. */
static void
finish_all (void)
{
    take_lock ();
    for (struct background *one = all; one;) {
        if (!one->is_over) { /* while this waits, another thread may join and free any of them */
            pthread_cond_wait (&over, &lock);
            one = all;
            continue;
        }
        if (!one->is_told) {
            one->is_told = true;
            if (claim_join (one))
                pthread_join (one->thread, NULL);
            one->at_exit (one->user);
        }
        one = one->next;
    }
    release_lock ();
}

/* With the lock.  @return whether exit() and fork() are taken care of */
static bool
watch_process (void)
{
    static bool forks, exits;
    forks = forks || !pthread_atfork (take_lock, release_lock, note_fork);
    exits = exits || !atexit (finish_all);
    return forks && exits;
}

static void *
serve (void *user)
{
    struct background *background = user;
    background->run (background->user);
    take_lock ();
    background->is_over = true;
    pthread_cond_broadcast (&over);
    release_lock ();
    return NULL;
}

struct background *
background_start (void (*run) (void *user), void (*at_exit) (void *user), void *user)
{
    struct background *made = calloc (1, sizeof *made);
    if (!made)
        return NULL;
    *made = (struct background){ .run = run, .at_exit = at_exit, .user = user };
    take_lock ();
    made->process = process;
    bool good = watch_process () && !thread_start (&made->thread, serve, made);
    if (good) {
        made->next = all;
        all = made;
    }
    release_lock ();
    if (good)
        return made;
    free (made);
    return NULL;
}

bool
background_is_over (const struct background *background)
{
    take_lock ();
    bool is_over = background->is_over;
    release_lock ();
    return is_over;
}

bool
background_join (struct background *background)
{
    if (background->process != process)
        return false;
    take_lock ();
    bool first = claim_join (background);
    release_lock ();
    if (first)
        pthread_join (background->thread, NULL);
    take_lock ();
    struct background **at = &all;
    while (*at != background)
        at = &(*at)->next;
    *at = background->next;
    release_lock ();
    free (background);
    return true;
}
