/* SPDX-License-Identifier: Apache-2.0 */
/* A plan for people and for programs; see plan.h. */
#include <config.h>

#include "launch/plan/plan.h"

#include "config/tee.h"
#include "util/cleanup.h"
#include "util/envnames.h"
#include "util/printable.h"
#include "util/utf8.h"

#include <jansson.h>
#include <string.h>

/* NAME=VALUE with the value quoted. */
static void
add_variable (struct strbuf *out, const char *item)
{
    size_t length = strcspn (item, "=");
    strbuf_add (out, "  ");
    strbuf_add_bytes (out, item, length);
    strbuf_add_char (out, '=');
    if (item[length] && item[length + 1])
        shell_word_add (out, item + length + 1);
    strbuf_add_char (out, '\n');
}

/* Whether all processes have the same value of variable @index. */
static bool
is_common (const struct plan *plan, size_t index)
{
    for (int i = 1; i < plan->process_count; i++)
        if (strcmp (plan->processes[i].env.items[index], plan->processes[0].env.items[index]))
            return false;
    return true;
}

/* The common variables once, then those of each rank. */
static void
print_environment (const struct plan *plan, struct strbuf *out)
{
    const struct strlist *first = &plan->processes[0].env;
    AUTO_FREE size_t *own = calloc (first->count + 1, sizeof *own); /* variables that are not common */
    size_t count = 0;
    out->failed |= !own;
    strbuf_add (out, "\n\nenvironment\n");
    for (size_t i = 0; own && i < first->count; i++)
        if (is_common (plan, i))
            add_variable (out, first->items[i]);
        else
            own[count++] = i;
    for (int rank = 0; plan->process_count > 1 && rank < plan->process_count; rank++) {
        const struct plan_process *process = &plan->processes[rank];
        strbuf_printf (out, "\nenvironment of rank %d\n", process->rank);
        for (size_t i = 0; i < count; i++)
            add_variable (out, process->env.items[own[i]]);
    }
}

/* Which files there will be; X means what is chosen at the start. */
static void
print_logs (const struct plan *plan, struct strbuf *out)
{
    if (!plan->logs.run)
        return;
    strbuf_add (out, "\nlogs\n  ");
    printable_add (out, plan->logs.run);
    strbuf_add_char (out, '\n');
    for (int i = 0; i < plan->process_count; i++)
        for (unsigned bit = TEE_OUT; bit <= TEE_ERR; bit <<= 1)
            if (plan->processes[i].tee & bit)
                strbuf_printf (out, "  attempt_%lld/%d/%s.log\n", (long long) plan->restarts,
                               plan->processes[i].local_rank, bit == TEE_OUT ? "stdout" : "stderr");
}

static void
print_note (const char *note, struct strbuf *out)
{
    strbuf_add (out, "  ");
    printable_add (out, note);
    strbuf_add_char (out, '\n');
}

static const char *
cpus_of (const struct plan *plan, const struct plan_process *process)
{
    return process->cpus ? process->cpus : *plan->cpus ? plan->cpus : "unknown";
}

void
plan_print_binding (const struct plan *plan, const struct plan_process *process, struct strbuf *out)
{
    const char *threads = strlist_variable (&process->env, ENV_OMP_NUM_THREADS);
    strbuf_printf (out, "on %s, device %s%s, CPUs %s", plan->host, process->device,
                   plan->gpus_are_missing ? " (not found)" : "", cpus_of (plan, process));
    if (!plan->reports_bindings)
        return;
    if (*process->nodes)
        strbuf_printf (out, ", NUMA node%s %s", strpbrk (process->nodes, ",-") ? "s" : "", process->nodes);
    if (threads)
        strbuf_printf (out, ", %s thread%s", threads, strcmp (threads, "1") ? "s" : "");
}

/* If another launcher starts the ranks, only it knows how many and where; its command says it. */
static void
print_ranks (const struct plan *plan, struct strbuf *out)
{
    strbuf_add (out, "\nprocesses\n  ");
    if (plan->is_external)
        strbuf_printf (out, "started by %s", basename (plan->processes[0].argv.items[0]));
    else if (plan->local_world_size > 1)
        strbuf_printf (out, "%d of %d, ranks %d to %d", plan->local_world_size, plan->world_size, plan->first_rank,
                       plan->first_rank + plan->local_world_size - 1);
    else
        strbuf_printf (out, "1 of %d, rank %d", plan->world_size, plan->first_rank);
    strbuf_printf (out, "; %lld s between TERM and KILL\n", (long long) plan->grace_s);
    if (plan->is_external)
        return;
    strbuf_add (out, "\nranks\n");
    for (int i = 0; i < plan->process_count; i++) {
        strbuf_printf (out, "  %d  ", plan->processes[i].rank);
        plan_print_binding (plan, &plan->processes[i], out);
        strbuf_add_char (out, '\n');
    }
}

