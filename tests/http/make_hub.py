# SPDX-License-Identifier: Apache-2.0
"""make_hub.py FOLDER GOLDEN: what a hub has, for the server of tests: the models of tests/golden/command/estimate.json, with
headers and without data (the files are sparse), one of them in shards; idefics-80b-instruct with its real sizes; a GGUF file.

    api/models/NAME                    what the hub says about a model
    NAME/resolve/main/FILE             its files
"""
import json
import math
import os
import struct
import sys

SIZES = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8, "BOOL": 1, "U8": 1, "I8": 1, "I32": 4, "F8_E4M3": 1}


def write_safetensors(path, tensors, more=b""):
    """Write a header; the data are a hole."""
    header, at = {}, 0
    for name, dtype, shape in tensors:
        size = SIZES[dtype]
        for length in shape:
            size *= length
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode() + more
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    return at


def write_json(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        json.dump(value, file)


def write_model(root, name, config, tensors, shards=1, library="transformers", more=b""):
    folder = f"{root}/{name}/resolve/main"
    write_json(f"{folder}/config.json", config)
    files = ["config.json"]
    if shards == 1:
        write_safetensors(f"{folder}/model.safetensors", tensors, more)
        files.append("model.safetensors")
    else:
        weights, total = {}, 0
        for i in range(shards):
            file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
            part = tensors[i * len(tensors) // shards:(i + 1) * len(tensors) // shards]
            total += write_safetensors(f"{folder}/{file}", part, more)
            weights.update((tensor[0], file) for tensor in part)
            files.append(file)
        write_json(f"{folder}/model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weights})
        files.append("model.safetensors.index.json")
    info = {"id": name, "config": {}, "siblings": [{"rfilename": file} for file in files], "gated": False}
    if library:
        info["library_name"] = library
    write_json(f"{root}/api/models/{name}", info)


def idefics():
    """The sizes of HuggingFaceM4/idefics-80b-instruct, of the language model's layers."""
    hidden, inner = 8192, 22016
    config = {"model_type": "idefics", "hidden_size": hidden, "num_attention_heads": 64, "num_hidden_layers": 80,
              "intermediate_size": inner, "cross_layer_interval": 4, "max_position_embeddings": 2048}
    tensors = [["model.embed_tokens.weight", "F32", [32000, hidden]],
               ["model.embed_tokens.additional_embedding.weight", "F32", [2, hidden]]]
    for i in range(80):
        own = f"model.layers.{i}."
        tensors += [[f"{own}self_attn.{x}_proj.weight", "F32", [hidden, hidden]] for x in "qkvo"]
        tensors += [[f"{own}mlp.{x}_proj.weight", "F32", [inner, hidden]] for x in ("gate", "up")]
        tensors += [[f"{own}mlp.down_proj.weight", "F32", [hidden, inner]]]
        tensors += [[f"{own}{x}_layernorm.weight", "F32", [hidden]] for x in ("input", "post_attention")]
    return config, tensors


def llama(layers, hidden, inner, vocabulary, pairs, heads):
    """A model of the size of Llama's, in BF16."""
    config = {"model_type": "llama", "hidden_size": hidden, "num_attention_heads": heads, "num_hidden_layers": layers,
              "num_key_value_heads": pairs, "intermediate_size": inner, "architectures": ["LlamaForCausalLM"]}
    small = hidden // heads * pairs
    tensors = [["model.embed_tokens.weight", "BF16", [vocabulary, hidden]]]
    for i in range(layers):
        own = f"model.layers.{i}."
        tensors += [[f"{own}self_attn.{x}_proj.weight", "BF16", [size, hidden]]
                    for x, size in (("q", hidden), ("k", small), ("v", small), ("o", hidden))]
        tensors += [[f"{own}mlp.{x}_proj.weight", "BF16", [inner, hidden]] for x in ("gate", "up")]
        tensors += [[f"{own}mlp.down_proj.weight", "BF16", [hidden, inner]]]
        tensors += [[f"{own}{x}_layernorm.weight", "BF16", [hidden]] for x in ("input", "post_attention")]
    return config, tensors + [["model.norm.weight", "BF16", [hidden]], ["lm_head.weight", "BF16", [vocabulary, hidden]]]


def write_pickled(root):
    """Repositories with pickled files and their index."""
    for name, config, index in (
            ("shards", {"torch_dtype": "float16"}, {"metadata": {"total_size": 13476839424}}),
            ("new_key", {"dtype": "bfloat16"}, {"metadata": {"total_size": 1000}}),
            ("untyped", {}, {"metadata": {"total_size": 1000}}),
            ("no_total", {"dtype": "float32"}, {"weight_map": {}}),
            ("packed", {"dtype": "float16", "quantization_config": {"quant_method": "gptq", "bits": 4}}, {"metadata": {"total_size": 1000}})):
        folder = f"{root}/pickled/{name}/resolve/main"
        write_json(f"{folder}/config.json", {"model_type": "llama", **config})
        write_json(f"{folder}/pytorch_model.bin.index.json", {"weight_map": {"a": "pytorch_model-00001-of-00001.bin"}, **index})
        with open(f"{folder}/pytorch_model-00001-of-00001.bin", "wb"):
            pass
        write_json(f"{root}/api/models/pickled/{name}", {"library_name": "transformers", "siblings": [
            {"rfilename": file} for file in sorted(os.listdir(folder))]})


def gguf_text(text):
    return struct.pack("<Q", len(text)) + text.encode()


BLOCKS = {0: (1, 4), 1: (1, 2), 12: (256, 144)}  # elements and bytes of types of GGUF


def write_gguf(path, tensors, words=0, shift=0, architecture="llama", layers=2, windows=(), **more):
    """tensors: (name, type, elements of each dimension); their data are a hole. shift: of the last one's place.
    windows: tokens, and a pattern: a number or a list."""
    numbers = {f"{architecture}.block_count": layers, f"{architecture}.embedding_length": 256,
               f"{architecture}.attention.head_count": 4, f"{architecture}.attention.head_count_kv": 2,
               **{key.replace("_", "."): value for key, value in more.items()},
               **dict(zip((f"{architecture}.attention.sliding_window", f"{architecture}.attention.sliding_window_pattern"), windows))}
    at = 0
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(numbers) + 2)
    out += gguf_text("general.architecture") + struct.pack("<I", 8) + gguf_text(architecture)
    out += gguf_text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, words)
    out += b"".join(gguf_text(f"word number {i}") for i in range(words))
    for key, value in numbers.items():
        if isinstance(value, list):
            kind = 7 if isinstance(value[0], bool) else 4
            out += gguf_text(key) + struct.pack("<IIQ", 9, kind, len(value))
            out += b"".join(struct.pack("?" if kind == 7 else "<I", item) for item in value)
        else:
            out += gguf_text(key) + struct.pack("<II", 4, value)
    for name, kind, shape in tensors:
        out += gguf_text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        out += struct.pack("<IQ", kind, at + (shift if name == tensors[-1][0] else 0))
        at += -(-math.prod(shape) // BLOCKS[kind][0]) * BLOCKS[kind][1]
        at += -at % 32
    with open(path, "wb") as file:
        file.write(out)
        file.truncate(min(len(out) + -len(out) % 32 + at, 2 ** 30))


def write_ggufs(root):
    name = "org/quantized"
    folder = f"{root}/{name}/resolve/main"
    os.makedirs(folder)
    tensors = [("token_embd.weight", 1, [256, 1000]), ("blk.0.ffn.weight", 12, [256, 512]), ("blk.1.ffn.weight", 12, [256, 512])]
    write_gguf(f"{folder}/model-q4.gguf", tensors, words=100000)
    for i in range(2):
        write_gguf(f"{folder}/big-0000{i + 1}-of-00002.gguf", tensors[2 * i:2 * i + 2 - i], words=0 if i else 100000,
                   split_no=i, split_count=2, split_tensors_count=3)
    write_json(f"{root}/api/models/{name}", {"siblings": [{"rfilename": file} for file in sorted(os.listdir(folder))]})
    os.makedirs(f"{root}/windows")
    for architecture, *windows in (("gemma3", 100), ("gemma3", 100, 4), ("gemma3", 100, 0), ("gemma3", 0), ("gemma3",), ("gemma2",),
                                   ("phi3", 100), ("phi3", 100, 3), ("llama4",), ("llama4", 0), ("gpt-oss", 100),
                                   ("gemma3", 100, [True, False] * 4), ("gemma3", 100, [False] * 8), ("gemma3", 100, [True] * 9),
                                   ("gemma3", 100, [2, 0] * 4)):
        words = [architecture, *("".join(str(int(one)) for one in word) if isinstance(word, list) else str(word) for word in windows)]
        write_gguf(f"{root}/windows/{'_'.join(words)}.gguf", tensors[:1], architecture=architecture, layers=8, windows=windows)
    os.makedirs(f"{root}/many")  # the first megabyte ends among the tensors
    for i, part in enumerate(([(f"t{number}", 0, [1]) for number in range(30000)], tensors[:1])):
        write_gguf(f"{root}/many/many-0000{i + 1}-of-00002.gguf", part, split_no=i, split_count=2, split_tensors_count=30001)
    wrong = f"{root}/wrong"
    os.makedirs(wrong)
    write_gguf(f"{wrong}/overlap.gguf", tensors, shift=-32)
    write_gguf(f"{wrong}/far.gguf", tensors, shift=2 ** 63 - 2 ** 20)
    for value in (0, 48, 2 ** 30):
        write_gguf(f"{wrong}/aligned_{value}.gguf", tensors, general_alignment=value)
    write_gguf(f"{wrong}/coarse.gguf", tensors[:1], general_alignment=4096)
    write_gguf(f"{wrong}/blocks.gguf", [("rows", 12, [128, 2])])
    BLOCKS[99] = BLOCKS[5] = (1, 4)
    write_gguf(f"{wrong}/type.gguf", [("new", 99, [32])])
    write_gguf(f"{wrong}/old_type.gguf", [("old", 5, [32])])
    write_gguf(f"{wrong}/huge.gguf", [("huge", 0, [2 ** 40, 2 ** 40])])
    write_gguf(f"{wrong}/sum.gguf", [(f"part.{i}", 0, [2 ** 59]) for i in range(8)])


def write_attentions(root):
    """Small models whose configurations describe keys and values in other ways; one of an unknown type."""
    config, tensors = llama(2, 256, 512, 1000, 2, 4)
    own = {key: value for key, value in config.items() if key not in ("num_key_value_heads", "model_type")}
    windows = {"sliding_window": 100, "layer_types": ["sliding_attention", "full_attention"]}
    for name, more in (("nobody_knows", {"model_type": "nobody_knows", "num_key_value_heads": 2}),
                       ("one_pair", {"model_type": "falcon", "multi_query": True, "num_kv_heads": 2}),
                       ("new_falcon", {"model_type": "falcon", "multi_query": True, "new_decoder_architecture": True,
                                       "num_kv_heads": 2}),
                       ("windows", {"num_key_value_heads": 2, **windows}),
                       ("all_windows", {"model_type": "mistral", "num_key_value_heads": 2, "sliding_window": 100}),
                       ("unused_windows", {"model_type": "qwen2", "num_key_value_heads": 2, "sliding_window": 100,
                                           "max_window_layers": 1, "use_sliding_window": False}),
                       ("later_windows", {"model_type": "qwen2", "num_key_value_heads": 2, "sliding_window": 100,
                                          "max_window_layers": 1, "use_sliding_window": True}),
                       ("gemma2", {"model_type": "gemma2", "num_key_value_heads": 2, "sliding_window": 100}),
                       ("pattern", {"model_type": "cohere2", "num_key_value_heads": 2, "sliding_window": 100,
                                    "sliding_window_pattern": 2}),
                       ("letters", {"model_type": "exaone4", "num_key_value_heads": 2, "sliding_window": 100,
                                    "sliding_window_pattern": "LG"}),
                       ("null_window", {"model_type": "gemma2", "num_key_value_heads": 2, "sliding_window": None}),
                       ("chunks", {"num_key_value_heads": 2, "attention_chunk_size": 100, "sliding_window": 7,
                                   "layer_types": ["chunked_attention", "full_attention"]}),
                       ("linear", {"num_key_value_heads": 2, "layer_types": ["linear_attention", "full_attention"]}),
                       ("small_heads", {"num_key_value_heads": 2, "head_dim": 32}),
                       ("every_head", {}),
                       ("latent", {"num_key_value_heads": 4, "kv_lora_rank": 64, "qk_rope_head_dim": 16})):
        write_model(root, f"org/{name}", {"model_type": "llama", **own, **more}, tensors)
    write_model(root, "org/pictures", {"model_type": "llava", "text_config": {**config, **windows}}, tensors)
    write_model(root, "org/one_pair_of_pictures", {"model_type": "llava", "text_config": {**own, "multi_query": True}}, tensors)


def packed(method, module, rows, columns):
    """The tensors that replace the weight of a module, as the libraries of the methods name them."""
    groups = columns // 32
    names = {
        "gptq": (("qweight", "I32", [columns // 8, rows]), ("qzeros", "I32", [groups, rows // 8]),
                 ("scales", "F16", [groups, rows]), ("g_idx", "I32", [columns])),
        "gptq3": (("qweight", "I32", [columns // 32 * 3, rows]), ("scales", "F16", [groups, rows]), ("g_idx", "I32", [columns])),
        "awq": (("qweight", "I32", [columns, rows // 8]), ("qzeros", "I32", [groups, rows // 8]),
                ("scales", "F16", [groups, rows])),
        "nf4": (("weight", "U8", [rows * columns // 2, 1]), ("weight.absmax", "U8", [rows * columns // 64]),
                ("weight.nested_absmax", "F32", [1]), ("weight.nested_quant_map", "F32", [256]),
                ("weight.quant_map", "F32", [16]), ("weight.quant_state.bitsandbytes__nf4", "U8", [120])),
        "nf4_in_bf16": (("weight", "BF16", [rows * columns // 4, 1]), ("weight.absmax", "F32", [rows * columns // 64]),
                        ("weight.quant_map", "F32", [16]), ("weight.quant_state.bitsandbytes__nf4", "U8", [120])),
        "int8": (("weight", "I8", [rows, columns]), ("SCB", "F32", [rows]), ("weight_format", "U8", [])),
        "fp8": (("weight", "F8_E4M3", [rows, columns]), ("weight_scale_inv", "F32", [rows // 16, columns // 16])),
        "mxfp4": (("weight_blocks", "U8", [rows, columns // 32, 16]), ("weight_scales", "U8", [rows, columns // 32])),
        "int4": (("weight_packed", "I32", [rows, columns // 8]), ("weight_scale", "BF16", [rows, groups]),
                 ("weight_shape", "I64", [2])),
        "w8a8": (("weight", "I8", [rows, columns]), ("weight_scale", "BF16", [rows, 1])),
        "nvfp4": (("weight", "U8", [rows, columns // 2]), ("weight_scale", "F8_E4M3", [rows, columns // 16]),
                  ("weight_scale_2", "F32", []), ("input_scale", "F32", [])),
        "bitnet": (("weight", "U8", [rows // 4, columns]), ("weight_scale", "BF16", [1])),
    }
    return [[f"{module}.{name}", dtype, shape] for name, dtype, shape in names[method]]


def write_packed(root, name, model, method, config):
    tensors = []
    for tensor, dtype, shape in model["tensors"]:
        tensors += packed(method, tensor[:-7], *shape) if tensor.endswith("_proj.weight") else [[tensor, dtype, shape]]
    own = {"quantization_config": config} if config else {}
    write_model(root, f"quantized/{name}", {**model["config"], **own}, tensors)


def write_quantized(root, model):
    """Quantized copies of a model of golden/: Accelerate's numbers for it stay the same."""
    groups = {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}
    configs = {
        "gptq": {"quant_method": "gptq", "bits": 4}, "gptq3": {"quant_method": "gptq", "bits": 3, "dynamic": {"-:.*lm_head": {}}},
        "awq": {"quant_method": "awq", "bits": 4}, "nf4": {"load_in_4bit": True, "quant_method": "bitsandbytes"},
        "nf4_in_bf16": {"load_in_4bit": True}, "int8": {"quant_method": "bitsandbytes", "load_in_8bit": True},
        "fp8": {"quant_method": "fp8", "weight_block_size": [16, 16]}, "mxfp4": {"quant_method": "mxfp4"},
        "int4": {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups},
        "w8a8": {"quant_method": "compressed-tensors", "format": "int-quantized"},
        "nvfp4": {"quant_method": "modelopt", "quant_algo": "NVFP4"}, "bitnet": {"quant_method": "bitnet"},
    }
    for method, config in configs.items():
        write_packed(root, method, model, method, config)
    write_packed(root, "unknown", model, "gptq", {"quant_method": "aqlm"})
    write_packed(root, "no_bits", model, "gptq", {"quant_method": "gptq"})
    write_packed(root, "two_widths", model, "gptq", {"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*": {"bits": 8}}})
    write_packed(root, "two_groups", model, "int4", {"quant_method": "compressed-tensors", "config_groups": {
        **groups, "group_1": {"weights": {"num_bits": 8, "type": "int"}}}})
    write_packed(root, "marlin", model, "gptq", {"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"})
    write_packed(root, "other_names", model, "mxfp4", {"quant_method": "fp8"})
    write_packed(root, "seven", model, "gptq", {"quant_method": "gptq", "bits": 7})
    write_packed(root, "no_config", model, "gptq", None)


def write_two(root):
    """Two files of weights and no index."""
    folder = f"{root}/org/two/resolve/main"
    write_model(root, "org/two", {"model_type": "llama"}, [])
    os.remove(f"{folder}/model.safetensors")
    for name in ("first", "second"):
        write_safetensors(f"{folder}/{name}.safetensors", [["weight", "F32", [4]]])
    write_json(f"{root}/api/models/org/two", {"library_name": "transformers", "siblings": [
        {"rfilename": name} for name in ("config.json", "first.safetensors", "second.safetensors")]})


def main():
    root, golden = sys.argv[1:]
    with open(golden) as file:
        models = json.load(file)
    for model in models:
        shards = 3 if model["name"] == "gpt2" else 1
        write_model(root, f"golden/{model['name']}", model["config"], model["tensors"], shards, model["library"])
    bert = models[0]
    write_model(root, "bert-base-cased", bert["config"], bert["tensors"])
    write_model(root, "timm/resnet50.a1_in1k", models[-1]["config"], models[-1]["tensors"], library="timm")
    write_model(root, "HuggingFaceM4/idefics-80b-instruct", *idefics(), shards=19)
    write_model(root, "org/llama", *llama(2, 256, 512, 1000, 2, 4), shards=2, more=b" " * 200000)
    own = dict(bert["config"], auto_map={"AutoConfig": "configuration.NewConfig", "AutoModel": "modeling.NewModel"})
    write_model(root, "hf-internal-testing/test_dynamic_model", dict(own, model_type="new-model"), bert["tensors"])
    write_model(root, "org/code_for_bert", own, bert["tensors"])
    write_model(root, "org/own_tokenizer", dict(bert["config"], model_type="new", auto_map={"AutoTokenizer": "a.B"}), bert["tensors"])
    write_json(f"{root}/api/models/muellerzr/dummy", {"id": "muellerzr/dummy", "config": None,
                                                      "siblings": [{"rfilename": "README.md"}]})
    write_json(f"{root}/api/models/org/pickled",
               {"library_name": "transformers", "siblings": [{"rfilename": "config.json"}, {"rfilename": "pytorch_model.bin"}]})
    write_pickled(root)
    write_ggufs(root)
    write_attentions(root)
    write_quantized(root, next(model for model in models if model["name"] == "llama"))
    write_two(root)


if __name__ == "__main__":
    main()
