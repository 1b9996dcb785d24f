/* SPDX-License-Identifier: Apache-2.0 */
/* The option table: its rows are whole, command lines give the settings and messages that they should, and a value is
 * the same by flag, through a file, and in the environment. */
#include <config.h>

#include "config/envmap.h"
#include "config/explain.h"
#include "config/file.h"
#include "config/gpu_ids.h"
#include "config/load.h"
#include "config/mode.h"
#include "config/paths.h"
#include "config/table/opt_argv.h"
#include "config/tee.h"
#include "config/write.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <ctype.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { MOST_WORDS = 16 };

/* Split at blanks, in place. */
static int
split (char *text, char **words)
{
    int count = 0;
    for (char *rest = text, *word; (word = strtok_r (rest, " ", &rest)) && count < MOST_WORDS;)
        words[count++] = word;
    words[count] = NULL;
    return count;
}

static int
load (struct config *config, const char *line, struct fail *fail)
{
    static char copies[8][256]; /* argv must outlive the config */
    static int next;
    static char *words[8][MOST_WORDS + 1];
    next = (next + 1) % 8;
    snprintf (copies[next], sizeof copies[next], "%s", line);
    return config_load_launch (config, split (copies[next], words[next]), words[next], fail);
}

static bool
is_help_line (const char *help)
{
    size_t length = strlen (help);
    static const char *const names[] = { "OpenMP", "DeepSpeed", "ZeRO", "Docker", "PyTorch", "Python" };
    bool starts_low = !isupper ((unsigned char) help[0]) || isupper ((unsigned char) help[1]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        starts_low = starts_low || !strncmp (help, names[i], strlen (names[i]));
    return length && length <= 60 && starts_low && help[length - 1] != '.';
}

static void
test_rows (void)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        bool is_unique = true;
        for (size_t j = 0; j < i; j++)
            is_unique = is_unique
                        && (strcmp (options[j].key, row->key)
                            || !((row->commands & options[j].commands) || (row->properties & PROPERTY_FILE)))
                        && !(row->letter && row->letter == options[j].letter);
        bool has_flag = !(row->properties & PROPERTY_NO_FLAG);
        ok (is_unique, "%s: letter and key are unique, the key among each command's flags", row->key);
        ok (is_help_line (row->help), "%s: help is one short line: %s", row->key, row->help);
        ok (row->doc && row->doc[strlen (row->doc) - 1] == '.', "%s: doc is sentences", row->key);
        ok (has_flag ? row->commands != 0 : row->commands == 0 && (row->properties & PROPERTY_FILE),
            "%s: is a flag of some command, or a key of the file", row->key);
        ok (!option_types[row->type].takes_value || row->metavar, "%s: has a word for its value", row->key);
        ok (!row->env == !row->paths, "%s: a variable has launch paths", row->key);
    }
}

/* Every byte of struct settings but padding belongs to exactly one row. */
static void
test_fields (void)
{
    unsigned char owners[sizeof (struct settings)] = { 0 };
    for (size_t i = 0; i < option_count; i++)
        for (size_t j = 0; j < options[i].field_size; j++)
            owners[options[i].offset + j]++;
    size_t shared = 0, longest_gap = 0, gap = 0;
    for (size_t i = 0; i < sizeof owners; i++) {
        shared += owners[i] > 1;
        gap = owners[i] ? 0 : gap + 1;
        longest_gap = gap > longest_gap ? gap : longest_gap;
    }
    ok (!shared, "no field belongs to two rows");
    ok (longest_gap < sizeof (void *), "no field is without a row (%zu bytes)", longest_gap);
}

