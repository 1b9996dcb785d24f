#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Golden data about the original's config files and about the scalars of YAML 1.1 as PyYAML reads and writes them.
#
# NOT run by `make check`.  To make config.json and yaml_scalars.tsv again (versions: see make_launch_goldens.py):
#     python3 -m venv V && V/bin/pip install accelerate==1.15.0 torch==2.15.0
#     PYTHONHASHSEED=0 V/bin/python tests/golden/command/make_config_goldens.py
# With the path of our command it checks instead that the original loads what ours writes, and prints what it does not:
#     V/bin/python tests/golden/command/make_config_goldens.py build/accelerate
# README.md explains the output.

import json
import os
import shutil
import subprocess
import sys
from enum import Enum
from pathlib import Path

import yaml
from config_cases import CASES

HERE = Path(__file__).resolve().parent
CASE_DIR = "/tmp/golden-config"

NO = "distributed_type: 'NO'\n"
AWS = "compute_environment: AMAZON_SAGEMAKER\nec2_instance_type: ml.p3.2xlarge\niam_role_name: role\n"
QUESTIONNAIRE = """compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
enable_cpu_affinity: false
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_cpu_ram_efficient_loading: true
  fsdp_offload_params: false
  fsdp_reshard_after_forward: true
  fsdp_state_dict_type: FULL_STATE_DICT
  fsdp_transformer_layer_cls_to_wrap: BertLayer
  fsdp_version: 2
machine_rank: 0
main_training_function: main
mixed_precision: bf16
num_machines: 1
num_processes: 2
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: false
"""

