/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: what is read from them, what is wrong with them and where, and how texts are written. */
#include <config.h>

#include "config/file.h"
#include "config/fsdp2.h"
#include "config/text/tree.h"
#include "config/text/scalar.h"
#include "config/update.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/io.h"

#include <stdlib.h>
#include <sys/stat.h>

/* Read @p text as a file of that name. */
static int
read_text (struct config *config, const char *name, const char *text, size_t length, struct fail *fail)
{
    char path[SCRATCH_SIZE + 64];
    snprintf (path, sizeof path, "%s/%s", scratch_folder (), name);
    if (config_init (config, fail) || io_write_file (path, text, length, 0600, fail))
        return -1;
    int result = config_read_file (config, path, fail);
    unlink (path);
    return result;
}

static const struct good {
    const char *text, *key, *value;
} good[] = {
    { "mixed_precision: no\n", "mixed_precision", "no" },
    { "mixed_precision: 'no'\n", "mixed_precision", "no" },
    { "mixed_precision: No\n", "mixed_precision", "no" },
    { "mixed_precision: false\n", "mixed_precision", "no" },
    { "mixed_precision: off\n", "mixed_precision", "no" },
    { "mixed_precision: BF16\n", "mixed_precision", "bf16" },
    { "mixed_precision: null\n", "mixed_precision", "no" },
    { "mixed_precision: ~\n", "mixed_precision", "no" },
    { "mixed_precision:\n", "mixed_precision", "no" },
    { "fp16: true\n", "mixed_precision", "fp16" },
    { "fp16: true\nmixed_precision: bf16\n", "mixed_precision", "bf16" },
    { "mixed_precision: bf16\nfp16: true\n", "mixed_precision", "bf16" },
    { "fp16: false\n", "mixed_precision", "no" },
    { "distributed_type: NO\n", "distributed_type", "NO" },
    { "distributed_type: 'NO'\n", "distributed_type", "NO" },
    { "distributed_type: \"MULTI_CPU\"\n", "distributed_type", "MULTI_CPU" },
    { "debug: Yes\n", "debug", "true" },
    { "debug: !!bool \"on\"\n", "debug", "true" },
    { "num_processes: 12 # twelve\n", "num_processes", "12" },
    { "num_processes: '12'\n", "num_processes", "12" },
    { "gpu_ids: 0\n", "gpu_ids", "0" },
    { "main_training_function: ''\ndebug: true\n", "debug", "true" },
    { "num_processes: -1\n", "num_processes", "0" },
    { "fsdp_config: {fsdp_version: 1, fsdp_offload_params: true}\n"
      "fsdp_config: {fsdp_offload_params: true, fsdp_version: 1}\n", "fsdp_version", "1" },
    { "compute_environment: AMAZON_SAGEMAKER\nadditional_args: {a: {b: c}}\n", "num_machines", "1" },
    { "deepspeed_config:\n  gradient_clipping: !!float 2\n", "gradient_clipping", "2.0" },
    { "gpu_ids: 0,1\n", "gpu_ids", "0,1" },
    { "gpu_ids: 'yes'\n", "gpu_ids", "yes" },
    { "main_process_ip: &here 10.0.0.1\n", "main_process_ip", "10.0.0.1" },
    { "main_process_ip: |-\n  host\n", "main_process_ip", "host" },
    { "{\"debug\": true, \"gpu_ids\": \"1\"}", "gpu_ids", "1" },
    { "%YAML 1.1\n---\ndebug: true\n...\n", "debug", "true" },
    { "\xEF\xBB\xBF""debug: true\n", "debug", "true" },
    { "debug: true\r\nmachine_rank: 1\r\n", "machine_rank", "1" },
    { "debug: true\ndebug: true\n", "debug", "true" },
    { "dynamo_config:\n  backend: INDUCTOR\n", "dynamo_backend", "inductor" },
    { "dynamo_config:\n  dynamo_mode: max-autotune\ndebug: true\n", "debug", "true" },
    { "dynamo_config: {}\ndynamo_backend: EAGER\n", "dynamo_backend", "eager" },
    { "dynamo_config:\n", "dynamo_backend", "no" },
    { "dynamo_backend: null\n", "dynamo_backend", "no" },
    { "dynamo_backend:\ndynamo_config:\n  dynamo_backend: EAGER\n", "dynamo_backend", "eager" },
    { "dynamo_config:\n  mode: null\n", "dynamo_mode", "default" },
    { "fsdp_config: {}\ndeepspeed_config:\ntpu_env: []\ndebug: 1\n", "debug", "true" },
    { "commands: [a, 'b c']\ndebug: y\n", "commands", "a,b c" },
    { "tpu_env:\n- A=1\n- yes\n", "tpu_env", "A=1,True" },
    { "mixed_precision: fp8\nfp8_config:\n  backend: TE\n", "fp8_backend", "te" },
    { "fp8_config:\n  override_linear_precision: [false, true, no]\n", "fp8_override_linear_precision",
      "False,True,False" },
    { "fp8_config:\n  override_linear_precision: (false, true, false)\n", "fp8_override_linear_precision",
      "false,true,false" },
    { "fp8_config:\n  override_linear_precision: false\n", "fp8_override_linear_precision", "False,False,False" },
    { "fp8_config:\n  override_linear_precision: true\n", "fp8_override_linear_precision", "True,True,True" },
    { "fp8_config:\n  amax_history_length: 3\n", "fp8_amax_history_len", "3" },
    { "fsdp_config:\n  fsdp_backward_prefetch_policy: BACKWARD_POST\n", "fsdp_backward_prefetch", "BACKWARD_POST" },
    { "fsdp_config:\n  backward_prefetch_policy: NO_PREFETCH\n", "fsdp_backward_prefetch", "NO_PREFETCH" },
    { "deepspeed_config:\n  seq_parallel_communication_data_type: bf16\n  train_batch_size: auto\n"
      "  fp16: {enabled: true}\n  zero_stage: 3\n", "zero_stage", "3" },
    { "deepspeed_config: {allgather_size: 1, comet: 1, compile: 1, data_parallel_size: 1, dataloader_drop_last: 1, "
      "datastates_ckpt: 1, disable_allgather: 1, eigenvalue: 1, expert_parallel: 1, fp32_allreduce: 1, "
      "gradient_allreduce_op: 1, graph_harvesting: 1, hybrid_engine: 1, log_level: 1, "
      "managed_gradient_accumulation: 1, memory_breakdown: 1, nebula: 1, pipeline: 1, "
      "progressive_layer_drop: 1, quantize_training: 1, sequence_parallel_size: 1, tensor_parallel: 1, "
      "timers: 1, torch_autocast: 1, use_data_before_expert_parallelism: 1, vocabulary_size: 1, "
      "weight_quantization: 1, zero_stage: 1}\n", "zero_stage", "1" },
    { "fsdp_config: {backward_prefetch_policy: NO_PREFETCH, fsdp_backward_prefetch: NO_PREFETCH}\n",
      "fsdp_backward_prefetch", "NO_PREFETCH" },
    { "fsdp_config:\n  fsdp_version: 2\n", "fsdp_version", "2" },
    { "fsdp_config:\n  offload_params: yes\n", "fsdp_offload_params", "True" },
    { "deepspeed_config:\n  gradient_clipping: 1.50\n", "gradient_clipping", "1.5" },
    { "deepspeed_config:\n  gradient_accumulation_steps: auto\n", "gradient_accumulation_steps", "auto" },
    { "main_process_port: 0x10\n", "main_process_port", "16" },
    { "mpirun_config:\n  mpirun_ccl: '1'\ndebug: true\n", "debug", "true" },
    { "{}\n", "debug", "false" },
    /* what the original's questions write, and what its release 0.12 wrote */
    { "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: 'NO'\ndowncast_bf16: 'no'\n"
      "enable_cpu_affinity: false\ngpu_ids: all\nmachine_rank: 0\nmain_training_function: main\nmixed_precision: 'no'\n"
      "num_machines: 1\nnum_processes: 1\nrdzv_backend: static\nsame_network: true\ntpu_env: []\n"
      "tpu_use_cluster: false\ntpu_use_sudo: false\nuse_cpu: false\n", "num_processes", "1" },
    { "compute_environment: LOCAL_MACHINE\ndeepspeed_config: {}\ndistributed_type: 'NO'\ndowncast_bf16: 'no'\n"
      "fsdp_config: {}\nmachine_rank: 0\nmain_process_ip: null\nmain_process_port: null\n"
      "main_training_function: main\nmixed_precision: 'no'\nnum_machines: 1\nnum_processes: 1\nuse_cpu: false\n",
      "num_processes", "1" },
};

