/* SPDX-License-Identifier: Apache-2.0 */
/* Checks on an agent's host; see checks.h. */
#include <config.h>

#include "hosts/agent/checks.h"

#include "launch/machine/topology.h"
#include "util/cleanup.h"
#include "util/engine_files.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>

static const char engine_between_hosts[] = "mpi", engine_between_gpus[] = "nccl";

int64_t
check_clock_ns (void)
{
    struct timespec now;
    clock_gettime (CLOCK_REALTIME, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- the build: the number that the linker gave this program ---- */

static size_t
round_up (size_t length)
{
    return (length + 3) & ~(size_t) 3;
}

/* The notes of a segment: a header, a name and a text each. */
static void
read_notes (const char *at, size_t left, struct strbuf *build)
{
    ElfW (Nhdr) note;
    while (left >= sizeof note) {
        memcpy (&note, at, sizeof note);
        size_t name = round_up (note.n_namesz), text = round_up (note.n_descsz);
        if (name > left - sizeof note || text > left - sizeof note - name)
            return;
        const char *bytes = at + sizeof note + name;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof "GNU" && !memcmp (at + sizeof note, "GNU", 4))
            for (size_t i = 0; i < note.n_descsz; i++)
                strbuf_printf (build, "%02x", (unsigned char) bytes[i]);
        at += sizeof note + name + text;
        left -= sizeof note + name + text;
    }
}

/* @return 1: only the first object, which is the program, is looked at */
static int
read_object (struct dl_phdr_info *info, size_t size, void *build)
{
    (void) size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE)
            read_notes ((const char *) info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, info->dlpi_phdr[i].p_memsz,
                        build);
    return 1;
}

/* ---- answers ---- */

static void
put_engine (const char *name, struct strbuf *out)
{
    AUTO_ENGINE_FILES struct engine_files files = { 0 };
    engine_files_find (&files);
    for (size_t i = 0; i < files.count; i++)
        if (!strcmp (files.items[i].name, name)) {
            wire_put_text (out, files.items[i].refusal);
            return;
        }
    wire_put_text (out, "not installed");
}

static int
answer_facts (struct net_benchmark *benchmark, const char *interface, struct strbuf *out, struct fail *fail)
{
    AUTO_STRLIST struct strlist addresses = { 0 };
    AUTO_STRBUF struct strbuf build = { 0 };
    struct topology topology;
    address_list (&addresses, interface);
    dl_iterate_phdr (read_object, &build);
    if (net_benchmark_start (benchmark, fail))
        return -1;
    wire_put_text (out, build.text);
    put_engine (engine_between_hosts, out);
    put_engine (engine_between_gpus, out);
    topology_probe (&topology, false);
    wire_put_number (out, topology.gpus);
    wire_put_number (out, benchmark->port);
    wire_put_text (out, benchmark->token);
    wire_put_text (out, benchmark->key);
    wire_put_list (out, &addresses);
    return build.failed || addresses.failed ? fail_nomem (fail) : 0;
}

static bool
take_word (struct wire_frame *frame, char word[ADDRESS_TOKEN_BYTES])
{
    const char *text = wire_text (frame);
    if (!text || strlen (text) != ADDRESS_TOKEN_BYTES - 1)
        return false;
    memcpy (word, text, ADDRESS_TOKEN_BYTES);
    return true;
}

/* Processes that run or want to, for each 1000th of a processor: of the last minute, or now if there are more. */
static int64_t
find_load (void)
{
    double minute = 0;
    int running = 0;
    AUTO_FILE FILE *file = fopen ("/proc/loadavg", "re");
    if (!file || fscanf (file, "%lf %*f %*f %d/", &minute, &running) != 2)
        return 0;
    double load = running - 1 > minute ? running - 1 : minute; /* one is this process */
    return (int64_t) (load * 1000 / get_nprocs ());
}

static int
answer_measure (struct wire_frame *frame, struct strbuf *out, struct fail *fail)
{
    struct net_benchmark other = { 0 };
    struct net_benchmark_result result;
    AUTO_STRLIST struct strlist addresses = { 0 };
    int64_t number = wire_number (frame);
    other.port = (int) wire_number (frame);
    bool is_known = take_word (frame, other.token) && take_word (frame, other.key);
    wire_list (frame, &addresses);
    int64_t limit_ms = wire_number (frame);
    if (!is_known || frame->failed || limit_ms < 1)
        return fail_set (fail, FAIL_GENERAL, "the head has asked for an impossible measurement");
    net_benchmark_measure (&other, &addresses, limit_ms, &result);
    wire_put_number (out, number);
    wire_put_text (out, result.address);
    wire_put_number (out, result.round_trip_ns);
    wire_put_number (out, (int64_t) result.to);
    wire_put_number (out, (int64_t) result.from);
    wire_put_text (out, result.why);
    wire_put_number (out, result.trouble);
    wire_put_number (out, find_load ());
    return addresses.failed ? fail_nomem (fail) : 0;
}

int
check_agent_take (struct net_benchmark *benchmark, struct wire_frame *frame, const char *interface, struct strbuf *out,
                  struct fail *fail)
{
    AUTO_STRBUF struct strbuf answer = { 0 };
    int64_t what = wire_number (frame);
    size_t begin = wire_begin (&answer, WIRE_CHECKED);
    int result = 0;
    wire_put_number (&answer, what);
    switch (what) {
    case CHECK_CLOCK:
        wire_put_number (&answer, wire_number (frame));
        wire_put_number (&answer, check_clock_ns ());
        break;
    case CHECK_FACTS: result = answer_facts (benchmark, interface, &answer, fail); break;
    case CHECK_MEASURE: result = answer_measure (frame, &answer, fail); break;
    default: result = fail_set (fail, FAIL_GENERAL, "the head has asked for a check that does not exist");
    }
    if (result)
        return -1;
    wire_end (&answer, begin);
    strbuf_add_bytes (out, answer.text, answer.length);
    out->failed = out->failed || answer.failed;
    return 0;
}