# name of the file decides YAML or JSON
FILES = [
    ("least", "c.yaml", NO),
    ("least.json", "c.json", '{"distributed_type": "NO"}'),
    ("json.in.yaml", "c.yaml", '{"distributed_type": "NO", "num_processes": 2, "commands": ["a", "b"]}'),
    ("yaml.in.json", "c.json", NO),
    ("questionnaire.fsdp", "c.yaml", QUESTIONNAIRE),
    ("no.unquoted", "c.yaml", "distributed_type: NO\n"),
    ("no.type", "c.yaml", "num_processes: 1\n"),
    ("empty", "c.yaml", ""),
    ("comment", "c.yaml", "# x\n"),
    ("empty.json", "c.json", ""),
    ("list", "c.yaml", "- 1\n"),
    ("text", "c.yaml", "text\n"),
    ("list.json", "c.json", "[1]"),
    ("trailing.comma.json", "c.json", '{"distributed_type": "NO",}'),
    ("nan.json", "c.json", '{"distributed_type": "NO", "main_process_port": NaN}'),
    ("duplicate.json", "c.json", '{"distributed_type": "FSDP", "distributed_type": "NO"}'),
    ("unicode.json", "c.json",
     '{"distributed_type": "NO", "tpu_name": "gr\\u00fcn \\ud83d\\ude00 \\"q\\" \\\\ \\n\\t"}'),
    ("bom", "c.yaml", "\ufeff" + NO),
    ("crlf", "c.yaml", NO.replace("\n", "\r\n") + "debug: true\r\n"),
    ("documents", "c.yaml", NO + "---\n" + NO),
    ("tab", "c.yaml", NO + "fsdp_config:\n\tfsdp_version: 2\n"),
    ("unknown.one", "c.yaml", NO + "zeta: 1\n"),
    ("unknown.two", "c.yaml", NO + "zeta: 1\nalpha: 2\n"),
    ("unknown.mixed.types", "c.yaml", NO + "1: 1\na: 2\n"),
    ("unknown.integer", "c.yaml", NO + "1: 1\n"),
    ("unknown.json", "c.json", '{"distributed_type": "NO", "zeta": 1}'),
    ("old.fp16.true", "c.yaml", NO + "fp16: true\n"),
    ("old.fp16.false", "c.yaml", NO + "fp16: false\n"),
    ("old.fp16.text", "c.yaml", NO + "fp16: 'no'\n"),
    ("old.fp16.and.mixed", "c.yaml", NO + "fp16: true\nmixed_precision: bf16\n"),
    ("old.fp16.json", "c.json", '{"distributed_type": "MULTI_GPU", "num_processes": 2, "fp16": true}'),
    ("old.dynamo", "c.yaml", NO + "dynamo_backend: INDUCTOR\n"),
    ("old.dynamo.no", "c.yaml", NO + "dynamo_backend: 'NO'\n"),
    ("old.dynamo.false", "c.yaml", NO + "dynamo_backend: NO\n"),
    ("old.dynamo.and.section", "c.yaml", NO + "dynamo_backend: EAGER\ndynamo_config: {dynamo_mode: default}\n"),
    ("old.ipex", "c.yaml", NO + "ipex_config: {ipex: true}\n"),
    ("old.tpu_cluster", "c.yaml", NO + "tpu_cluster: false\n"),
    ("old.type.tpu", "c.yaml", "distributed_type: TPU\n"),
    ("type.xla", "c.yaml", "distributed_type: XLA\nnum_processes: 8\ntpu_name: t\ntpu_vm: [a, b]\ntpu_env: ['A=1']\n"),
    ("type.lower", "c.yaml", "distributed_type: no\n"),
    ("type.quoted.lower", "c.yaml", "distributed_type: 'no'\n"),
    ("type.null", "c.yaml", "distributed_type:\n"),
    ("type.multi.noprocs", "c.yaml", "distributed_type: MULTI_GPU\n"),
    ("environment.null", "c.yaml", NO + "compute_environment:\n"),
    ("environment.wrong", "c.yaml", NO + "compute_environment: MOON\n"),
    ("aws.no", "c.yaml", AWS + NO),
    ("aws.false", "c.yaml", AWS + "distributed_type: NO\n"),
    ("aws.data", "c.yaml", AWS + "distributed_type: DATA_PARALLEL\nmixed_precision: fp16\n"),
    ("aws.full", "c.yaml",
     AWS + "distributed_type: MODEL_PARALLEL\nprofile: default\nregion: eu-west-1\nnum_machines: 2\n"
     "image_uri: i\nbase_job_name: b\nadditional_args: {a: {b: 1}}\ndynamo_config: {dynamo_backend: INDUCTOR}\n"),
    ("aws.missing", "c.yaml", "compute_environment: AMAZON_SAGEMAKER\ndistributed_type: DATA_PARALLEL\n"),
    ("aws.cluster.type", "c.yaml", AWS + "distributed_type: MULTI_GPU\n"),
    ("aws.unknown", "c.yaml", AWS + "distributed_type: DATA_PARALLEL\ngpu_ids: all\nmachine_rank: 0\n"),
    ("sections.empty", "c.yaml", NO + "fsdp_config: {}\ndeepspeed_config: {}\nmegatron_lm_config: {}\n"
     "mpirun_config: {}\nfp8_config: {}\nparallelism_config: {}\ndynamo_config: {}\n"),
    ("sections.null", "c.yaml", NO + "fsdp_config:\ndeepspeed_config:\ndynamo_config:\nfp8_config:\n"),
    ("sections.text", "c.yaml", NO + "fsdp_config: text\ndynamo_config: []\n"),
    ("sections.inner.null", "c.yaml", NO + "fsdp_config: {fsdp_version: null, fsdp_offload_params: true}\n"),
    ("sections.inner.empty", "c.yaml", NO + "deepspeed_config: {a: {}, b: [], c: {d: {}}}\n"),
    ("sections.all", "c.yaml", "distributed_type: DEEPSPEED\nnum_processes: 2\n"
     "deepspeed_config: {zero_stage: 3, gradient_clipping: 1.0, offload_param_device: none, zero3_init_flag: true}\n"
     "fp8_config: {backend: TE, override_linear_precision: [false, true, false]}\n"
     "parallelism_config: {parallelism_config_tp_size: 2}\n"
     "megatron_lm_config: {megatron_lm_gradient_clipping: 1.0e-05}\n"
     "mpirun_config: {mpirun_hostfile: /h, bind-to: core}\ndynamo_config: {dynamo_backend: INDUCTOR}\n"),
    ("scalars.odd", "c.yaml", NO + "gpu_ids: 0\nmain_process_ip: 1.2\nmain_process_port: 0x1F\nnum_processes: 1_0\n"),
    ("scalars.time", "c.yaml", NO + "main_process_ip: 12:30:45\ntpu_name: 2020-01-02\ncommand_file: 1e3\n"),
    ("scalars.date.time", "c.yaml", NO + "tpu_name: 2020-01-02 03:04:05\n"),
    ("write.text", "c.yaml", NO + "tpu_name: 'yes'\ntpu_zone: '0123'\ngpu_ids: '0,1'\nmain_process_ip: '::1'\n"
     "command_file: ''\nmain_training_function: 'a: b # c'\n"
     "commands: ['- x', '@y', ' lead', 'trail ', 'null', '~', '1.5', "
     "'1e3', '=', '<<', '!t', '&a', '*b', '[', '{', '%', '`', \"it's\", 'q\"q', 'a\\b']\n"),
    ("write.long", "c.yaml", NO + "tpu_name: '" + "word " * 30 + "end'\ncommands: ['" + "x" * 120 + "']\n"),
    ("write.lines", "c.yaml",
     NO + 'tpu_name: "a\\nb\\n\\nc"\ntpu_zone: "a\\tb"\ncommand_file: "\\x07"\nmain_process_ip: "é😀"\n'
     'commands: ["x\\n", "\\n", " \\n x"]\n'),
    ("write.lists", "c.yaml", NO + "commands: []\ntpu_vm: [1, 2.0, true, null, x]\ntpu_env: [[a, b], {c: d}]\n"),
    ("write.floats", "c.yaml", NO + "deepspeed_config: {a: 1.0, b: 1e+20, c: 1.5e-7, "
     "d: .inf, e: -.inf, f: .nan, g: 123456789012345678, h: 1.0e-05, i: 0.1, j: 1.0e+16}\n"),
    ("write.alias", "c.yaml", NO + "fsdp_config: &a {x: 1}\ndeepspeed_config: *a\n"),
    ("write.merge", "c.yaml", NO + "fsdp_config: &a {x: 1}\ndeepspeed_config:\n  <<: *a\n  y: 2\n"),
    ("missing", "none.yaml", None),
]

