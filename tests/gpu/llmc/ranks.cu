/* SPDX-License-Identifier: Apache-2.0 */
/* For llmc.sh: what the ranks of the changed trainer do together, without the kernels of its forward and backward pass:
 * reduction, norm, update and checkpoint of a small model, by its own functions.  Gradients are multiples of 1/256, so
 * that all numbers of ranks end with the same bits.
 * usage: ranks FILE ZERO_STAGE [save | load]      FILE.RANK gets the parameters; DONE_00000003 is the checkpoint */
#define TESTING
#include "train_gpt2.cu"

enum { SAMPLES = 4, STEPS = 6, SAVED_STEP = 3 };

/* What the stand-in lacks, by what it has. */
extern "C" cudaError_t
cudaMemset (void *memory, int value, size_t bytes)
{
    cudaError_t status = cudaMemsetAsync (memory, value, bytes, cudaStreamLegacy);
    return status ? status : cudaStreamSynchronize (cudaStreamLegacy);
}

/* In host memory; the parameters now, and the mean gradient of this rank's samples. */
static std::vector<floatX> host_params, host_grads;

static void
make_model (GPT2 *model, int zero_stage)
{
    gpt2_init_common (model);
    model->config = { 16, 50, 64, 3, 2, 32 };
    gpt2_allocate_weights (model);
    set_zero_configs (&multi_gpu_config, zero_stage, model->num_parameters);
    model->grads_memory = malloc_and_point_parameters (&model->grads, model->param_elements, model->param_sizeof);
    size_t bytes = multi_gpu_config.shard_num_parameters * sizeof (float);
    cudaCheck (cudaMalloc ((void **) &model->m_memory, bytes));
    cudaCheck (cudaMalloc ((void **) &model->v_memory, bytes));
    cudaCheck (cudaMalloc ((void **) &model->master_weights, bytes));
    host_params.resize (model->num_parameters);
    host_grads.resize (model->num_parameters);
    for (size_t i = 0; i < host_params.size (); i++)
        host_params[i] = floatX (i % 37) / floatX (32);
    cudaCheck (cudaMemcpyAsync (model->params_memory, host_params.data (), model->num_parameters_bytes,
                                cudaMemcpyHostToDevice, main_stream));
    cudaCheck (cudaStreamSynchronize (main_stream)); /* host_params is written next */
}

static void
read_params (const GPT2 *model)
{
    cudaCheck (cudaMemcpyAsync (host_params.data (), model->params_memory, model->num_parameters_bytes,
                                cudaMemcpyDeviceToHost, main_stream));
    cudaCheck (cudaStreamSynchronize (main_stream));
}

static void
compute_gradients (GPT2 *model, int step)
{
    int own = SAMPLES / multi_gpu_config.num_processes, first = own * multi_gpu_config.process_rank;
    read_params (model);
    for (size_t i = 0; i < host_grads.size (); i++) {
        host_grads[i] = 0;
        for (int sample = first; sample < first + own; sample++) {
            size_t number = (i + size_t (step) * host_grads.size ()) * SAMPLES + size_t (sample);
            unsigned drawn = unsigned (number) * 2654435761U;
            host_grads[i] += rintf ((host_params[i] - float (drawn >> 24) / 256 + 0.5F) * 256) / 256 / float (own);
        }
    }
    cudaCheck (cudaMemcpyAsync (model->grads_memory, host_grads.data (), model->num_parameters * sizeof (floatX),
                                cudaMemcpyHostToDevice, main_stream));
}

/* All tensors of a layer, then those that belong to none. */
static void
reduce_gradients (GPT2 *model)
{
    floatX *all = (floatX *) model->grads_memory;
    for (int layer = model->config.num_layers; layer-- > 0;) {
        floatX *pointers[12];
        size_t sizes[12];
        for (int i = 0; i < 12; i++) {
            ShardInfo tensor = gpt2_get_tensor_at_layer (model, layer, 2 + i);
            pointers[i] = all + tensor.offset;
            sizes[i] = tensor.size;
        }
        multi_gpu_async_reduce_gradient (pointers, sizes, &multi_gpu_config, main_stream);
    }
    floatX *pointers[] = { model->grads.wte, model->grads.wpe, model->grads.lnfw, model->grads.lnfb };
    size_t sizes[4];
    for (int i = 0; i < 4; i++)
        sizes[i] = model->param_elements[i < 2 ? i : i + 12];
    multi_gpu_async_reduce_gradient (pointers, sizes, &multi_gpu_config, main_stream);
    multi_gpu_wait (&multi_gpu_config);
}

static void
train (GPT2 *model, Checkpoint *checkpoint, bool save)
{
    for (int step = checkpoint->step; step < STEPS; step++) {
        if (step == SAVED_STEP && save) {
            checkpoint->step = step;
            accelCheck (accel_save_state (multi_gpu_config.job, checkpoint_path (".", step).c_str (), &accel_err));
        }
        compute_gradients (model, step);
        reduce_gradients (model);
        float norm = gpt2_calculate_grad_norm (model, &multi_gpu_config);
        printf0 ("step %d norm %.2f\n", step + 1, norm);
        gpt2_update (model, 0.01F, 0.9F, 0.95F, 1e-8F, 0.1F, 0.5F, step + 1, &multi_gpu_config);
    }
}

int
main (int argc, char **argv)
{
    GPT2 model = {};
    Checkpoint checkpoint = {};
    std::string what = argc > 3 ? argv[3] : "";
    if (argc < 3)
        return 2;
    multi_gpu_config = multi_gpu_config_init ();
    cudaCheck (cudaStreamCreateWithFlags (&main_stream, cudaStreamDefault));
    accelCheck (accel_set_stream (accel_device (multi_gpu_config.job), main_stream, &accel_err));
    make_model (&model, atoi (argv[2]));
    checkpoint_init (&checkpoint, &model);
    if (what == "load")
        accelCheck (accel_load_state (multi_gpu_config.job, checkpoint_path (".", SAVED_STEP).c_str (), &accel_err));
    train (&model, &checkpoint, what == "save");
    read_params (&model);
    std::string name = std::string (argv[1]) + "." + std::to_string (multi_gpu_config.process_rank);
    FILE *file = fopenCheck (name.c_str (), "wb");
    fwriteCheck (host_params.data (), sizeof (floatX), host_params.size (), file);
    fcloseCheck (file);
    multi_gpu_config_free (&multi_gpu_config);
    accel_model_destroy (model.shards);
    for (void *memory : { model.params_memory, model.grads_memory, (void *) model.m_memory, (void *) model.v_memory,
                          (void *) model.master_weights })
        cudaCheck (cudaFree (memory));
    cudaCheck (cudaStreamDestroy (main_stream));
    return 0;
}