static void
test_good (void)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct config config;
        struct fail fail = { 0 };
        AUTO_STRBUF struct strbuf value = { 0 };
        int result = read_text (&config, "f.yaml", good[i].text, strlen (good[i].text), &fail);
        const struct option *row = option_find (good[i].key);
        option_types[row->type].format (option_field_const (row, &config.settings), &value);
        ok (!result && value.text && !strcmp (value.text, good[i].value), "%s is '%s' (case %zu) %s", good[i].key,
            value.text ? value.text : "", i, fail.text);
        config_release (&config);
    }
}

static const struct bad {
    const char *name, *text, *error;
} bad[] = {
    { "a.yaml", "debug: true\nnum_procesess: 2\n",
      "a.yaml:2: unknown key 'num_procesess' (did you mean 'num_processes'?)" },
    { "a.yaml", "zebra: 1\n", "a.yaml:1: unknown key 'zebra'" },
    { "a.yaml", "dynamo_config:\n  bakend: eager\n", "a.yaml:2: unknown key 'bakend' in dynamo_config" },
    { "a.yaml", "fsdp_config:\n  zero_stage: 2\n", "a.yaml:2: unknown key 'zero_stage' in fsdp_config" },
    { "a.yaml", "dynamo_config: eager\n", "a.yaml:1: dynamo_config: expected a mapping" },
    { "a.yaml", "dynamo_config: [eager]\n", "a.yaml:1: dynamo_config: expected a mapping" },
    { "a.yaml", "debug: true\n\nnum_processes: two\n", "a.yaml:3: num_processes: 'two' is not an integer" },
    { "a.yaml", "num_processes: 0\n", "a.yaml:1: num_processes: 0 is out of range" },
    { "a.yaml", "num_processes: 2.0\n", "'2.0' is not an integer" },
    { "a.yaml", "num_processes: true\n", "a.yaml:1: num_processes: YAML reads a bare yes, no, on" },
    { "a.yaml", "num_processes: [1]\n", "a.yaml:1: num_processes: expected a single value, got a list" },
    { "a.yaml", "gpu_ids: {a: b}\n", "a.yaml:1: gpu_ids: expected a single value, got a mapping" },
    { "a.yaml", "debug: maybe\n", "a.yaml:1: debug: 'maybe' is neither true nor false" },
    { "a.yaml", "main_process_ip: yes\n", "a.yaml:1: main_process_ip: YAML reads a bare yes, no, on" },
    { "a.yaml", "mixed_precision: bf61\n", "a.yaml:1: mixed_precision: 'bf61' is not one of no, fp16, bf16" },
    { "a.yaml", "fsdp_config:\n  fsdp_versoin: 2\n",
      "a.yaml:2: unknown key 'fsdp_versoin' in fsdp_config (did you mean 'fsdp_version'?)" },
    { "a.yaml", "fsdp_config:\n  fsdp_version: 3\n", "a.yaml:2: fsdp_version: '3' is not one of 1, 2" },
    { "a.yaml", "fp8_config:\n  margin: x\n", "a.yaml:2: margin: 'x' is not an integer" },
    { "a.yaml", "fp8_config:\n  override_linear_precision: [true]\n", "is not three comma-separated booleans" },
    { "a.yaml", "fp8_config:\n  override_linear_precision: [true, no, true, no]\n",
      "a.yaml:2: override_linear_precision: 'True,False,True,False' is not three comma-separated booleans" },
    { "a.yaml", "fp8_config:\n  override_linear_precision: (True, False, True, really)\n", "is not three" },
    { "a.yaml", "fp8_config:\n  pad_inner_dim: perhaps\n", "a.yaml:2: pad_inner_dim: 'perhaps' is neither" },
    { "a.yaml", "deepspeed_config:\n  gradient_clipping: high\n", "'high' is not 'auto' or a number" },
    { "a.yaml", "commands: [a, [b, {c: d}]]\n", "a.yaml:1: commands: expected a list of single values" },
    { "a.yaml", "tpu_env: {a: b}\n", "a.yaml:1: tpu_env: expected a list, got a mapping" },
    { "a.yaml", "ipex_config: {a: b}\n", "a.yaml:1: unknown key 'ipex_config'" },
    { "a.yaml", "debug: true\nnum_machines: 1\ndebug: false\n", "a.yaml:3: duplicate key 'debug' (first on line 1)" },
    { "a.yaml", "fsdp_config: {fsdp_version: 1}\nfsdp_config: {fsdp_version: '1'}\n", "a.yaml:2: duplicate key" },
    { "a.yaml", "fsdp_config:\n  fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_backward_prefetch_policy: NO_PREFETCH\n",
      "a.yaml:3: 'fsdp_backward_prefetch_policy' is the same key as 'fsdp_backward_prefetch' on line 2" },
    { "a.yaml", "fsdp_config:\n  backward_prefetch_policy: BACKWARD_PRE\n  backward_prefetch: NO_PREFETCH\n",
      "a.yaml:3: 'backward_prefetch' is the same key as 'backward_prefetch_policy' on line 2" },
    { "a.json", "{\"fp8_config\": {\n\"amax_history_length\": 3,\n\"fp8_amax_history_len\": 4}}",
      "a.json:3: 'fp8_amax_history_len' is the same key as 'amax_history_length' on line 2" },
    { "a.yaml", "", "a.yaml: the file is empty" },
    { "a.yaml", "# only a comment\n", "a.yaml: the file is empty" },
    { "a.yaml", "- a\n", "a.yaml:1: expected lines of the form 'key: value'" },
    { "a.yaml", "just words\n", "a.yaml:1: expected lines of the form" },
    { "a.yaml", "debug: true\n  num_machines: 1\n", "a.yaml:2: not YAML: mapping values are not allowed" },
    { "a.yaml", "debug: 'true\n", "not YAML: found unexpected end of stream" },
    { "a.yaml", "debug: true\n\tx: 1\n", "a.yaml:2: not YAML" },
    { "a.yaml", "a: &x [1]\nb: *x\n", "a.yaml:2: aliases" },
    { "a.yaml", "<<: *x\n", "a.yaml:1: merge keys" },
    { "a.yaml", "fp16: perhaps\n", "a.yaml:1: fp16: neither true nor false" },
    { "a.yaml", "fp16: [true]\n", "a.yaml:1: fp16: neither true nor false" },
    { "a.yaml", "region: x\n", "a.yaml:1: 'region' is a key for compute_environment: AMAZON_SAGEMAKER only" },
    { "a.yaml", "compute_environment: AMAZON_SAGEMAKER\nmachine_rank: 0\n",
      "a.yaml:2: 'machine_rank' is not a key for SageMaker" },
    { "a.yaml", "num_processes: !!int two\n", "a.yaml:1: the value does not match its tag" },
    { "a.yaml", "debug: !!python/object:os.system x\n", "a.yaml:1: tags" },
    { "a.yaml", "? [a, b]\n: c\n", "a.yaml:1: a key must be a single word" },
    { "a.yaml", "debug: true\n---\ndebug: false\n", "a.yaml:2: a second YAML document" },
    { "a.yaml", "gpu_ids: \"a\\0b\"\n", "a.yaml:1: the value contains a zero byte" },
    { "a.yaml", "gpu_ids: \xff\n", "not YAML" },
    { "a.yaml", "gpu_ids: ''\n", "a.yaml:1: gpu_ids: the value is empty" },
    { "a.yaml", "commands: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[x]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n",
      "a.yaml:1: nested too deep" },
    { "a.json", "{\"debug\": true,\n \"num_processes\": \"x\"}", "a.json:2: num_processes: 'x' is not an integer" },
    { "a.json", "{\"debug\": true,\n}", "a.json:2: not JSON" },
    { "a.json", "[1]", "a.json:1: expected an object" },
    { "a.json", "{\"debug\": true,\n \"debug\": false}", "a.json:2: duplicate key 'debug' (first on line 1)" },
    { "a.json", "{\"fsdp_config\":\n {\"x\": 1}}", "a.json:2: unknown key 'x' in fsdp_config" },
    { "a.json", "{\"dynamo_config\":\n {\"mode\": 1}}", "a.json:2: mode: '1' is not one of default" },
    { "a.json", "{\"num_processes\": 1.5}", "a.json:1: num_processes: '1.5' is not an integer" },
    { "a.json", "{\"gpu_ids\": [0, 1]}", "a.json:1: gpu_ids: expected a single value, got a list" },
    { "a.json", "", "a.json:1: not JSON" },
    { "a.json", "{\"debug\": true\n", "a.json:1: not JSON: the file ends within" },
    { "a.json", "{\"debug\": true}\n{}", "a.json:2: not JSON: trailing text after" },
    { "a.json", "{\"num_processes\"\n: \"x\"}", "a.json:1: num_processes: 'x'" },
    { "a.json", "{\"num_processes\": 02}", "a.json:1: not JSON: expected a comma or }" },
    { "a.json", "{\"gpu_ids\": \"a\tb\"}", "a.json:1: not JSON: control character" },
    { "a.json", "{\"gpu_ids\": \"\\u0000\"}", "a.json:1: not JSON: the value contains a zero byte" },
    { "a.json", "{\"gpu_ids\": \"\\ud800\\u0041\"}", "a.json:1: not JSON: unpaired surrogate" },
    { "a.json", "{\"gpu_ids\": \"\\ud800\\ue000\"}", "a.json:1: not JSON: unpaired surrogate" },
    { "a.json", "{\"gpu_ids\": \"\\udc00\\udc00\"}", "a.json:1: not JSON: unpaired surrogate" },
    { "a.json", "{\"gpu_ids\": \"\\u00", "a.json:1: not JSON: unknown escape" },
    { "a.json", "{\"debug\":\ntrue,\n\"\xff\": 1\n}", "a.json:3: not JSON: not valid UTF-8" },
    { "a.json", "{\"commands\": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
      "a.json:1: nested too deep" },
};

