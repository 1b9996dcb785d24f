/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that both parts of the questionnaire have: torch.compile.  Included in the arrays of machine.c and
 * sagemaker.c, which define YES and the functions and lists named here through this file's first half. */
#ifdef QUESTIONS_DYNAMO_ROWS
    { .id = "use_dynamo", .kind = ASK_YES_NO, .dflt = "no", .told_by = "dynamo_backend",
      .text = "Do you want to optimize your script with torch.compile (torch dynamo)?" },
    { .id = "dynamo_backend", .kind = ASK_MENU, .choices = dynamo_backends, .dflt = "inductor",
      .if_answer = { "use_dynamo", "yes" },
      .text = "Which dynamo backend do you want to use?" },
    { .id = "dynamo_custom", .kind = ASK_YES_NO, .dflt = "no", .if_answer = { "use_dynamo", "yes" },
      .told_by = "dynamo_mode dynamo_use_fullgraph dynamo_use_dynamic dynamo_use_regional_compilation",
      .text = "Do you want to change the defaults of torch.compile?" },
    { .id = "dynamo_mode", .kind = ASK_MENU, .choices = dynamo_modes, .dflt = "default",
      .if_answer = { "dynamo_custom", "yes" },
      .text = "Which mode do you want to use?" },
    { .id = "dynamo_use_fullgraph", .kind = ASK_YES_NO, .dflt = "no", .if_answer = { "dynamo_custom", "yes" },
      .text = "Must the model compile into a single graph (fullgraph)?" },
    { .id = "dynamo_use_dynamic", .kind = ASK_YES_NO, .dflt = "no", .if_answer = { "dynamo_custom", "yes" },
      .text = "Do you want to enable dynamic shapes?" },
    { .id = "dynamo_use_regional_compilation", .kind = ASK_YES_NO, .dflt = "no",
      .if_answer = { "dynamo_custom", "yes" },
      .text = "Do you want to enable regional compilation?" },
#else
#define CHOICE(name, ...) { name },
static const struct choice precisions[] = { PRECISION_MAP (CHOICE) { NULL } };
#undef CHOICE

/* Accelerate misspells torchxla_trace_once and then refuses it. */
static const struct choice dynamo_backends[] = {
    { "eager" }, { "aot_eager" }, { "inductor" }, { "aot_ts_nvfuser" }, { "nvprims_nvfuser" }, { "cudagraphs" },
    { "ofi" }, { "fx2trt" }, { "onnxrt" }, { "tensorrt" }, { "aot_torchxla_trace_once" }, { "torchxla_trace_once" },
    { "tvm" }, { NULL },
};

static const struct choice dynamo_modes[] = { { "default" }, { "reduce-overhead" }, { "max-autotune" }, { NULL } };

#endif
