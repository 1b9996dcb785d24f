/* SPDX-License-Identifier: Apache-2.0 */
/* The names in PyTorch's pickles; see torch_names.h. */
#include <config.h>

#include "files/torch_names.h"

#define DTYPE_ROWS                                                   \
    { "torch", "bool", PICKLE_IS_CONSTANT, SAFETENSORS_BOOL },       \
    { "torch", "uint8", PICKLE_IS_CONSTANT, SAFETENSORS_U8 },        \
    { "torch", "int8", PICKLE_IS_CONSTANT, SAFETENSORS_I8 },         \
    { "torch", "int16", PICKLE_IS_CONSTANT, SAFETENSORS_I16 },       \
    { "torch", "uint16", PICKLE_IS_CONSTANT, SAFETENSORS_U16 },      \
    { "torch", "int32", PICKLE_IS_CONSTANT, SAFETENSORS_I32 },       \
    { "torch", "uint32", PICKLE_IS_CONSTANT, SAFETENSORS_U32 },      \
    { "torch", "int64", PICKLE_IS_CONSTANT, SAFETENSORS_I64 },       \
    { "torch", "uint64", PICKLE_IS_CONSTANT, SAFETENSORS_U64 },      \
    { "torch", "float16", PICKLE_IS_CONSTANT, SAFETENSORS_F16 },     \
    { "torch", "bfloat16", PICKLE_IS_CONSTANT, SAFETENSORS_BF16 },   \
    { "torch", "float32", PICKLE_IS_CONSTANT, SAFETENSORS_F32 },     \
    { "torch", "float64", PICKLE_IS_CONSTANT, SAFETENSORS_F64 },     \
    { "torch", "complex64", PICKLE_IS_CONSTANT, SAFETENSORS_C64 },   \
    { "torch", "complex128", PICKLE_IS_CONSTANT, TORCH_NO_DTYPE },   \
    { "torch", "complex32", PICKLE_IS_CONSTANT, TORCH_NO_DTYPE },    \
    { "torch", "float8_e4m3fn", PICKLE_IS_CONSTANT, SAFETENSORS_F8_E4M3 },         \
    { "torch", "float8_e5m2", PICKLE_IS_CONSTANT, SAFETENSORS_F8_E5M2 },           \
    { "torch", "float8_e4m3fnuz", PICKLE_IS_CONSTANT, SAFETENSORS_F8_E4M3FNUZ },   \
    { "torch", "float8_e5m2fnuz", PICKLE_IS_CONSTANT, SAFETENSORS_F8_E5M2FNUZ },   \
    { "torch", "float8_e8m0fnu", PICKLE_IS_CONSTANT, SAFETENSORS_F8_E8M0 },        \
    { "collections", "OrderedDict", PICKLE_MAKES_DICT, TORCH_ORDERED_DICT }

#define TENSOR_ROWS \
    { "torch._utils", "_rebuild_tensor_v2", PICKLE_MAKES_OBJECT, TORCH_REBUILD_TENSOR }, \
    { "torch._utils", "_rebuild_tensor_v3", PICKLE_MAKES_OBJECT, TORCH_REBUILD_TENSOR_V3 }, \
    { "torch._utils", "_rebuild_parameter", PICKLE_MAKES_OBJECT, TORCH_REBUILD_PARAMETER }, \
    { "torch._utils", "_rebuild_parameter_with_state", PICKLE_MAKES_OBJECT, TORCH_REBUILD_PARAMETER }, \
    { "torch", "BoolStorage", PICKLE_IS_CONSTANT, SAFETENSORS_BOOL }, \
    { "torch", "ByteStorage", PICKLE_IS_CONSTANT, SAFETENSORS_U8 }, \
    { "torch", "CharStorage", PICKLE_IS_CONSTANT, SAFETENSORS_I8 }, \
    { "torch", "ShortStorage", PICKLE_IS_CONSTANT, SAFETENSORS_I16 }, \
    { "torch", "IntStorage", PICKLE_IS_CONSTANT, SAFETENSORS_I32 }, \
    { "torch", "LongStorage", PICKLE_IS_CONSTANT, SAFETENSORS_I64 }, \
    { "torch", "HalfStorage", PICKLE_IS_CONSTANT, SAFETENSORS_F16 }, \
    { "torch", "BFloat16Storage", PICKLE_IS_CONSTANT, SAFETENSORS_BF16 }, \
    { "torch", "FloatStorage", PICKLE_IS_CONSTANT, SAFETENSORS_F32 }, \
    { "torch", "DoubleStorage", PICKLE_IS_CONSTANT, SAFETENSORS_F64 }, \
    { "torch", "ComplexFloatStorage", PICKLE_IS_CONSTANT, SAFETENSORS_C64 }, \
    { "torch", "ComplexDoubleStorage", PICKLE_IS_CONSTANT, TORCH_NO_DTYPE }, \
    { "torch.storage", "UntypedStorage", PICKLE_IS_CONSTANT, TORCH_UNTYPED_STORAGE }, \
    { "torch", "UntypedStorage", PICKLE_IS_CONSTANT, TORCH_UNTYPED_STORAGE }, \
    { "torch", "Size", PICKLE_MAKES_TUPLE, TORCH_SIZE }