SCALARS = """no No NO nO yes Yes YES y Y n N on On ON off Off OFF true True TRUE tRUE false False FALSE null Null NULL
nULL ~
~~ 0 -0 +0 1 +1 -1 0123 0128 08 00 01 0_1 1_000 _1 1_ 1__0 -1_000 0x1F 0X1F 0x 0xG 0x_1 -0x1f +0x1F 0o17 0O17 0b101 0b2
0b -0b1 0b1_0 1e3 1E3 1e+3 1e-3 1.e3 1.0e3 1.0e+3 1.5e-7 1.5E+7 .5 -.5 +.5 . .. 1. -1. +1. 1.5 -1.5 1_0.5 1._5 .e3 .5e3
.5e+3 .inf .Inf .INF -.inf +.inf .iNF .nan .NaN .NAN .Nan -.nan inf nan Infinity 12:30 12:30:45 1:2 1:60 1:99 0:0 00:30
-1:30 +1:30 12:30.5 12:30:45.5 1:2:3:4 190:20:30 12:3x 24:00 2020-01-02 2020-1-2 2020-13-01 2020-02-30 20-01-02
2020-01-02T03:04:05 2020-01-02T03:04:05Z 2020-01-02T03:04:05.5+01:00 2020-01-02T3:04:05 = << 0.0.0.0 10.0.0.1 127.0.0.1
::1
localhost:29500 1,2 0,1 1,000 a,b 1e 1e3.5 e3 0e0 0.0 -0.0 1/2 1% $x @x `x %x !x !!str &a *a |x >x ? - : , [ ] { } #x
a#b
x:y x: -x --x -1x 1x 0x1Fg 18446744073709551616 99999999999999999999999 1.7976931348623157e+308 1e400 1.0e+400 4.9e-324
"quoted" 'single' "no" 'no' "0x1F" '1' "" '' "a'b" 'a''b' "a\\nb" 'a\\nb' "a\\u00e9" "\\x41" "\\q" "unclosed 'unclosed
!!int !!str\\ 1 NaN None none Null~ TRUE1 yes1 FULL_SHARD MULTI_GPU fp16 bf16 O1 1e5 1e-5 1.0e-05 0.5 512MB auto /a/b
C:\\\\d
~/x é 1\u00a00 [] {} [1,no] {a:1} {a} '{}' "[]\"""".split()
SPACED = ["a b", "a #b", "a # b", "# b", "a: b", "a:b", "- a", "? a", " lead", "!!str no", "!!str 1", "!!int '3'",
          "!!float 1",
          "!!bool yes", "!!null ''", "!!float '1e3'", "'a' b", "1 2", "2020-01-02 03:04:05", "2020-01-02 03:04:05 +2",
          "",
          "[1, 2.5, x]", "{a: 1, b: no}", "&x 1", "no # comment", "1 # one", "'#'", "(false, false, false)", "\ttab",
          "true\t"]


