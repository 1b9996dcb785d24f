/* SPDX-License-Identifier: Apache-2.0 */
/* Names and lines of addresses, by libdw of elfutils.  It is opened only when they are needed, because loading it takes
 * longer than a start; and its functions are declared here, so that its headers need not be installed to build.  Its
 * ABI does not change: they are versions of symbols. */
#include <config.h>

#include "launch/stacks/stacks.h"

#include "util/fail.h"
#include "util/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* elfutils/libdwfl.h: Dwfl_Callbacks. */
struct callbacks {
    void *find_elf;
    int (*find_debuginfo) (void *module, void **data, const char *name, uint64_t base, const char *file,
                           const char *link, uint32_t checksum, char **found);
    void *section_address;
    char **debuginfo_path;
};

/* Lines of libraries are not shown, and those of programs are in the programs, as a rule.  libdw's own function would
 * read the debug packages of all libraries, and may ask servers (debuginfod). */
static int
find_no_file (void *module, void **data, const char *name, uint64_t base, const char *file, const char *link,
              uint32_t checksum, char **found)
{
    (void) module, (void) data, (void) name, (void) base, (void) file, (void) link, (void) checksum, (void) found;
    return -1;
}

/* elf.h's GElf_Sym and GElf_Off, as dwfl_module_addrinfo() fills them in. */
struct symbol {
    uint64_t bytes[3];
};

static struct {
    void *(*begin) (const struct callbacks *callbacks);
    int (*maps_report) (void *dwfl, FILE *maps);
    int (*report_end) (void *dwfl, void *removed, void *argument);
    void (*end) (void *dwfl);
    void *(*module_of) (void *dwfl, uint64_t address);
    const char *(*name_of) (void *module, uint64_t address, uint64_t *offset, struct symbol *symbol, void *shndx,
                            void *elf, void *bias);
    void *(*line_of) (void *module, uint64_t address);
    const char *(*line_info) (void *line, uint64_t *address, int *number, int *column, void *mtime, void *length);
    void *find_elf;
} dwfl;

static const struct probe_symbol functions[] = {
    { "dwfl_begin", &dwfl.begin },
    { "dwfl_linux_proc_maps_report", &dwfl.maps_report },
    { "dwfl_report_end", &dwfl.report_end },
    { "dwfl_end", &dwfl.end },
    { "dwfl_addrmodule", &dwfl.module_of },
    { "dwfl_module_addrinfo", &dwfl.name_of },
    { "dwfl_module_getsrc", &dwfl.line_of },
    { "dwfl_lineinfo", &dwfl.line_info },
    { "dwfl_linux_proc_find_elf", &dwfl.find_elf },
    { 0 },
};

struct stack_symbols {
    void *dwfl;
    struct callbacks callbacks; /* which libdw does not copy */
};

static bool
load (void)
{
    static const char *const names[] = { "libdw.so.1", NULL };
    static bool is_tried, is_loaded;
    struct fail fail;
    if (!is_tried)
        is_loaded = !probe_open_library (names, functions, &fail);
    is_tried = true;
    return is_loaded;
}

struct stack_symbols *
stack_symbols_open (const char *maps)
{
    FILE *file = maps && load () ? fmemopen ((void *) (uintptr_t) maps, strlen (maps), "r") : NULL;
    struct stack_symbols *symbols = file ? calloc (1, sizeof *symbols) : NULL;
    if (symbols) {
        symbols->callbacks = (struct callbacks){ .find_elf = dwfl.find_elf, .find_debuginfo = find_no_file };
        symbols->dwfl = dwfl.begin (&symbols->callbacks);
    }
    if (symbols && (!symbols->dwfl || dwfl.maps_report (symbols->dwfl, file)
                    || dwfl.report_end (symbols->dwfl, NULL, NULL))) {
        stack_symbols_close (symbols);
        symbols = NULL;
    }
    if (file)
        fclose (file);
    return symbols;
}

void
stack_symbols_find (struct stack_symbols *symbols, uint64_t address, const char **function, const char **file,
                    int *line)
{
    uint64_t offset;
    struct symbol symbol;
    void *module = symbols ? dwfl.module_of (symbols->dwfl, address) : NULL;
    void *found = module ? dwfl.line_of (module, address) : NULL;
    *line = 0;
    *function = module ? dwfl.name_of (module, address, &offset, &symbol, NULL, NULL, NULL) : NULL;
    *file = found ? dwfl.line_info (found, NULL, line, NULL, NULL, NULL) : NULL;
}

void
stack_symbols_close (struct stack_symbols *symbols)
{
    if (symbols && symbols->dwfl)
        dwfl.end (symbols->dwfl);
    free (symbols);
}
