/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the program and says what is wrong with it, better than a failed exec of rank 0 could; see program.h. */
#include <config.h>

#include "launch/plan/program.h"

#include "launch/machine/executable.h"
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
exists (const char *path)
{
    struct stat info;
    return !stat (path, &info);
}

static bool
ends_in (const char *name, const char *ending)
{
    size_t length = strlen (name), wanted = strlen (ending);
    return length > wanted && !strcmp (name + length - wanted, ending);
}

/* What `python FOLDER` runs. */
static bool
has_main (const char *folder)
{
    static const char *const names[] = { "__main__.py", "__main__.pyc" };
    AUTO_CLOSE int fd = open (folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; fd >= 0 && i < sizeof names / sizeof *names; i++)
        if (!faccessat (fd, names[i], F_OK, 0))
            return true;
    return false;
}

/* Where the program is.  Without a slash a name means what it does in Accelerate: with --no_python what exec finds in
 * PATH, else, as for `python NAME`, what is in the current folder.  Programs in PATH come after that, which is ours.
 * @param path  set on success, to be freed */
static int
find (const char *name, bool no_python, char **path, struct fail *fail)
{
    AUTO_STRBUF struct strbuf here = { 0 };
    struct stat info;
    strbuf_printf (&here, "%s%s", strchr (name, '/') ? "" : "./", name);
    if (here.failed)
        return fail_nomem (fail);
    bool is_here = !stat (here.text, &info), is_folder = is_here && S_ISDIR (info.st_mode);
    *path = NULL;
    if (!strchr (name, '/') && (no_python || !is_here || (is_folder && !has_main (here.text)))
        && executable_find (name, path, fail))
        return -1;
    if (!*path && no_python && !strchr (name, '/'))
        return fail_set (fail, FAIL_NOT_FOUND, is_here && !is_folder
                         ? "%s: no such program in PATH; to run the one in the current folder, use ./%s"
                         : "%s: no such program in PATH", name, name);
    if (!*path && !strchr (name, '/') && !is_here)
        return fail_set (fail, FAIL_NOT_FOUND, "%s: no such program in the current folder or in PATH", name);
    if (!*path)
        *path = strbuf_take (&here);
    return 0;
}