const struct pickle_name torch_tensor_names[] = {
    TENSOR_ROWS,
    DTYPE_ROWS,
    { 0 },
};

/* NumPy's random numbers are among them, which are not used. */
const struct pickle_name torch_state_names[] = {
    { "numpy", "ndarray", PICKLE_IS_CONSTANT, TORCH_OTHER },
    { "numpy", "dtype", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { "numpy._core.multiarray", "_reconstruct", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { "numpy.core.multiarray", "_reconstruct", PICKLE_MAKES_OBJECT, TORCH_OTHER }, /* before NumPy 2 */
    { "_codecs", "encode", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    TENSOR_ROWS,
    DTYPE_ROWS,
    { 0 },
};

#define METADATA "torch.distributed.checkpoint.metadata"
#define OLD_METADATA "torch.distributed._shard.sharded_tensor.metadata" /* before PyTorch 2.4 */

const struct pickle_name torch_metadata_names[] = {
    { METADATA, "Metadata", PICKLE_MAKES_OBJECT, TORCH_METADATA },
    { METADATA, "TensorStorageMetadata", PICKLE_MAKES_OBJECT, TORCH_TENSOR_METADATA },
    { METADATA, "BytesStorageMetadata", PICKLE_MAKES_OBJECT, TORCH_BYTES_METADATA },
    { METADATA, "ChunkStorageMetadata", PICKLE_MAKES_OBJECT, TORCH_CHUNK_METADATA },
    { METADATA, "TensorProperties", PICKLE_MAKES_OBJECT, TORCH_PROPERTIES },
    { OLD_METADATA, "TensorProperties", PICKLE_MAKES_OBJECT, TORCH_PROPERTIES },
    { METADATA, "MetadataIndex", PICKLE_MAKES_OBJECT, TORCH_INDEX },
    { METADATA, "_MEM_FORMAT_ENCODING", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { OLD_METADATA, "MEM_FORMAT_ENCODING", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { METADATA, "StorageMeta", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { "torch.distributed.checkpoint.filesystem", "_StorageInfo", PICKLE_MAKES_OBJECT, TORCH_STORAGE_INFO },
    { "torch.serialization", "_get_layout", PICKLE_MAKES_OBJECT, TORCH_LAYOUT },
    { "torch", "Size", PICKLE_MAKES_TUPLE, TORCH_SIZE },
    { "pathlib", "PosixPath", PICKLE_MAKES_OBJECT, TORCH_OTHER }, /* where the checkpoint was written; not used */
    { "pathlib", "WindowsPath", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { "pathlib._local", "PosixPath", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { "pathlib._local", "WindowsPath", PICKLE_MAKES_OBJECT, TORCH_OTHER },
    { "builtins", "getattr", PICKLE_MAKES_OBJECT, TORCH_OTHER }, /* Python 3.11 writes members of an Enum so */
    DTYPE_ROWS,
    { 0 },
};

enum safetensors_dtype
torch_dtype (const struct pickle_value *value)
{
    if (!value || value->type != PICKLE_NAME || value->name->id >= (int) SAFETENSORS_DTYPE_COUNT)
        return SAFETENSORS_DTYPE_COUNT;
    return (enum safetensors_dtype) value->name->id;
}

bool
torch_is_call (const struct pickle_value *value, enum torch_name id, size_t least, size_t most)
{
    return value && value->type == PICKLE_OBJECT && value->name->id == (int) id && value->items[0]->count >= least
           && value->items[0]->count <= most;
}

int
torch_sizes (const struct pickle_value *value, uint64_t *sizes, int most)
{
    if (!value || value->type != PICKLE_TUPLE || value->count > (size_t) most)
        return -1;
    for (size_t i = 0; i < value->count; i++) {
        if (value->items[i]->type != PICKLE_INT || value->items[i]->integer < 0)
            return -1;
        sizes[i] = (uint64_t) value->items[i]->integer;
    }
    return (int) value->count;
}