void
plan_print_text (const struct plan *plan, struct strbuf *out)
{
    const struct plan_process *first = &plan->processes[0];
    strbuf_printf (out, "host\n  %s\n", plan->host);
    print_ranks (plan, out);
    strbuf_add (out, "\ncommand\n ");
    for (size_t i = 0; i < first->argv.count; i++) {
        strbuf_add_char (out, ' ');
        shell_word_add (out, first->argv.items[i]);
    }
    print_environment (plan, out);
    print_logs (plan, out);
    if (plan->notes.count || plan->choices.count || plan->python_note)
        strbuf_add (out, "\nnotes\n");
    if (plan->python_note)
        print_note (plan->python_note, out);
    for (size_t i = 0; i < plan->choices.count; i++)
        print_note (plan->choices.items[i], out);
    for (size_t i = 0; i < plan->notes.count; i++)
        print_note (plan->notes.items[i], out);
}

static json_t *
make_list (const struct strlist *list)
{
    json_t *array = json_array ();
    for (size_t i = 0; i < list->count; i++)
        if (json_array_append_new (array, json_string (list->items[i]))) {
            json_decref (array);
            return NULL;
        }
    return array;
}

static json_t *
make_env (const struct strlist *env)
{
    json_t *object = json_object ();
    for (size_t i = 0; i < env->count; i++) {
        AUTO_STRBUF struct strbuf name = { 0 };
        size_t length = strcspn (env->items[i], "=");
        strbuf_add_bytes (&name, env->items[i], length);
        if (name.failed || json_object_set_new (object, name.text, json_string (env->items[i] + length + 1))) {
            json_decref (object);
            return NULL;
        }
    }
    return object;
}

static json_t *
make_plan (const struct plan *plan)
{
    json_t *processes = json_array (), *notes = make_list (&plan->choices), *others = make_list (&plan->notes);
    json_array_extend (notes, others);
    json_decref (others);
    if (plan->python_note)
        json_array_insert_new (notes, 0, json_string (plan->python_note));
    for (int i = 0; i < plan->process_count; i++) {
        const struct plan_process *process = &plan->processes[i];
        json_array_append_new (processes, json_pack ("{si si ss ss ss si so so}", "rank", process->rank,
                                                     "local_rank", process->local_rank, "host", plan->host, "device",
                                                     process->device, "cpus",
                                                     process->cpus ? process->cpus : plan->cpus, "tee",
                                                     (int) process->tee,
                                                     "argv", make_list (&process->argv), "env",
                                                     make_env (&process->env)));
    }
    return json_pack ("{ss si si si sI ss? so so}", "host", plan->host, "world_size", plan->world_size,
                      "local_world_size", plan->local_world_size, "first_rank", plan->first_rank, "grace_s",
                      (json_int_t) plan->grace_s, "logs", plan->logs.run, "notes", notes, "processes", processes);
}

static bool
is_all_utf8 (const struct strlist *list)
{
    for (size_t i = 0; i < list->count; i++)
        if (!utf8_is_valid (list->items[i], strlen (list->items[i])))
            return false;
    return true;
}

/* jansson makes nothing of a text that is not UTF-8, as it does without memory. */
static bool
can_be_json (const struct plan *plan)
{
    bool good = utf8_is_valid (plan->host, strlen (plan->host)) && is_all_utf8 (&plan->notes)
                && (!plan->logs.run || utf8_is_valid (plan->logs.run, strlen (plan->logs.run)))
                && (!plan->python_note || utf8_is_valid (plan->python_note, strlen (plan->python_note)));
    for (int i = 0; good && i < plan->process_count; i++)
        good = is_all_utf8 (&plan->processes[i].argv) && is_all_utf8 (&plan->processes[i].env);
    return good;
}

int
plan_print_json (const struct plan *plan, struct strbuf *out, struct fail *fail)
{
    json_t *root = make_plan (plan);
    AUTO_FREE char *text = root ? json_dumps (root, JSON_INDENT (2)) : NULL;
    size_t wanted = root ? json_array_size (json_object_get (root, "processes")) : 0;
    json_decref (root);
    if (!text || wanted != (size_t) plan->process_count)
        return can_be_json (plan) ? fail_nomem (fail)
                                  : fail_set (fail, FAIL_GENERAL,
                                              "cannot write the plan as JSON: it contains text that is not UTF-8");
    strbuf_add (out, text);
    strbuf_add_char (out, '\n');
    return 0;
}
