/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the program and says what is wrong with it, better than a failed exec of rank 0 could; see program.h. */
#include <config.h>

#include "launch/program.h"

#include "util/cleanup.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* What the first bytes of a file say. */
struct head {
    char bytes[256];
    size_t length;
};

static bool
is_executable_file (const char *path)
{
    struct stat info;
    return !stat (path, &info) && S_ISREG (info.st_mode) && !faccessat (AT_FDCWD, path, X_OK, AT_EACCESS);
}

static bool
exists (const char *path)
{
    struct stat info;
    return !stat (path, &info);
}

static bool
ends_in_py (const char *name)
{
    size_t length = strlen (name);
    return length > 3 && !strcmp (name + length - 3, ".py");
}

char *
program_find_in_path (const char *name)
{
    const char *path = getenv ("PATH");
    if (!path)
        path = "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t length = strcspn (path, ":");
        AUTO_STRBUF struct strbuf candidate = { 0 };
        strbuf_add_bytes (&candidate, path, length);
        strbuf_add (&candidate, length ? "/" : "./"); /* an empty entry is the current folder */
        strbuf_add (&candidate, name);
        if (!candidate.failed && is_executable_file (candidate.text))
            return strbuf_take (&candidate);
        if (!path[length])
            return NULL;
        path += length + 1;
    }
}

/* Where the program is; without a slash: here, then in PATH.  @return NULL where it is nowhere, or without memory */
static char *
find (const char *name)
{
    if (strchr (name, '/'))
        return strdup (name);
    AUTO_STRBUF struct strbuf here = { 0 };
    strbuf_printf (&here, "./%s", name);
    struct stat info;
    bool is_here = !here.failed && !stat (here.text, &info);
    if (is_here && !S_ISDIR (info.st_mode))
        return strbuf_take (&here);
    char *found = program_find_in_path (name);
    return found || !is_here ? found : strbuf_take (&here); /* a folder, which is refused in its place */
}

static int
read_head (const char *path, struct head *head, struct fail *fail)
{
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read (fd, head->bytes, sizeof head->bytes - 1);
    if (length < 0)
        return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: cannot read it: %s", path, strerror (errno));
    head->length = (size_t) length;
    head->bytes[length] = '\0';
    return 0;
}

static bool
is_elf (const struct head *head)
{
    return head->length >= sizeof (Elf32_Ehdr) && !memcmp (head->bytes, ELFMAG, SELFMAG);
}

static bool
is_script (const struct head *head)
{
    return head->length >= 2 && !memcmp (head->bytes, "#!", 2);
}

/* Type and machine stand at the same place in both classes.  Our own file tells what this machine is; a 32-bit program
 * on a 64-bit x86 is left to the kernel. */
static int
check_elf (const char *path, const struct head *head, struct fail *fail)
{
    struct head own;
    Elf32_Ehdr theirs, ours;
    if (read_head ("/proc/self/exe", &own, NULL) || !is_elf (&own))
        return 0;
    memcpy (&theirs, head->bytes, sizeof theirs);
    memcpy (&ours, own.bytes, sizeof ours);
    if (theirs.e_ident[EI_DATA] != ours.e_ident[EI_DATA]
        || (theirs.e_machine != ours.e_machine && !(ours.e_machine == EM_X86_64 && theirs.e_machine == EM_386)))
        return fail_set (fail, FAIL_CANNOT_EXECUTE,
                         "%s: is a program for another kind of machine (ELF machine %u, this one is %u)", path,
                         theirs.e_machine, ours.e_machine);
    if (theirs.e_type != ET_EXEC && theirs.e_type != ET_DYN)
        return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: is an object file or a core dump, not a linked program", path);
    return 0;
}