static void
test_bad (void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct config config;
        struct fail fail = { 0 };
        int result = read_text (&config, bad[i].name, bad[i].text, strlen (bad[i].text), &fail);
        ok (result && fail.status == FAIL_GENERAL && strstr (fail.text, bad[i].error), "%s", fail.text);
        if (!strstr (fail.text, bad[i].error))
            diag ("wanted: %s", bad[i].error);
        config_release (&config);
    }
}

static void
test_json (void)
{
    static const char text[] = "{\"compute_environment\": \"LOCAL_MACHINE\", \"debug\": false, \"num_processes\": 3,\n"
                               " \"mixed_precision\": \"bf16\", \"gpu_ids\": null, \"downcast_bf16\": false,\n"
                               " \"dynamo_config\": {\"dynamo_backend\": \"EAGER\"}, \"fsdp_config\": {}}\n";
    struct config config;
    struct fail fail = { 0 };
    ok (!read_text (&config, "c.json", text, sizeof text - 1, &fail), "a JSON file %s", fail.text);
    ok (config.settings.num_processes == 3 && !strcmp (config.settings.dynamo_backend, "eager")
            && config_origin (&config, "mixed_precision").line == 2, "its values, and their lines");
    config_release (&config);
    ok (!read_text (&config, "c.yaml", text, sizeof text - 1, &fail) && config.settings.num_processes == 3,
        "the same text as YAML %s", fail.text);
    config_release (&config);
}