static int
read_head (const char *path, struct head *head, struct fail *fail)
{
    AUTO_CLOSE int fd = open (path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read (fd, head->bytes, sizeof head->bytes - 1);
    if (length < 0)
        return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: cannot read: %s", path, strerror (errno));
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

/* Type and machine are at the same offset in both classes.  Our own file tells what this machine is; a 32-bit program
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
                         "%s: is built for another architecture (ELF machine %u, this one is %u)", path,
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
                         "%s: its #! line ends in a carriage return; save the file with Unix line endings", path);
    if (!*interpreter)
        return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: its #! line names no interpreter", path);
    if (!executable_is (interpreter))
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
                         "%s: cannot be executed: neither an ELF program nor a script with a #! line", path);
    if (!executable)
        return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: is not executable; try chmod +x %s", path, path);
    return is_elf (&head) ? check_elf (path, &head, fail) : check_script (path, &head, fail);
}

static int
add_python (struct program *program, struct fail *fail)
{
    AUTO_FREE char *python = NULL;
    if (python_find (&python, &program->python_note, fail))
        return -1;
    if (!python)
        return fail_set (fail, FAIL_NOT_FOUND, "neither python3 nor python is in PATH; install Python or use "
                         "--no_python");
    strlist_add (&program->argv, python);
    program->python = true;
    return 0;
}

/* Does the #! line name a Python?  /usr/bin/env python3 -u and /opt/x/bin/python3.11 do. */
static bool
is_python_script (const struct head *head)
{
    const char *end = head->bytes + strcspn (head->bytes, "\r\n");
    const char *name = memmem (head->bytes, (size_t) (end - head->bytes), "python", 6);
    return is_script (head) && name && strchr ("/ \t", name[-1]);
}

/* Bytes that Python would refuse as source, and that are neither a zip archive nor compiled. */
static bool
is_other_binary (const struct head *head)
{
    bool is_zip = head->length > 4 && !memcmp (head->bytes, "PK", 2);
    bool is_compiled = head->length > 4 && !memcmp (head->bytes + 2, "\r\n", 2);
    return memchr (head->bytes, '\0', head->length) && !is_zip && !is_compiled;
}

/* Without --no_python: is the file for Python?  As in Accelerate, everything is, except what the kernel runs by itself,
 * and what Python could only choke on.  @return 0 with *is_for_python, -1 with @fail */
static int
choose_python (const char *path, bool *is_for_python, struct fail *fail)
{
    struct head head;
    bool executable = !faccessat (AT_FDCWD, path, X_OK, AT_EACCESS);
    *is_for_python = ends_in (path, ".py");
    if (!*is_for_python && executable && access (path, R_OK))
        return 0;
    if (read_head (path, &head, fail))
        return -1;
    if (!*is_for_python)
        *is_for_python = is_script (&head) ? !executable && is_python_script (&head)
                                           : !is_elf (&head) && !is_other_binary (&head);
    return 0;
}

/* Sources in languages that are compiled, which Python would choke on. */
static const struct {
    const char *ending, *compile; /* NULL: no command of ours */
} sources[] = {
    { ".c", "cc" }, { ".cc", "c++" }, { ".cpp", "c++" }, { ".cxx", "c++" }, { ".cu", "nvcc" }, { ".f90", NULL },
    { ".rs", NULL }, { ".go", NULL }, { ".h", NULL },
};

static int
refuse_source (const char *path, struct fail *fail)
{
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        if (!ends_in (path, sources[i].ending))
            continue;
        int length = (int) (strlen (path) - strlen (sources[i].ending));
        if (!sources[i].compile)
            return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: is source code; compile it, and launch the program", path);
        return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: is source code; compile it, and launch the program: "
                         "%s -o %.*s %s $(pkg-config --cflags --libs libaccel)", path, sources[i].compile, length, path,
                         path);
    }
    return 0;
}

static int
check_kind (const char *path, bool no_python, bool *is_for_python, struct fail *fail)
{
    struct stat info;
    *is_for_python = false;
    if (stat (path, &info))
        return fail_set (fail, errno == ENOENT || errno == ENOTDIR ? FAIL_NOT_FOUND : FAIL_CANNOT_EXECUTE, "%s: %s",
                         path, strerror (errno));
    if (S_ISDIR (info.st_mode)) {
        *is_for_python = !no_python && has_main (path);
        return *is_for_python ? 0 : fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: is a directory%s", path,
                                              no_python ? "" : " without __main__.py");
    }
    if (!S_ISREG (info.st_mode))
        return fail_set (fail, FAIL_CANNOT_EXECUTE, "%s: is not a regular file", path);
    if (!no_python && ends_in (path, ".ipynb"))
        return fail_set (fail, FAIL_CANNOT_EXECUTE,
                         "%s: is a notebook, not a program: convert it with 'jupyter nbconvert --to script' and launch "
                         "the result, or call Hugging Face Accelerate's notebook_launcher in it", path);
    if (no_python)
        return 0;
    if (choose_python (path, is_for_python, fail))
        return -1;
    return *is_for_python ? refuse_source (path, fail) : 0;
}

static int
resolve_file (struct program *program, const struct config *config, struct fail *fail)
{
    AUTO_FREE char *path = NULL;
    bool no_python = config->settings.no_python, is_for_python;
    if (find (config->program, no_python, &path, fail) || check_kind (path, no_python, &is_for_python, fail))
        return -1;
    if (is_for_python) {
        if (add_python (program, fail))
            return -1;
        /* Its sys.argv[0] is what was typed, as it is under Accelerate. */
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
        fail_set (fail, FAIL_USAGE, "no program given; use accelerate launch [options] PROGRAM [arguments]");
        goto error;
    }
    if (config->settings.module && config->settings.no_python) {
        fail_set (fail, FAIL_USAGE, "--module and --no_python cannot be combined; give one of them");
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
    free (program->python_note);
    *program = (struct program){ 0 };
}