static void
test_command_lines (void)
{
    static const struct {
        const char *line;
        const char *error; /* part of it, or NULL */
        const char *key, *value;
        const char *program_line; /* program and arguments */
    } cases[] = {
        { "--num_processes 2 p", NULL, "num_processes", "2", "p" },
        { "--num-processes 2 p", NULL, "num_processes", "2", "p" },
        { "--num_processes=2 p -x --num_processes 9", NULL, "num_processes", "2", "p -x --num_processes 9" },
        { "--num_processes 2 --num-processes=3 p", NULL, "num_processes", "3", "p" },
        { "-qm mod", NULL, "module", "true", "mod" },
        { "-mq mod", NULL, "quiet", "true", "mod" },
        { "-- p --x 1", NULL, "quiet", "false", "p --x 1" },
        { "p -- --x", NULL, "quiet", "false", "p --x" },
        { "--quiet -- p -- y", NULL, "quiet", "true", "p -- y" },
        { "p a -- b", NULL, "quiet", "false", "p a -- b" },
        { "-- --weird", NULL, "quiet", "false", "--weird" },
        { "- a", NULL, "quiet", "false", "- a" },
        { "--cpu p", NULL, "use_cpu", "true", "p" },
        { "--role=-x p", NULL, "role", "-x", "p" },
        { "--main_process_port 0 p", NULL, "main_process_port", "0", "p" },
        { "--num_processes 2x p", "--num_processes: '2x' is not an integer; expected 1 to", NULL, NULL, NULL },
        { "--num_processes 0 p", "--num_processes: 0 is out of range; expected 1 to", NULL, NULL, NULL },
        { "--num_processes -1 p", "--num_processes: -1 is out of range", NULL, NULL, NULL },
        { "--num_processes 99999999999 p", "--num_processes: 99999999999 is out of range", NULL, NULL, NULL },
        { "--num_processes 99999999999999999999 p", "is out of range", NULL, NULL, NULL },
        { "--num_processes= p", "'' is not an integer", NULL, NULL, NULL },
        { "--num_processes", "--num_processes: missing value (N)", NULL, NULL, NULL },
        { "--num_processes --cpu p", "--num_processes: missing value", NULL, NULL, NULL },
        { "--num_proceses 2 p", "unknown option '--num_proceses' (did you mean '--num_processes'?)", NULL, NULL, NULL },
        { "--num-cpu_threads-per_process 2 p", "(did you mean '--num_cpu_threads_per_process'?)", NULL, NULL, NULL },
        { "--num_proc 2 p", "unknown option '--num_proc'", NULL, NULL, NULL },
        { "--cpu=1 p", "--cpu: takes no value, got '1'", NULL, NULL, NULL },
        { "-qz p", "unknown option '-z'", NULL, NULL, NULL },
        { "--use_fsdp --fsdp-version 2 p", NULL, "fsdp_version", "2", "p" },
        { "--mixed_precision BF16 p", "(did you mean 'bf16'?)", NULL, NULL,
          NULL },
        { "--mixed_precision fp8 p", NULL, "mixed_precision", "fp8", "p" },
        { "--gradient_clipping 1 p", NULL, "gradient_clipping", "1.0", "p" },
        { "--gradient_clipping 1e-5 p", NULL, "gradient_clipping", "1e-05", "p" },
        { "--gradient_clipping auto p", NULL, "gradient_clipping", "auto", "p" },
        { "--gradient_clipping x p", "'x' is not 'auto' or a number >= 0", NULL, NULL, NULL },
        { "--gradient_accumulation_steps 2.5 p", "'2.5' is not 'auto' or an integer >= 1", NULL, NULL, NULL },
        { "--fsdp_offload_params maybe p", "'maybe' is neither true nor false", NULL, NULL, NULL },
        { "--megatron_lm_no_load_optim 0 p", NULL, "megatron_lm_no_load_optim", "False", "p" },
        { "--fp8_pad_inner_dim no p", NULL, "fp8_pad_inner_dim", "0", "p" },
        { "--fp8_override_linear_precision true,no,1 p", NULL, "fp8_override_linear_precision", "1,0,1", "p" },
        { "--fp8_override_linear_precision true,no p", "is not three comma-separated booleans", NULL, NULL, NULL },
        { "--fp8_override_linear_precision 1,0,1,0 p", "is not three comma-separated booleans", NULL, NULL, NULL },
        { "--vm a --vm b p", NULL, "vm", "a,b", "p" },
        { "-t 0 p", NULL, "tee", "0", "p" },
        { "-t 3 p", NULL, "tee", "3", "p" },
        { "-t3 p", NULL, "tee", "3", "p" },
        { "-qt3 p", NULL, "tee", "3", "p" },
        { "-- -- a", NULL, "quiet", "false", "-- a" },
        { "--rdzv_conf a=1,b=2 p", NULL, "rdzv_conf", "a=1,b=2", "p" },
        { "--rdzv_conf a= p", "expected comma-separated KEY=VALUE pairs", NULL, NULL, NULL },
        { "--rdzv_conf a=1,b= p", "expected comma-separated KEY=VALUE pairs", NULL, NULL, NULL },
        { "--rdzv_conf a=1, p", "expected comma-separated KEY=VALUE pairs", NULL, NULL, NULL },
        { "--rdzv_conf =1 p", "expected comma-separated KEY=VALUE pairs", NULL, NULL, NULL },
        { "--rdzv_conf a,b=1 p", "expected comma-separated KEY=VALUE pairs", NULL, NULL, NULL },
        { "--log_dir / p", NULL, "log_dir", "/", "p" },
        { "-t 4 p", "expected 0 to 3, or comma-separated pairs such as 0:1", NULL, NULL, NULL },
        { "--use_fsdp --use_parallelism_config p", "parallelism_config needs DeepSpeed, or FSDP", NULL, NULL, NULL },
        { "--use_fsdp --fsdp_sync_module_states no p", "otherwise only rank 0 has the weights", NULL, NULL, NULL },
        { "--gpu_ids= p", "--gpu_ids: the value is empty", NULL, NULL, NULL },
        { "--cpu", "no program given", NULL, NULL, NULL },
        { "--", "no program given", NULL, NULL, NULL },
        { "--cpu --multi_gpu p", "choose one of --cpu, --multi_gpu", NULL, NULL, NULL },
        { "--multi_gpu --num_processes 1 p", "needs at least 2", NULL, NULL, NULL },
        { "-m --no_python p", "--module and --no_python cannot be combined", NULL, NULL, NULL },
        { "--num_machines 2 --machine_rank 0 p", "several machines need --main_process_ip", NULL, NULL, NULL },
        { "--num_machines 2 --main_process_ip h p", "need --machine_rank", NULL, NULL, NULL },
        { "--num_machines 2 --main_process_ip h --mpirun_hostfile f p", NULL, "machine_rank", "0", "p" },
        { "--num_machines 2 --main_process_ip h --use_deepspeed p", NULL, "machine_rank", "0", "p" },
        { "--num_machines 2 --main_process_ip h --use_deepspeed --deepspeed_multinode_launcher standard p",
          "need --machine_rank", NULL, NULL, NULL },
        { "--num_machines 2 --machine_rank 2 p",
          "machine_rank must be less than num_machines: machine_rank 2 (flag), num_machines 2 (flag)", NULL, NULL,
          NULL },
        { "--num_machines 2 --machine_rank 0 --main_process_ip h --num_processes 3 p",
          "must be a multiple of num_machines", NULL, NULL, NULL },
        { "--num_machines 2 --machine_rank 0 --main_process_ip h --main_process_port 0 p",
          "a different free port", NULL,
          NULL, NULL },
        { "--multi_gpu --gpu_ids 3 p", "gpu_ids lists one GPU", NULL, NULL, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config;
        struct fail fail = { 0 };
        int result = load (&config, cases[i].line, &fail);
        if (cases[i].error) {
            ok (result && fail.status == FAIL_USAGE && strstr (fail.text, cases[i].error), "'%s': %s", cases[i].line,
                fail.text);
        } else {
            AUTO_STRBUF struct strbuf value = { 0 };
            AUTO_STRBUF struct strbuf program = { 0 };
            const struct option *row = option_find (cases[i].key);
            option_types[row->type].format (option_field_const (row, &config.settings), &value);
            strbuf_add (&program, config.program ? config.program : "");
            for (char **word = config.program_args; word && *word; word++)
                strbuf_printf (&program, " %s", *word);
            ok (!result && value.text && !strcmp (value.text, cases[i].value)
                    && !strcmp (program.text, cases[i].program_line),
                "'%s': %s %s, program '%s' %s", cases[i].line, cases[i].key, value.text, program.text, fail.text);
        }
        config_release (&config);
    }
}

/* A command line beside a file: what the one says to the other. */
static void
test_with_files (void)
{
    static const char fsdp[] = "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_version: 1\n"
                               "  fsdp_reshard_after_forward: NO_SHARD\n";
    static const char fsdp_both[] = "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n  fsdp_version: 1\n"
                                    "  fsdp_reshard_after_forward: NO_SHARD\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n";
    static const char aws[] = "compute_environment: AMAZON_SAGEMAKER\ndistributed_type: DATA_PARALLEL\n"
                              "num_machines: 3\n";
    static const char parallel[] = "parallelism_config:\n  parallelism_config_tp_size: 2\n";
    static const struct {
        const char *file, *flags;
        const char *error; /* part of it, or NULL */
        const char *key, *value;
    } cases[] = {
        { aws, "", NULL, "num_machines", "3" },
        { aws, "--num_processes 2", NULL, "num_processes", "2" },
        { "num_processes: 3\nnum_machines: 2\n", "--main_process_ip h", "multiple of num_machines", NULL, NULL },
        { "num_processes: 1\n", "--multi_gpu", NULL, "multi_gpu", "true" },
        { "distributed_type: MULTI_GPU\n", "", "num_processes is missing", NULL, NULL },
        { "distributed_type: MULTI_GPU\nnum_processes: 2\n", "", NULL, "multi_gpu", "true" },
        { "distributed_type: MULTI_GPU\nnum_processes: 2\n", "--use_fsdp", NULL, "multi_gpu", "false" },
        { "num_processes: 2x\n", "--num_processes 2", "'2x' is not an integer", NULL, NULL },
        { fsdp, "", NULL, "fsdp_sharding_strategy", "NO_SHARD" },
        { fsdp_both, "", NULL, "fsdp_sharding_strategy", "SHARD_GRAD_OP" },
        { fsdp, "--fsdp_sharding_strategy HYBRID_SHARD", NULL, "fsdp_sharding_strategy", "HYBRID_SHARD" },
        { parallel, "--use_fsdp --fsdp_version 2", NULL, "use_parallelism_config", "true" },
        { parallel, "--cpu", NULL, "use_parallelism_config", "false" },
    };
    static const char path[] = "beside.yaml";
    char line[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config;
        struct fail fail = { 0 };
        AUTO_STRBUF struct strbuf value = { 0 };
        snprintf (line, sizeof line, "--config_file %s %s p", path, cases[i].flags);
        int result = io_write_file (path, cases[i].file, strlen (cases[i].file), 0600, &fail)
                     || load (&config, line, &fail);
        const struct option *row = option_find (cases[i].key ? cases[i].key : "num_processes");
        option_types[row->type].format (option_field_const (row, &config.settings), &value);
        ok (cases[i].error ? result && strstr (fail.text, cases[i].error)
                           : !result && value.text && !strcmp (value.text, cases[i].value),
            "file %zu and '%s': %s is %s %s", i, cases[i].flags, row->key, value.text, fail.text);
        config_release (&config);
    }
    unlink (path);
}

static void
test_paths (void)
{
    struct config config;
    struct fail fail = { 0 };
    char path[SCRATCH_SIZE + 64];
    AUTO_FREE char *own = NULL, *foreign = NULL;
    setenv ("HOME", "/home/own", 1);
    setenv ("HF_HOME", "~/hf", 1);
    ok (!path_of_default_file (&own, &fail), "a path");
    is_text (own, "/home/own/hf/accelerate/default_config.yaml", "the home folder");
    setenv ("HF_HOME", "~nobody/hf", 1);
    ok (!path_of_default_file (&foreign, &fail), "another path");
    is_text (foreign, "~nobody/hf/accelerate/default_config.yaml", "not another user's");
    AUTO_FREE char *here = NULL;
    setenv ("XDG_CACHE_HOME", "", 1);
    unsetenv ("HF_HOME");
    ok (!path_of_default_file (&here, &fail), "a third path");
    is_text (here, "huggingface/accelerate/default_config.yaml", "an empty XDG_CACHE_HOME is not the root");
    unsetenv ("XDG_CACHE_HOME");
    ok (path_is_json ("a.json") && !path_is_json (".json") && !path_is_json ("a.jso"), "names of JSON files");
    setenv ("HF_HOME", scratch_folder (), 1);
    snprintf (path, sizeof path, "%s/accelerate/default_config.yaml", scratch_folder ());
    ok (!io_make_parents (path, &fail) && !mkdir (path, 0700) && !load (&config, "p", &fail) && !config.file,
        "a folder in the place of the default file is passed over %s", fail.text);
    config_release (&config);
    rmdir (path);
    *strrchr (path, '/') = '\0';
    rmdir (path);
    setenv ("HF_HOME", "/nonexistent", 1);
}

static void
test_explain (void)
{
    struct config config, bare = { 0 };
    struct fail fail = { 0 };
    AUTO_STRBUF struct strbuf out = { 0 };
    ok (!load (&config, "--aws_access_key_id hunter2 p", &fail), "loads %s", fail.text);
    explain_text (&config, false, &out);
    ok (strstr (out.text, "aws_access_key_id: (not shown)  (flag; no effect)\n") && !strstr (out.text, "hunter2"),
        "secrets are not shown");
    config_release (&config);
    char flag[] = "--role", blank[] = "-a b", program[] = "p", *words[] = { flag, blank, program, NULL };
    ok (!config_load_launch (&config, 3, words, &fail) && !strcmp (config.settings.role, "-a b"),
        "a text with a blank is a value %s", fail.text);
    ok (mode_path (&config.settings, true) == PATH_ELASTIC, "several on GPUs");
    config.settings.use_cpu = true;
    ok (mode_path (&config.settings, true) == PATH_SIMPLE, "but not with a file's use_cpu");
    config_release (&config);
    const struct option *number = option_find ("num_processes"), *ip = option_find ("main_process_ip");
    ok (config_is_absent (&bare, number) && config_is_absent (&bare, ip), "settings alone: 0 and NULL are absent");
    bare.settings.num_processes = 10;
    ok (!config_is_absent (&bare, number), "10 is not");
}

static void
test_help_is_seen (void)
{
    static const struct {
        const char *line;
        enum option_command command;
        enum argv_item wanted;
    } cases[] = {
        { "--cpu --help", COMMAND_LAUNCH, ARGV_HELP },    { "-qh", COMMAND_LAUNCH, ARGV_HELP },
        { "p --help", COMMAND_LAUNCH, ARGV_END },       { "--config_file=--help p", COMMAND_LAUNCH, ARGV_END },
        { "-- --help", COMMAND_LAUNCH, ARGV_END },      { "--nonsense --help", COMMAND_LAUNCH, ARGV_END },
        { "default --help", COMMAND_CONFIG, ARGV_HELP },  { "--json", COMMAND_ENV, ARGV_END },
        { "--cpu --help-all", COMMAND_LAUNCH, ARGV_HELP_ALL }, { "--help_all", COMMAND_ENV, ARGV_HELP_ALL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char copy[64], *words[MOST_WORDS + 1];
        snprintf (copy, sizeof copy, "%s", cases[i].line);
        int count = split (copy, words);
        ok (argv_wants_help (cases[i].command, count, words) == cases[i].wanted, "help in '%s'", cases[i].line);
    }
}

/* A value that is not the default. */
static const char *
other_value (const struct option *row, char *space, size_t size)
{
    if (row->type == OPTION_FLAG)
        return "true";
    if (row->type == OPTION_TRUTH || row->type == OPTION_PYTHON_BOOL || row->type == OPTION_SWITCH)
        return row->dflt && (*row->dflt == 't' || *row->dflt == 'T') ? "no" : "yes";
    if (row->type == OPTION_NUMBER)
        return row->decimals ? "2.5e-7" : "17";
    if (row->type == OPTION_TRIPLE)
        return "true,no,1";
    if (row->choices)
        return row->choices[row->choices[1] ? 1 : 0];
    if (row->type != OPTION_INT)
        return "no: 'a' #b";
    snprintf (space, size, "%lld", (long long) (row->min + 3));
    return space;
}

static void
join (const struct strlist *list, struct strbuf *out)
{
    for (size_t i = 0; i < list->count; i++)
        strbuf_printf (out, "%s\n", list->items[i]);
}

static void
test_one_way_round (const struct option *row, bool as_json)
{
    struct config written, read;
    struct fail fail = { 0 };
    char space[32], path[128];
    snprintf (path, sizeof path, "%s/round.%s", scratch_folder (), as_json ? "json" : "yaml");
    AUTO_STRBUF struct strbuf text = { 0 };
    AUTO_STRBUF struct strbuf again = { 0 };
    AUTO_STRBUF struct strbuf left = { 0 };
    AUTO_STRBUF struct strbuf right = { 0 };
    bool good = !config_init (&written, &fail) && !config_init (&read, &fail)
                && !config_set (&written, row, other_value (row, space, sizeof space), (struct origin){ ORIGIN_FLAG },
                                &fail)
                && (row->group != GROUP_AWS
                    || !config_set (&written, option_find ("compute_environment"), "AMAZON_SAGEMAKER",
                                    (struct origin){ ORIGIN_FLAG }, &fail))
                && !config_write_text (&written, as_json, &text, &fail)
                && !io_write_file (path, text.text, text.length, 0600, &fail)
                && !config_read_file (&read, path, &fail) && !config_write_text (&read, as_json, &again, &fail);
    for (unsigned bit = PATH_SIMPLE; good && bit <= PATH_SAGEMAKER; bit <<= 1) {
        AUTO_STRLIST struct strlist a = { 0 };
        AUTO_STRLIST struct strlist b = { 0 };
        good = !envmap_emit (&written, bit, &a, &fail) && !envmap_emit (&read, bit, &b, &fail);
        join (&a, &left);
        join (&b, &right);
    }
    /* What is only default in the first is given in the second, so sections may grow; the values are what counts. */
    ok (good && !strcmp (left.text ? left.text : "", right.text ? right.text : ""), "%s: %s and back, environment %s",
        row->key, as_json ? "JSON" : "YAML", fail.text);
    ok (good && !strcmp (text.text, again.text), "%s: written again as it was", row->key);
    config_release (&written);
    config_release (&read);
    unlink (path);
}

static void
test_precedence (void)
{
    static const char path[] = "precedence.yaml";
    static const char text[] = "num_processes: 4\nmixed_precision: bf16\ndistributed_type: MULTI_GPU\n";
    struct fail fail = { 0 };
    ok (!io_write_file (path, text, sizeof text - 1, 0600, &fail), "a file");
    char line[SCRATCH_SIZE + 256];
    struct config config;
    snprintf (line, sizeof line, "--config_file %s --num_processes 6 p", path);
    setenv ("OMP_NUM_THREADS", "3", 1);
    ok (!load (&config, line, &fail), "loads %s", fail.text);
    ok (config.settings.num_processes == 6 && config_origin (&config, "num_processes").kind == ORIGIN_FLAG,
        "a flag counts before the file");
    struct origin origin = config_origin (&config, "mixed_precision");
    ok (!strcmp (config.settings.mixed_precision, "bf16") && origin.kind == ORIGIN_FILE && origin.line == 2,
        "the file before the default, with its line");
    ok (config.settings.num_cpu_threads_per_process == 3
            && config_origin (&config, "num_cpu_threads_per_process").kind == ORIGIN_ENVIRONMENT,
        "a variable counts where nothing else is said");
    ok (config.settings.multi_gpu && config_origin (&config, "multi_gpu").kind == ORIGIN_COMPUTED,
        "MULTI_GPU in the file is --multi_gpu");
    AUTO_STRBUF struct strbuf text_of_origin = { 0 };
    config_format_origin (&config, option_find ("mixed_precision"), &text_of_origin);
    ok (strstr (text_of_origin.text, "precedence.yaml:2"), "an origin in words: %s", text_of_origin.text);
    config_release (&config);
    setenv ("OMP_NUM_THREADS", "4,2", 1);
    ok (!load (&config, line, &fail) && !config.settings.num_cpu_threads_per_process,
        "a variable that only OpenMP understands is left to it");
    config_release (&config);
    unsetenv ("OMP_NUM_THREADS");
    unlink (path);
}

static void
test_default_file (void)
{
    static const char path[] = "accelerate/default_config.yaml";
    struct fail fail = { 0 };
    struct config config;
    setenv ("HF_HOME", scratch_folder (), 1);
    ok (!load (&config, "p", &fail) && !config.file, "no default file: %s", fail.text);
    config_release (&config);
    static const char text[] = "distributed_type: NO\ndebug: yes\n";
    ok (!io_make_parents (path, &fail) && !io_write_file (path, text, sizeof text - 1, 0600, &fail), "one is made");
    ok (!load (&config, "p", &fail) && config.settings.debug && config.settings.num_processes == 1
            && config_origin (&config, "num_processes").line == 1, "it is read, and NO means one process");
    config_release (&config);
    ok (!load (&config, "--cpu p", &fail) && !config.file && !config.settings.debug, "--cpu ignores it");
    config_release (&config);
    ok (!load (&config, "--cpu --config_file accelerate/default_config.yaml p", &fail) && config.file
            && config.settings.debug && config.settings.use_cpu,
        "but not one that is given");
    config_release (&config);
    ok (load (&config, "--config_file /nonexistent/x.yaml p", &fail) && fail.status == FAIL_GENERAL
            && strstr (fail.text, "/nonexistent/x.yaml: No such file"), "missing: %s", fail.text);
    config_release (&config);
    unlink (path);
    rmdir ("accelerate");
    unsetenv ("HF_HOME");
}

static void
test_environment (void)
{
    struct config config;
    struct fail fail = { 0 };
    AUTO_STRLIST struct strlist env = { 0 };
    AUTO_STRBUF struct strbuf text = { 0 };
    load (&config, "--cpu --num_processes 2 --num_cpu_threads_per_process 1 p", &fail);
    ok (!envmap_emit (&config, PATH_SIMPLE, &env, &fail), "the environment of the contract's example");
    join (&env, &text);
    is_text (text.text,
             "ACCELERATE_DYNAMO_BACKEND=NO\nACCELERATE_DYNAMO_MODE=default\nACCELERATE_DYNAMO_USE_DYNAMIC=False\n"
             "ACCELERATE_DYNAMO_USE_FULLGRAPH=False\nACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION=False\n"
             "ACCELERATE_MIXED_PRECISION=no\nACCELERATE_USE_CPU=True\nKMP_AFFINITY=granularity=fine,compact,1,0\n"
             "KMP_BLOCKTIME=1\nOMP_NUM_THREADS=1\n", "all of it, sorted");
    config_release (&config);
    strlist_release (&env);
    strbuf_truncate (&text, 0);
    load (&config, "--debug --gpu_ids 2,3 p", &fail);
    envmap_emit (&config, PATH_DEEPSPEED, &env, &fail);
    join (&env, &text);
    is_text (text.text, "ACCELERATE_DEBUG_MODE=true\nACCELERATE_MIXED_PRECISION=no\nCUDA_VISIBLE_DEVICES=2,3\n",
             "of another launch path");
    config_release (&config);
}

static void
test_gpu_ids (void)
{
    static const struct {
        const char *text, *why; /* NULL: good */
    } cases[] = {
        { "all", NULL },
        { "0", NULL },
        { "3,1", NULL },
        { "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", NULL },
        { "GPU-89,GPU-90", NULL },
        { "MIG-GPU-89/1/0", NULL },
        { "MIG-c6d4f1ef,0", NULL },
        { "0,0", "GPU 0 is listed twice" },
        { "0,2,00", "GPU 00 is listed twice" },
        { "GPU-89,1,GPU-89", "GPU GPU-89 is listed twice" },
        { "-1", "GPU numbers start at 0; to use no GPU" },
        { "0,-2", "'-2' is not a GPU number (0 to" },
        { "123456", "'123456' is not a GPU number (0 to" },
        { "x", "'x' is not a GPU number, a UUID" },
        { "0,b", "'b' is not a GPU number, a UUID" },
        { "1.5", "'1.5' is not a GPU number, a UUID" },
        { "0-3", "'0-3' is not a GPU number, a UUID" },
        { "cuda:0", "'cuda:0' is not a GPU number, a UUID" },
        { "+1", "'+1' is not a GPU number, a UUID" },
        { "gpu-89", "'gpu-89' is not a GPU number, a UUID" },
        { "GPU-89:0", "'GPU-89:0' is not a GPU number, a UUID" },
        { "al", "did you mean all?" },
        { "ALL", "write 'all' in lower case" },
        { "all,0", "cannot be combined with numbers" },
        { "", "single commas" },
        { ",", "single commas" },
        { "0,", "did you mean 0?" },
        { "0,,1", "did you mean 0,1?" },
        { "0, 1", "did you mean 0,1?" },
        { "0 1", "did you mean 0,1?" },
        { " 0", "did you mean 0?" },
        { "0;1", "'0;1' is not a GPU number, a UUID" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_STRBUF struct strbuf why = { 0 };
        bool good = gpu_ids_check (cases[i].text, &why);
        if (!ok (good == !cases[i].why && (good || strstr (why.text, cases[i].why)), "gpu_ids '%s'", cases[i].text))
            diag ("%s", why.text ? why.text : "good");
    }
}

static void
test_tee (void)
{
    static const struct {
        const char *spec;
        int ranks[3]; /* bits of local ranks 0, 1 and 9; -1: not valid */
        int greatest;
    } cases[] = {
        { "0", { 0, 0, 0 }, -1 },
        { "1", { 1, 1, 1 }, -1 },
        { "2", { 2, 2, 2 }, -1 },
        { "3", { 3, 3, 3 }, -1 },
        { "0:1", { 1, 0, 0 }, 0 },
        { "1:3,0:2", { 2, 3, 0 }, 1 },
        { "9:2,1:0", { 0, 0, 2 }, 9 },
        { "0:1,0:2", { 2, 0, 0 }, 0 },
        { "", { -1 }, -1 },
        { "4", { -1 }, -1 },
        { "33", { -1 }, -1 },
        { " 1", { -1 }, -1 },
        { "0:", { -1 }, -1 },
        { "0:4", { -1 }, -1 },
        { "0:1,", { -1 }, -1 },
        { ",0:1", { -1 }, -1 },
        { "0:1 1:1", { -1 }, -1 },
        { "0:11", { -1 }, -1 },
        { "10:1", { -1 }, -1 },
        { "a:1", { -1 }, -1 },
        { "0=1", { -1 }, -1 },
    };
    static const int ranks[3] = { 0, 1, 9 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool valid = cases[i].ranks[0] >= 0;
        bool good = tee_is_valid (cases[i].spec) == valid && tee_greatest_rank (cases[i].spec) == cases[i].greatest;
        for (int j = 0; j < 3; j++)
            good = good && tee_of_rank (cases[i].spec, ranks[j]) == (valid ? (unsigned) cases[i].ranks[j] : 0);
        ok (good, "--tee '%s'", cases[i].spec);
    }
}

int
main (void)
{
    scratch_enter (); /* command lines are split at spaces, which TMPDIR may have */
    setenv ("HF_HOME", "/nonexistent", 1);
    unsetenv ("OMP_NUM_THREADS");
    test_rows ();
    test_fields ();
    test_command_lines ();
    test_with_files ();
    test_paths ();
    test_explain ();
    test_help_is_seen ();
    for (size_t i = 0; i < option_count; i++)
        if (options[i].properties & PROPERTY_FILE)
            for (int as_json = 0; as_json < 2; as_json++)
                test_one_way_round (&options[i], as_json);
    test_precedence ();
    test_environment ();
    test_gpu_ids ();
    test_tee ();
    test_default_file ();
    return done_testing ();
}