/* What becomes of values, as Python's json would have them. */
static void
test_json_values (void)
{
    static const struct {
        const char *json, *text;
    } cases[] = {
        { "-0", "0" },         { "-0.0", "-0.0" },          { "0", "0" },             { "1e5", "100000.0" },
        { "1E-7", "1e-07" },   { "NaN", "nan" },            { "-Infinity", "-inf" },  { "true", "True" },
        { "\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80" },   { "\"\\u07ff\"", "\xdf\xbf" },
        { "\"\\uFFFF\"", "\xef\xbf\xbf" },             { "\"\\t\\/\"", "\t/" },
        { "123456789012345678901234567890", "123456789012345678901234567890" },
    };
    struct fail fail = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct filedoc doc = { .path = "v.json" };
        AUTO_STRBUF struct strbuf text = { 0 };
        strbuf_printf (&text, "\xEF\xBB\xBF{\"key\": %s}", cases[i].json);
        int result = json_read (&doc, text.text, text.length, &fail);
        is_text (result ? fail.text : doc.root.items[0].text, cases[i].text, cases[i].json);
        filedoc_release (&doc);
    }
    struct filedoc doc = { .path = "v.json" };
    AUTO_STRBUF struct strbuf wide = { 0 };
    strbuf_add (&wide, "{\"key\": [[]");
    for (int i = 0; i < 100; i++)
        strbuf_add (&wide, ", [[], {}]");
    strbuf_add (&wide, "]}");
    ok (!json_read (&doc, wide.text, wide.length, &fail) && doc.root.items[0].count == 101,
        "a hundred lists beside each other are not deep %s", fail.text);
    filedoc_release (&doc);
}