def plain(value):
    """Enums, dates and floats as something that JSON has."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"float": str(value)}
    return value if value is None or isinstance(value, (bool, int, float, str)) else {type(value).__name__: str(value)}


def error_of(e):
    return {"type": type(e).__name__, "message": (str(e).split("\n") or [""])[0].replace(CASE_DIR, "@DIR@")}


def written(config, method):
    """The text that to_yaml_file or to_json_file leaves, or the error."""
    path = os.path.join(CASE_DIR, "out")
    try:
        getattr(config, method)(path)
        return Path(path).read_text(encoding="utf-8")
    except Exception as e:
        return {"error": error_of(e)}


def config_case(name, file, text):
    from accelerate.commands.config.config_args import load_config_from_file

    path = os.path.join(CASE_DIR, file)
    if text is not None:
        Path(path).write_bytes(text.encode())
    out = {"name": name, "file": file, "text": text}
    try:
        config = load_config_from_file(path)
        out["class"] = type(config).__name__
        out["loaded"] = plain(dict(vars(config)))
        # to_dict changes the object, so each writer gets a fresh one
        out["yaml"] = written(config, "to_yaml_file")
        out["json"] = written(load_config_from_file(path), "to_json_file")
    except Exception as e:
        out["error"] = error_of(e)
    if text is not None:
        os.unlink(path)
    return out


def escape(text):
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def scalar_row(text):
    """`key: TEXT` read by yaml.safe_load, and what safe_dump writes for the result."""
    try:
        value = yaml.safe_load(f"key: {text}\n")["key"]
    except Exception as e:
        return [text, "error", type(e).__name__, ""]
    kind = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str", list: "list", dict: "map"}
    shown = json.dumps(plain(value), ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)
    if not isinstance(value, str):
        shown = {"None": "null", "True": "true", "False": "false"}.get(shown, shown)
    dumped = yaml.safe_dump({"key": value})
    return [text, kind.get(type(value), type(value).__name__),
    shown, dumped[len("key:"):].removeprefix(" ").removesuffix("\n")]


def string_rows():
    """How the writer quotes: the same texts as Python strings."""
    for text in dict.fromkeys(SCALARS + SPACED + ["a\nb", "a ", "x" * 100, "w " * 50 + "e", "\x07", "😀"]):
        dumped = yaml.safe_dump({"key": text})
        yield [text, dumped[len("key:"):].removeprefix(" ").removesuffix("\n")]


def write_tsv(name, head, rows):
    lines = ["\t".join(head)] + ["\t".join(escape(cell) for cell in row) for row in rows]
    (HERE / name).write_text("\n".join(lines) + "\n")
    print(name, len(lines) - 1)


def default_case(name, file, precision):
    """What `config default` writes on a machine without any accelerator."""
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.config.default import write_basic_config

    path = os.path.join(CASE_DIR, file)
    write_basic_config(precision, path)
    config = load_config_from_file(path)
    out = {"name": name, "file": file, "default": precision, "yaml": written(config, "to_yaml_file"),
           "json": written(load_config_from_file(path), "to_json_file")}
    os.unlink(path)
    return out


def check_ours(command):
    """The other way round: what our `config update` leaves, the original loads and leaves as it is.  The cases that do
    not, other than those that we refuse, are printed."""
    from accelerate.commands.config.config_args import load_config_from_file

    count = 0
    for name, file, text in FILES + CASES:
        if text is None:
            continue
        path = os.path.join(CASE_DIR, file)
        Path(path).write_bytes(text.encode())
        if subprocess.run([command, "config", "update", "--config_file", path], capture_output=True).returncode:
            continue
        ours = Path(path).read_text(encoding="utf-8")
        count += 1
        try:
            again = written(load_config_from_file(path), "to_json_file" if file.endswith(".json") else "to_yaml_file")
            if again != ours:
                print(f"{name}: the original makes of ours\n{ours}this:\n{again}")
        except Exception as e:
            print(f"{name}: the original does not load ours: {error_of(e)}\n{ours}")
    print("of ours, compared:", count)


def main():
    shutil.rmtree(CASE_DIR, ignore_errors=True)
    os.makedirs(CASE_DIR)
    if len(sys.argv) > 1:
        check_ours(sys.argv[1])
        shutil.rmtree(CASE_DIR)
        return
    rows = [config_case(*f) for f in FILES + CASES]
    rows += [default_case(f"default.{p}.{e}", f"c.{e}", p) for p in ("no", "fp16", "bf16") for e in ("yaml", "json")]
    names = [row["name"] for row in rows]
    assert len(set(names)) == len(names), [n for n in names if names.count(n) > 1]
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows]
    # unpaired surrogate, which Python takes for a text, becomes a question mark
    (HERE / "config.json").write_bytes(("\n".join(lines) + "\n").encode("utf-8", "replace"))
    print("config.json", len(lines))
    texts = list(dict.fromkeys(SCALARS + SPACED))
    write_tsv("yaml_scalars.tsv", ["text", "type", "value", "dumped"], map(scalar_row, texts))
    write_tsv("yaml_strings.tsv", ["string", "dumped"], string_rows())
    shutil.rmtree(CASE_DIR)


if __name__ == "__main__":
    main()