static int
check_script (const char *path, const struct head *head, struct fail *fail)
{
    char line[sizeof head->bytes];
    memcpy (line, head->bytes, sizeof line);
    line[strcspn (line, "\n")] = '\0';
    const char *interpreter = line + 2 + strspn (line + 2, " \t");
    size_t length = strcspn (interpreter, " \t");
    line[interpreter - line + (ptrdiff_t) length] = '\0';
    if (strchr (interpreter, '\r'))
        return fail_set (fail, FAIL_CANNOT_EXECUTE,
                         "%s: its #! line ends in a carriage return; save the file with Unix line ends", path);
    if (!*interpreter)
        return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: its #! line names no interpreter", path);
    if (!is_executable_file (interpreter))
        return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: its #! line names %s, which %s", path, interpreter,
                         exists (interpreter) ? "cannot be executed" : "does not exist");
    return 0;
}

/* May @path be executed as it is? */
static int
check_direct (const char *path, struct fail *fail)
{
    struct head head;
    bool executable = !faccessat (AT_FDCWD, path, X_OK, AT_EACCESS);
    if (executable && access (path, R_OK))
        return 0; /* may be executed and not read: the kernel will tell */
    if (read_head (path, &head, fail))
        return -1;
    if (!is_elf (&head) && !is_script (&head))
        return fail_set (fail, FAIL_CANNOT_EXECUTE,
                         "%s: is no program: neither ELF, nor a script with #!, nor NAME.py", path);
    if (!executable)
        return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: may not be executed; try chmod +x %s", path, path);
    return is_elf (&head) ? check_elf (path, &head, fail) : check_script (path, &head, fail);
}

static int
add_python (struct program *program, struct fail *fail)
{
    AUTO_FREE char *python = program_find_in_path ("python3");
    if (!python)
        return fail_set (fail, FAIL_NOT_FOUND, "python3 is not in PATH; install it, or use --no_python");
    strlist_add (&program->argv, python);
    program->python = true;
    return 0;
}

static int
resolve_file (struct program *program, const struct config *config, struct fail *fail)
{
    AUTO_FREE char *path = find (config->program);
    if (!path)
        return fail_set (fail, FAIL_NOT_FOUND, "%s: no such program, neither in the current folder nor in PATH",
                         config->program);
    struct stat info;
    if (stat (path, &info))
        return fail_set (fail, errno == ENOENT || errno == ENOTDIR ? FAIL_NOT_FOUND : FAIL_CANNOT_EXECUTE, "%s: %s",
                         path, strerror (errno));
    if (S_ISDIR (info.st_mode))
        return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: is a directory, not a program", path);
    if (!S_ISREG (info.st_mode))
        return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: is not a regular file", path);
    if (ends_in_py (path) && !config->settings.no_python) {
        if (access (path, R_OK))
            return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: cannot read it: %s", path, strerror (errno));
        if (add_python (program, fail))
            return -1;
        /* Its sys.argv[0] is what was typed, as it is under the original. */
        bool is_as_typed = !strncmp (path, "./", 2) && !strcmp (path + 2, config->program) && *config->program != '-';
        strlist_add (&program->argv, is_as_typed ? config->program : path);
        return 0;
    }
    if (check_direct (path, fail))
        return -1;
    strlist_add (&program->argv, path);
    return 0;
}

int
program_resolve (struct program *program, const struct config *config, struct fail *fail)
{
    *program = (struct program){ 0 };
    if (!config->program || !*config->program) {
        fail_set (fail, FAIL_USAGE, "which program? Say accelerate launch [OPTION]... PROGRAM [ARGUMENT]...");
        goto error;
    }
    if (config->settings.module && config->settings.no_python) {
        fail_set (fail, FAIL_USAGE, "--module and --no_python contradict each other; give one of them");
        goto error;
    }
    if (config->settings.module) {
        if (add_python (program, fail))
            goto error;
        strlist_add (&program->argv, "-m");
        strlist_add (&program->argv, config->program);
    } else if (resolve_file (program, config, fail))
        goto error;
    if (program->argv.failed) {
        fail_nomem (fail);
        goto error;
    }
    return 0;
error:
    program_release (program);
    return -1;
}

void
program_release (struct program *program)
{
    strlist_release (&program->argv);
    *program = (struct program){ 0 };
}