static void
test_scalars (void)
{
    static const struct {
        const char *text;
        enum scalar_kind kind;
        const char *python;
    } cases[] = {
        { "1:30", SCALAR_INT, "90" },          { "1:60", SCALAR_TEXT, "1:60" },      { "1:59:59", SCALAR_INT, "7199" },
        { "1:30.5", SCALAR_FLOAT, "90.5" },    { "1:60.5", SCALAR_TEXT, "1:60.5" },  { "0:30", SCALAR_TEXT, "0:30" },
        { "0:30.5", SCALAR_FLOAT, "30.5" },    { "1:005", SCALAR_TEXT, "1:005" },    { "1:1e1", SCALAR_TEXT, "1:1e1" },
        { "1.5:30", SCALAR_TEXT, "1.5:30" },   { "1:", SCALAR_TEXT, "1:" },          { "1:2:", SCALAR_TEXT, "1:2:" },
        { "1:30.", SCALAR_FLOAT, "90.0" },     { "-1:30", SCALAR_INT, "-90" },
        { "1e1:30.5", SCALAR_TEXT, "1e1:30.5" },
        { "-0", SCALAR_INT, "0" },             { "-7", SCALAR_INT, "-7" },           { "1.0e3", SCALAR_TEXT, "1.0e3" },
        { "1.0e33", SCALAR_TEXT, "1.0e33" },   { "1.0e+33", SCALAR_FLOAT, "1e+33" },
        { "0.0001", SCALAR_FLOAT, "0.0001" },
        { "0.00001", SCALAR_FLOAT, "1e-05" },  { "2024-01-02", SCALAR_DATE, "2024-01-02" },
        { "2024-1-02", SCALAR_TEXT, "2024-1-02" }, { "9999999999999998.0", SCALAR_FLOAT, "9999999999999998.0" },
        { "10000000000000000.0", SCALAR_FLOAT, "1e+16" },
        { "0.30000000000000004", SCALAR_FLOAT, "0.30000000000000004" },
        { "18446744073709551615", SCALAR_INT, "18446744073709551615" },
        { "18446744073709551616", SCALAR_INT, "18446744073709551616" },
        { "0x1ffffffffffffffff", SCALAR_TEXT, "0x1ffffffffffffffff" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_STRBUF struct strbuf python = { 0 };
        enum scalar_kind kind = scalar_read (cases[i].text, &python);
        if (!ok (kind == cases[i].kind && !strcmp (python.text, cases[i].python), "the word %s", cases[i].text))
            diag ("kind %d, %s", kind, python.text);
    }
}

#define AWS "compute_environment: AMAZON_SAGEMAKER\nec2_instance_type: a\niam_role_name: b\n"

/* Files brought up to date: lines that must be there, and texts that must not. */
static void
test_update (void)
{
    static const struct {
        const char *text, *has, *lacks;
    } cases[] = {
        { "fp16: true\n", "mixed_precision: fp16\n", "\nfp16" },
        { "fp16: false\n", "debug: false\n", "mixed_precision" },
        { "fp16: true\nmixed_precision: bf16\n", "mixed_precision: bf16\n", "fp16:" },
        { "dynamo_backend: EAGER\n", "dynamo_config:\n  dynamo_backend: EAGER\n", "\ndynamo_backend" },
        { "dynamo_backend: EAGER\ndynamo_config:\n  dynamo_backend: INDUCTOR\n", "  dynamo_backend: INDUCTOR\n",
          "EAGER" },
        { "dynamo_backend: EAGER\ndynamo_config:\n  backend: INDUCTOR\n", " backend: INDUCTOR\n", "EAGER" },
        { "dynamo_backend: 'NO'\n", "debug: false\n", "dynamo" },
        { "downcast_bf16: 'no'\n", "downcast_bf16: 'no'\n", "downcast_bf16: false" },
        { "debug: 'yes'\n", "debug: true\n", "yes" },
        { "num_processes: '2'\n", "num_processes: 2\n", "'2'" },
        { "fp8_config: {amax_history_length: 3}\n", "  fp8_amax_history_len: 3\n", "length" },
        { "fsdp_config: {fsdp_backward_prefetch_policy: BACKWARD_POST}\n", "  fsdp_backward_prefetch: BACKWARD_POST\n",
          "policy" },
        { "fp8_config: {amax_history_length: 3, fp8_amax_history_len: 3}\n", "  fp8_amax_history_len: 3\n", "length" },
        { "fp8_config: {optimization_level: O1, optimization_level: O1, opt_level: O1, margin: '7'}\n",
          "  margin: 7\n  opt_level: O1\n", "optimization" },
        { "fp8_config: {amax_history_length: 3, margin: '7', amax_history_len: 3}\n", "  amax_history_len: 3\n",
          "fp8_amax" },
        { "fsdp_config: {backward_prefetch_policy: NO_PREFETCH, fsdp_backward_prefetch_policy: NO_PREFETCH}\n",
          "  fsdp_backward_prefetch: NO_PREFETCH\n", "policy" },
        { "main_process_ip: null\nmain_process_port: null\nrdzv_backend: null\n", "debug: false\n", "null" },
        { AWS "additional_args: {a: {}, c: {d: {}}}\n", "  a: null\n", "{}" },
        { "compute_environment: AMAZON_SAGEMAKER\nec2_instance_type: a\n", "SageMaker: iam_role_name", NULL },
        { "compute_environment: AMAZON_SAGEMAKER\niam_role_name: a\n", "SageMaker: ec2_instance_type", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config;
        struct fail fail = { 0 };
        struct filedoc doc = { .path = "u.yaml" };
        AUTO_STRBUF struct strbuf out = { 0 };
        if (config_init (&config, &fail) || yaml_read (&doc, cases[i].text, strlen (cases[i].text), &fail)
            || filedoc_apply (&config, &doc, &fail) || filedoc_update (&doc, &fail)
            || node_write_yaml (&doc.root, &out))
            strbuf_add (&out, fail.text);
        if (!ok (strstr (out.text, cases[i].has) && !(cases[i].lacks && strstr (out.text, cases[i].lacks)),
                 "file %zu is up to date with '%s'", i, cases[i].has))
            diag ("%s", out.text);
        filedoc_release (&doc);
        config_release (&config);
    }
}

static void
test_fsdp2 (void)
{
    static const char long_words[] = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
                                     "fifteen sixteen seventeen eighteen nineteen twenty";
    AUTO_STRBUF struct strbuf text = { 0 }, out = { 0 };
    AUTO_STRLIST struct strlist notes = { 0 };
    struct fail fail = { 0 };
    char path[SCRATCH_SIZE + 64];
    snprintf (path, sizeof path, "%s/one.yaml", scratch_folder ());
    strbuf_printf (&text, "fsdp_config:\n  fsdp_reshard_after_forward: 1\n  fsdp_version: 1\n  fsdp_version: 1\n"
                   "  fsdp_transformer_layer_cls_to_wrap: %s\n", long_words);
    ok (!io_write_file (path, text.text, text.length, 0600, &fail) && !fsdp2_convert (path, false, &out, &notes, &fail),
        "converted %s", fail.text);
    strbuf_truncate (&text, 0);
    strbuf_printf (&text, "fsdp_config:\n  fsdp_reshard_after_forward: 1\n  fsdp_version: 2\n"
                   "  fsdp_transformer_layer_cls_to_wrap: %s\n", long_words);
    is_text (out.text, text.text, "a number is not a strategy there, a key comes once, a long text is one line");
    unlink (path);
}

static void
test_quoting (void)
{
    static const struct {
        const char *text, *yaml;
    } cases[] = {
        { "all", "all" },           { "no", "'no'" },          { "NO", "'NO'" },        { "10.0.0.1", "10.0.0.1" },
        { "0", "'0'" },             { "0,1", "0,1" },          { "1e3", "1e3" },        { "1.5", "'1.5'" },
        { "12:30", "'12:30'" },     { "a: b", "'a: b'" },      { "a:b", "a:b" },        { "it's", "it's" },
        { "'a", "'''a'" },          { "a #b", "'a #b'" },      { "#a", "'#a'" },        { "", "''" },
        { " a", "' a'" },           { "a ", "'a '" },          { "null", "'null'" },    { "~", "'~'" },
        { "a\nb", "\"a\\nb\"" },  { "2024-01-02", "'2024-01-02'" }, { "*x", "'*x'" }, { "0x1F", "'0x1F'" },
        { "fe80::1", "fe80::1" },   { "-", "'-'" },            { "-x", "-x" },          { "a:", "'a:'" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        AUTO_STRBUF struct strbuf out = { 0 };
        struct node map = { .kind = NODE_MAP };
        AUTO_STRBUF struct strbuf file = { 0 };
        strbuf_printf (&file, "main_process_ip: %s\n", cases[i].yaml);
        ok (!node_set (node_add (&map, "main_process_ip"), NODE_TEXT, cases[i].text) && !node_write_lines (&map, &out),
            "written");
        node_release (&map);
        is_text (out.text, file.text, cases[i].yaml);
        struct config config;
        struct fail fail = { 0 };
        int result = read_text (&config, "q.yaml", file.text, file.length, &fail);
        if (*cases[i].text)
            ok (!result && config.settings.main_process_ip && !strcmp (config.settings.main_process_ip, cases[i].text),
                "  and read back %s", fail.text);
        config_release (&config);
    }
}

/* Small mutations of good files: whatever comes, an answer or a message, and no harm (seen under sanitizers). */
static void
test_mutations (void)
{
    uint32_t state = 12345;
    int answers = 0, messages = 0;
    for (int round = 0; round < 4000; round++) {
        char text[1024];
        size_t length = strlen (good[round % (sizeof good / sizeof *good)].text);
        memcpy (text, good[round % (sizeof good / sizeof *good)].text, length + 1);
        for (int change = 0; change < 1 + round % 4; change++) {
            static const char marks[] = ":-[]{}&*!|>'\"#%@,\n\t \\?x\x80";
            state = state * 1664525u + 1013904223u;
            text[(state >> 8) % length] = marks[(state >> 24) % (sizeof marks - 1)];
        }
        struct config config;
        struct fail fail = { 0 };
        struct filedoc doc = { .path = "m" };
        int result = round % 2 ? yaml_read (&doc, text, length, &fail) : json_read (&doc, text, length, &fail);
        filedoc_release (&doc);
        if (round % 16 == 1)
            result = read_text (&config, "m.yaml", text, length, &fail), config_release (&config);
        answers += !result;
        messages += result && fail.text[0] && fail.status == FAIL_GENERAL;
    }
    ok (answers + messages == 4000, "4000 mutated files: %d read, %d refused with a message", answers, messages);
}

static void
test_many_keys (void)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    for (int i = 0; i < 2000; i++)
        strbuf_add (&text, "debug: true\n");
    struct config config;
    struct fail fail = { 0 };
    ok (read_text (&config, "many.yaml", text.text, text.length, &fail) && strstr (fail.text, "more than 1000 keys"),
        "%s", fail.text);
    config_release (&config);
    for (int i = 0; i < 100000; i++)
        strbuf_add (&text, "# padding\n\n");
    ok (read_text (&config, "large.yaml", text.text, text.length, &fail) && strstr (fail.text, "larger than"), "%s",
        fail.text);
    config_release (&config);
}

int
main (void)
{
    test_good ();
    test_bad ();
    test_json ();
    test_json_values ();
    test_scalars ();
    test_update ();
    test_fsdp2 ();
    test_quoting ();
    test_mutations ();
    test_many_keys ();
    return done_testing ();
}
