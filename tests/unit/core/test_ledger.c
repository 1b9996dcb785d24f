/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's ledger (lib/comm/ledger.h), and the hash of what ranks compare (lib/base/site.h). */
#include <config.h>

#include "lib/base/site.h"
#include "lib/comm/ledger.h"
#include "tests/tap.h"

#include <string.h>

static struct jobseg_slot slot;
static struct ledger ledger;

static void
test_open (void)
{
    atomic_store (&slot.ledger_count, 41);
    atomic_store (&slot.generation, 3);
    atomic_store (&slot.file_count, JOBSEG_FILES / 2);
    ledger_open (&ledger, &slot);
    ok (ledger.sequence == 41 && ledger.generation == 3, "calls are counted on: %llu",
        (unsigned long long) ledger.sequence);
    ok (atomic_load (&slot.file_count) == JOBSEG_FILES / 2, "names of an earlier program stay while there is room");
    atomic_store (&slot.file_count, JOBSEG_FILES / 2 + 1);
    ledger_open (&ledger, &slot);
    ok (!atomic_load (&slot.file_count), "names of an earlier program make room");
    ledger_open (&ledger, NULL);
    ok (!ledger.slot && !ledger.sequence, "a ledger without a rank");
}

static void
test_files (void)
{
    static char names[JOBSEG_FILES + 1][16];
    static char again[] = "one.c", once_more[] = "one.c", just[JOBSEG_FILE_NAME], longer[JOBSEG_FILE_NAME + 1];
    memset (just, 'a', sizeof just - 1);
    memset (longer, 'b', sizeof longer - 1);
    longer[0] = 'x';
    ledger_open (&ledger, &slot);
    ok (ledger_file (&ledger, again) == 0 && ledger_file (&ledger, once_more) == 0
            && atomic_load (&slot.file_count) == 1, "an equal name at another address is the same file");
    ok (ledger_file (&ledger, just) == 1 && !strcmp (slot.files[1], just), "the longest name: %s", slot.files[1]);
    ok (ledger_file (&ledger, longer) == 2 && !strcmp (slot.files[2], longer + 1), "the end of a longer name: %s",
        slot.files[2]);
    for (unsigned i = 3; i < JOBSEG_FILES + 1; i++)
        snprintf (names[i], sizeof names[i], "%u.c", i);
    bool good = true;
    for (unsigned i = 3; i < JOBSEG_FILES; i++)
        good = good && ledger_file (&ledger, names[i]) == i;
    ok (good && atomic_load (&slot.file_count) == JOBSEG_FILES, "as many names as there is room for");
    ok (ledger_file (&ledger, names[JOBSEG_FILES]) == JOBSEG_FILES && atomic_load (&slot.file_count) == JOBSEG_FILES,
        "one more is not named");
    ok (ledger_file (&ledger, names[7]) == 7, "those that are there are found");
}

/* Each row differs from the first in one thing. */
static void
test_form (void)
{
    static const struct {
        const char *what;
        int ndim;
        int64_t shape[3];
        enum comm_argument argument;
        double value;
    } rows[] = {
        { "the first", 3, { 2, 3, 4 }, COMM_DIM, 1 },
        { "another first size", 3, { 3, 3, 4 }, COMM_DIM, 1 },
        { "another last size", 3, { 2, 3, 5 }, COMM_DIM, 1 },
        { "a dimension less", 2, { 2, 3 }, COMM_DIM, 1 },
        { "another kind of argument", 3, { 2, 3, 4 }, COMM_SCALE, 1 },
        { "another argument", 3, { 2, 3, 4 }, COMM_DIM, 2 },
        { "a negative argument", 3, { 2, 3, 4 }, COMM_DIM, -1 },
        { "an argument with a fraction", 3, { 2, 3, 4 }, COMM_DIM, 1 + 0x1p-50 },
    };
    uint32_t first = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t shape[3];
        memcpy (shape, rows[i].shape, sizeof shape);
        DLTensor tensor = { .ndim = rows[i].ndim, .shape = shape };
        struct comm_form form = { .tensor = &tensor, .argument = rows[i].argument, .value = rows[i].value };
        struct jobseg_form kept = { 0 };
        uint32_t hash = comm_form_hash (&form);
        first = i ? first : hash;
        ok (hash && (i ? hash != first : hash == comm_form_hash (&form)), "hash of %s: %x", rows[i].what,
            (unsigned) hash);
        ledger_note_form (&kept, &form);
        bool same = kept.ndim == rows[i].ndim && kept.argument == rows[i].argument && !(kept.value < rows[i].value)
                    && !(kept.value > rows[i].value);
        for (int dim = 0; dim < rows[i].ndim; dim++)
            same = same && kept.shape[dim] == shape[dim];
        ok (same, "%s is kept", rows[i].what);
    }
    struct comm_form none = { .tensor = NULL, .argument = COMM_SCALE, .value = 2 };
    struct jobseg_form kept = { .ndim = 3 };
    ledger_note_form (&kept, &none);
    ok (!kept.ndim && comm_form_hash (&none) && !comm_form_hash (NULL), "a form without a tensor, and none");
}

int
main (void)
{
    test_open ();
    test_files ();
    test_form ();
    return done_testing ();
}
