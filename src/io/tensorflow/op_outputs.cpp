#include "io/tensorflow/op_outputs.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tapestry/error.hpp"

namespace tapestry::io {
namespace {

/// Names of outputs, and the ops that have these. An output of several that is a list has the attribute behind "=" that
/// tells its length: a number, or a list of types. TensorFlow's ops that models do without are left out. All others
/// have one (list of) outputs, "output". tests/interop/op_outputs.py compares the table with TensorFlow.
struct NamedOutputs {
  std::string_view outputs, ops;
};
constexpr NamedOutputs named_outputs[] = {
    {"activations", "Elu LeakyRelu Relu Relu6 Selu Softplus Softsign"},
    {"alg", "StatelessRandomGetAlg"},
    {"backprops",
     "EluGrad FakeQuantWithMinMaxArgsGradient LeakyReluGrad Relu6Grad ReluGrad SeluGrad SoftplusGrad SoftsignGrad"},
    {"band", "BatchMatrixBandPart MatrixBandPart"},
    {"binary_examples", "DecodeJSONExample"},
    {"bins", "Bincount"},
    {"c", "SparseMatrixAdd SparseMatrixSparseMatMul"},
    {"components", "GetElementAtIndex"},
    {"contents", "EncodeJpeg EncodeJpegVariableQuality EncodePng ReadFile"},
    {"crops", "CropAndResize"},
    {"dense", "SparseToDense"},
    {"dense_output", "CSRSparseMatrixToDense"},
    {"diagonal", "BatchMatrixDiagPart DiagPart MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3"},
    {"elem", "StackPop StackPopV2"},
    {"element_shape", "TensorListElementShape"},
    {"encoded_ragged", "RaggedTensorToVariant"},
    {"filename", "ShardedFilename ShardedFilespec"},
    {"filenames", "MatchingFiles"},
    {"filter_backprop", "Dilation2DBackpropFilter"},
    {"flow_out",
     "TensorArrayScatter TensorArrayScatterV2 TensorArrayScatterV3 TensorArraySplit TensorArraySplitV2 "
     "TensorArraySplitV3 TensorArrayUnpack TensorArrayWrite TensorArrayWriteV2 TensorArrayWriteV3"},
    {"glimpse", "ExtractGlimpse ExtractGlimpseV2"},
    {"grad_handle", "TensorArrayGrad TensorArrayGradV2"},
    {"gradient", "SparseMatrixSoftmaxGrad"},
    {"handle", "EmptyTensorList EmptyTensorMap Stack StackV2 TensorArray TensorArrayV2 TensorListReserve"},
    {"has_key", "TensorMapHasKey"},
    {"image", "DecodeAndCropJpeg DecodeBmp DecodeGif DecodeImage DecodeJpeg DecodeJxl DecodePng DecodeWebP"},
    {"image_shape", "ExtractJpegShape"},
    {"in_backprop", "Dilation2DBackpropInput"},
    {"index", "Where"},
    {"initialized", "ResourceInitializedOp"},
    {"is_initialized", "IsVariableInitialized VarIsInitializedOp"},
    {"item", "TensorListGetItem"},
    {"keys", "TensorMapStackKeys"},
    {"length", "TensorListLength"},
    {"logsoftmax", "LogSoftmax"},
    {"merged", "DynamicStitch ParallelDynamicStitch"},
    {"mutex_lock", "MutexLock"},
    {"nnz", "SparseMatrixNNZ"},
    {"num_accumulated", "ResourceAccumulatorNumAccumulated"},
    {"offset", "ConcatOffset"},
    {"out",
     "ApplyAdaMax ApplyAdadelta ApplyAdagrad ApplyAdagradDA ApplyAdagradV2 ApplyAdam ApplyAddSign "
     "ApplyCenteredRMSProp ApplyFtrl ApplyFtrlV2 ApplyGradientDescent ApplyMomentum ApplyPowerSign "
     "ApplyProximalAdagrad ApplyProximalGradientDescent ApplyRMSProp Cumprod Cumsum CumulativeLogsumexp "
     "HistogramFixedWidth SparseApplyAdadelta SparseApplyAdagrad SparseApplyAdagradDA SparseApplyAdagradV2 "
     "SparseApplyCenteredRMSProp SparseApplyFtrl SparseApplyFtrlV2 SparseApplyMomentum SparseApplyProximalAdagrad "
     "SparseApplyProximalGradientDescent SparseApplyRMSProp"},
    {"output_handle",
     "TensorListFromTensor TensorListPushBack TensorListResize TensorListScatter TensorListScatterIntoExistingList "
     "TensorListScatterV2 TensorListSetItem TensorListSplit TensorMapErase TensorMapInsert"},
    {"output_handles", "TensorListPushBackBatch"},
    {"output_ref",
     "Assign AssignAdd AssignSub ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul ScatterNdAdd ScatterNdMax "
     "ScatterNdMin ScatterNdSub ScatterNdUpdate ScatterSub ScatterUpdate StridedSliceAssign"},
    {"outputs", "DynamicPartition FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel"},
    {"patches", "ExtractImagePatches ExtractVolumePatches"},
    {"precision", "InTopK InTopKV2"},
    {"product", "Cross MatMul SparseMatMul SparseTensorDenseMatMul"},
    {"r0", "BroadcastArgs"},
    {"ref", "TemporaryVariable Variable VariableV2"},
    {"resized_images", "ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor ScaleAndTranslate"},
    {"resource", "MutexV2 VarHandleOp"},
    {"result", "BatchNormWithGlobalNormalization RaggedTensorToTensor"},
    {"samples", "SobolSample"},
    {"selected_indices", "NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionWithOverlaps"},
    {"serialized", "SerializeTensor"},
    {"size", "LookupTableSize LookupTableSizeV2 SetSize TensorArraySize TensorArraySizeV2 TensorArraySizeV3"},
    {"softmax", "Softmax SparseMatrixSoftmax"},
    {"sparse_matrix", "SparseMatrixZeros SparseTensorToCSRSparseMatrix"},
    {"sparse_output", "DenseToCSRSparseMatrix"},
    {"spectrogram", "AudioSpectrogram"},
    {"sum", "AccumulateNV2 AddN"},
    {"summary",
     "AudioSummary AudioSummaryV2 HistogramSummary ImageSummary MergeSummary ScalarSummary TensorSummary "
     "TensorSummaryV2"},
    {"table_handle",
     "HashTable HashTableV2 MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors "
     "MutableHashTableOfTensorsV2 MutableHashTableV2"},
    {"tensor", "ImmutableConst Recv Restore RestoreSlice TensorListStack"},
    {"tensors", "RestoreV2"},
    {"transformed_images", "ImageProjectiveTransformV2 ImageProjectiveTransformV3"},
    {"val_grad", "SparseSliceGrad"},
    {"value",
     "DestroyTemporaryVariable ReadVariableOp RngReadAndSkip TensorArrayGather TensorArrayGatherV2 "
     "TensorArrayGatherV3 TensorArrayPack TensorArrayRead TensorArrayReadV2 TensorArrayReadV3 TensorMapLookup"},
    {"values", "LookupTableFind LookupTableFindV2 NthElement TensorListGather Unstage"},
    {"y",
     "Abs Acos Acosh Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e "
     "BesselK1 BesselK1e BesselY0 BesselY1 Cast Ceil ComplexAbs ConjugateTranspose Cos Cosh DataFormatDimMap "
     "DataFormatVecPermute Dawsn DeepCopy Digamma Erf Erfc Erfinv Exp Expint Expm1 Floor FresnelCos FresnelSin "
     "InplaceAdd InplaceSub InplaceUpdate Inv Invert InvertPermutation IsFinite IsInf IsNan Lgamma Log Log1p "
     "LogicalNot Ndtri Neg OnesLike PopulationCount Reciprocal Rint Round Rsqrt Sigmoid Sign Sin Sinh Spence Sqrt "
     "Square Tan Tanh Transpose ZerosLike"},
    {"z",
     "Add AddV2 ApproximateEqual Atan2 Betainc BitwiseAnd BitwiseOr BitwiseXor Div DivNoNan Equal FloorDiv FloorMod "
     "Greater GreaterEqual Igamma IgammaGradA Igammac InvGrad LeftShift Less LessEqual LogicalAnd LogicalOr Maximum "
     "Minimum Mod Mul MulNoNan NotEqual Polygamma Pow RealDiv ReciprocalGrad RightShift RsqrtGrad SigmoidGrad "
     "SqrtGrad SquaredDifference Sub TanhGrad TruncateDiv TruncateMod Xdivy Xlog1py Xlogy Zeta"},
    {"a_val_grad b_val_grad", "SparseAddGrad"},
    {"audio sample_rate", "DecodeWav"},
    {"d_values d_default_value", "RaggedFillEmptyRowsGrad SparseFillEmptyRowsGrad"},
    {"e v", "BatchSelfAdjointEigV2 Eig SelfAdjointEigV2"},
    {"grad_handle flow_out", "TensorArrayGradV3 TensorArrayGradWithShape"},
    {"group_size group_key", "CollectiveAssignGroupV2"},
    {"handle deleter",
     "AnonymousIteratorV2 AnonymousMemoryCache AnonymousMultiDeviceIterator AnonymousRandomSeedGenerator "
     "AnonymousSeedGenerator"},
    {"handle flow", "TensorArrayV3"},
    {"key counter", "StatelessRandomGetKeyCounter"},
    {"key value", "ReaderRead ReaderReadV2"},
    {"keys values", "LookupTableExport LookupTableExportV2 ReaderReadUpTo ReaderReadUpToV2"},
    {"loss backprop", "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits"},
    {"loss gradient", "CTCLoss CTCLossV2"},
    {"lu p", "Lu"},
    {"nearest_center_indices nearest_center_distances", "NearestNeighbors"},
    {"ngrams ngrams_splits", "StringNGrams"},
    {"out idx", "ListDiff"},
    {"output argmax", "MaxPoolWithArgmax"},
    {"output segments", "IsotonicRegression"},
    {"output sorted_unique_indices", "SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2 SparseSegmentSumGradV2"},
    {"output value_index", "Merge RefMerge"},
    {"output_false output_true", "RefSwitch Switch"},
    {"output_handle tensor", "TensorListPopBack"},
    {"output_indices output_shape", "SparseReshape"},
    {"output_indices output_values", "SparseReorder SparseSparseMaximum SparseSparseMinimum"},
    {"output_min output_max", "RequantizationRange RequantizationRangePerChannel"},
    {"output_values output_row_splits", "RaggedCross"},
    {"q r", "Qr"},
    {"r0 r1", "BroadcastGradientArgs"},
    {"remapping num_present", "GenerateVocabRemapping"},
    {"rois roi_probabilities", "GenerateBoundingBoxProposals"},
    {"row_splits char_values", "UnicodeDecode"},
    {"rt_nested_splits rt_dense_values", "RaggedRange"},
    {"selected_indices valid_outputs", "NonMaxSuppressionV4"},
    {"sign log_abs_determinant", "LogMatrixDeterminant"},
    {"tensor lengths", "TensorListConcat TensorListConcatV2"},
    {"topk topk_indices", "TopKUnique TopKWithUnique"},
    {"value lengths", "TensorArrayConcat TensorArrayConcatV2 TensorArrayConcatV3"},
    {"values indices", "ApproxTopK TopK TopKV2"},
    {"y idx", "Unique UniqueV2"},
    {"activations min_activations max_activations", "QuantizedRelu QuantizedRelu6 QuantizedReluX"},
    {"backprops_wrt_input backprop_wrt_min backprop_wrt_max",
     "FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannelGradient"},
    {"begin size bboxes",
     "SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 StatelessSampleDistortedBoundingBox"},
    {"indices ids weights", "ComputeAccidentalHits"},
    {"indices values dense_shape", "CSRSparseMatrixToSparseTensor"},
    {"indices values shape", "SparseAccumulatorTakeGradient StringSplit StringSplitV2"},
    {"input_backprop input_min_backprop input_max_backprop", "QuantizeAndDequantizeV4Grad"},
    {"key counter alg", "StatelessRandomGetKeyCounterAlg"},
    {"out min_out max_out",
     "QuantizedMatMul QuantizedMatMulWithBias QuantizedMatMulWithBiasAndRelu "
     "QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize"},
    {"output min_out max_out", "QuantizedBiasAdd"},
    {"output min_output max_output",
     "QuantizedAvgPool QuantizedConv2D QuantizedConv2DAndRelu QuantizedConv2DAndReluAndRequantize "
     "QuantizedConv2DAndRequantize QuantizedConv2DPerChannel QuantizedConv2DWithBias QuantizedConv2DWithBiasAndRelu "
     "QuantizedConv2DWithBiasAndReluAndRequantize QuantizedConv2DWithBiasAndRequantize "
     "QuantizedConv2DWithBiasSignedSumAndReluAndRequantize QuantizedConv2DWithBiasSumAndRelu "
     "QuantizedConv2DWithBiasSumAndReluAndRequantize QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias "
     "QuantizedDepthwiseConv2DWithBiasAndRelu QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize QuantizedMaxPool"},
    {"output output_min output_max",
     "QuantizeDownAndShrinkRange QuantizeV2 QuantizedConcat QuantizedConcatV2 QuantizedReshape Requantize "
     "RequantizePerChannel"},
    {"output row_pooling_sequence col_pooling_sequence", "FractionalAvgPool FractionalMaxPool"},
    {"output_indices output_values output_dense_shape",
     "DenseCountSparseOutput RaggedCountSparseOutput SparseCountSparseOutput"},
    {"output_indices output_values output_shape",
     "SparseConcat SparseCross SparseCrossHashed SparseCrossV2 SparseReduceMaxSparse SparseReduceSumSparse "
     "SparseSlice"},
    {"resized_images out_min out_max", "QuantizedResizeBilinear"},
    {"result result_min result_max", "QuantizedBatchNormWithGlobalNormalization"},
    {"result_indices result_values result_shape",
     "DenseToDenseSetOperation DenseToSparseSetOperation SparseToSparseSetOperation"},
    {"row_ptrs col_inds values", "CSRSparseMatrixComponents"},
    {"row_splits char_values char_to_byte_starts", "UnicodeDecodeWithOffsets"},
    {"s u v", "BatchSvd Svd"},
    {"sampled_candidates true_expected_count sampled_expected_count",
     "AllCandidateSampler FixedUnigramCandidateSampler LearnedUnigramCandidateSampler LogUniformCandidateSampler "
     "ThreadUnsafeUnigramCandidateSampler UniformCandidateSampler"},
    {"selected_indices selected_scores valid_outputs", "NonMaxSuppressionV5"},
    {"sparse_indices sparse_values sparse_dense_shape", "RaggedTensorToSparse"},
    {"sparse_indices sparse_values sparse_shape",
     "DeserializeManySparse DeserializeSparse TakeManySparseFromTensorsMap"},
    {"sum_indices sum_values sum_shape", "SparseAdd"},
    {"y idx count", "UniqueWithCounts UniqueWithCountsV2"},
    {"y y_min y_max", "QuantizedInstanceNorm"},
    {"z min_z max_z", "QuantizedAdd QuantizedMul"},
    {"d_x d_h_prev d_c_bar d_r_bar_u_bar", "GRUBlockCellGrad"},
    {"decoded_indices decoded_values decoded_shape log_probability", "CTCGreedyDecoder"},
    {"input_backprop input_h_backprop input_c_backprop params_backprop",
     "CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3"},
    {"nmsed_boxes nmsed_scores nmsed_classes valid_detections", "CombinedNonMaxSuppression"},
    {"output output_h output_c reserve_space", "CudnnRNN"},
    {"output_indices output_values empty_row_indicator reverse_index_map", "SparseFillEmptyRows"},
    {"output_value_rowids output_values empty_row_indicator reverse_index_map", "RaggedFillEmptyRows"},
    {"r u c h", "GRUBlockCell"},
    {"cs_prev_grad dicfo wci_grad wcf_grad wco_grad", "LSTMBlockCellGrad"},
    {"dx dm dv db dg", "BatchNormWithGlobalNormalizationGrad"},
    {"output output_h output_c reserve_space host_reserved", "CudnnRNNV2 CudnnRNNV3"},
    {"x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4",
     "FusedBatchNormGrad FusedBatchNormGradV2"},
    {"x_backprop scale_backprop offset_backprop reserve_space_4 reserve_space_5", "FusedBatchNormGradV3"},
    {"y batch_mean batch_variance reserve_space_1 reserve_space_2", "FusedBatchNorm FusedBatchNormV2"},
    {"y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3", "FusedBatchNormV3"},
    {"i cs f o ci co h", "BlockLSTM BlockLSTMV2 LSTMBlockCell"},
    {"vocab_word vocab_freq words_per_epoch current_epoch total_words_processed examples labels", "Skipgram"},
    {"x_grad cs_prev_grad h_prev_grad w_grad wci_grad wcf_grad wco_grad b_grad", "BlockLSTMGrad BlockLSTMGradV2"},
    {"key values=dtypes", "MapUnstageNoKey OrderedMapUnstageNoKey"},
    {"output_nested_splits=OUTPUT_RAGGED_RANK output_dense_values", "RaggedGather"},
    {"output_nested_splits=output_ragged_rank output_dense_values", "RaggedTensorFromVariant"},
    {"sizes values=output_types", "DecodeProtoV2"},
    {"batched_tensors=T batch_index id", "Batch"},
    {"indices keys values=component_types", "BarrierTakeMany"},
    {"out_example_state_data out_delta_sparse_weights=num_sparse_features out_delta_dense_weights=num_dense_features",
     "SdcaOptimizer SdcaOptimizerV2"},
    {"output_indices=num_split output_values=num_split output_shape=num_split", "SparseSplit"},
    {"decoded_indices=top_paths decoded_values=top_paths decoded_shape=top_paths log_probability",
     "CTCBeamSearchDecoder"},
    {"sparse_indices=Nsparse sparse_values=sparse_types sparse_shapes=Nsparse dense_values=Tdense", "ParseExample"},
    {"sparse_indices=num_sparse sparse_values=sparse_types sparse_shapes=num_sparse dense_values=Tdense",
     "ParseSingleExample"},
    {"sparse_indices=num_sparse sparse_values=sparse_types sparse_shapes=num_sparse dense_values=Tdense "
     "ragged_values=ragged_value_types ragged_row_splits=ragged_split_types",
     "ParseExampleV2"},
    {"context_sparse_indices=Ncontext_sparse context_sparse_values=context_sparse_types "
     "context_sparse_shapes=Ncontext_sparse context_dense_values=Tcontext_dense "
     "feature_list_sparse_indices=Nfeature_list_sparse feature_list_sparse_values=feature_list_sparse_types "
     "feature_list_sparse_shapes=Nfeature_list_sparse feature_list_dense_values=feature_list_dense_types",
     "ParseSingleSequenceExample"},
    {"context_sparse_indices=Ncontext_sparse context_sparse_values=context_sparse_types "
     "context_sparse_shapes=Ncontext_sparse context_dense_values=Tcontext_dense "
     "feature_list_sparse_indices=Nfeature_list_sparse feature_list_sparse_values=feature_list_sparse_types "
     "feature_list_sparse_shapes=Nfeature_list_sparse feature_list_dense_values=feature_list_dense_types "
     "feature_list_dense_lengths=Nfeature_list_dense",
     "ParseSequenceExample"},
    {"context_sparse_indices=Ncontext_sparse context_sparse_values=context_sparse_types "
     "context_sparse_shapes=Ncontext_sparse context_dense_values=Tcontext_dense "
     "context_ragged_values=context_ragged_value_types context_ragged_row_splits=context_ragged_split_types "
     "feature_list_sparse_indices=Nfeature_list_sparse feature_list_sparse_values=feature_list_sparse_types "
     "feature_list_sparse_shapes=Nfeature_list_sparse feature_list_dense_values=feature_list_dense_types "
     "feature_list_dense_lengths=Nfeature_list_dense feature_list_ragged_values=feature_list_ragged_value_types "
     "feature_list_ragged_outer_splits=feature_list_ragged_split_types "
     "feature_list_ragged_inner_splits=feature_list_ragged_split_types",
     "ParseSequenceExampleV2"},
};

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> list;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    list.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return list;
}

struct Output {
  std::string_view name;
  std::string_view length = {};  ///< the attribute that tells it; "" for a tensor
};
using Outputs = std::vector<Output>;

Outputs outputs_in(std::string_view text) {
  Outputs outputs;
  for (const std::string_view each : words(text)) {
    const std::size_t middle = std::min(each.find('='), each.size());
    outputs.push_back({each.substr(0, middle), each.substr(std::min(middle + 1, each.size()))});
  }
  return outputs;
}

const Outputs& outputs_of(std::string_view op) {
  using Table = std::unordered_map<std::string_view, Outputs>;
  static const auto& table = *new Table([] {
    Table made;
    for (const NamedOutputs& row : named_outputs)
      for (const std::string_view each : words(row.ops)) made.emplace(each, outputs_in(row.outputs));
    return made;
  }());
  static const auto& usual = *new Outputs{{"output"}};
  const auto found = table.find(op);
  return found == table.end() ? usual : found->second;
}

/// How many tensors of the node an output is.
std::int64_t length_of(const NodeDef& node, const Output& output) {
  if (output.length.empty()) return 1;
  const auto found = node.attrs.find(output.length);
  if (found != node.attrs.end()) {
    if (const auto* types = std::get_if<ListDef>(&found->second)) return std::ssize(types->types);
    constexpr std::int64_t most = 1 << 20;
    if (const auto* number = std::get_if<std::int64_t>(&found->second); number && *number >= 0 && *number <= most)
      return *number;
  }
  throw InvalidArgumentError(detail::join("Node '", node.name, "' (op: '", node.op, "'): the attribute '",
                                          output.length, "' does not tell how many outputs it has"));
}

}  // namespace

std::int64_t first_output(const NodeDef& node, std::string_view output) {
  const Outputs& outputs = outputs_of(node.op);
  if (outputs.size() == 1) return 0;
  std::int64_t first = 0;
  for (const Output& each : outputs) {
    if (each.name == output) return first;
    first += length_of(node, each);
  }
  throw InvalidArgumentError(detail::join("TensorFlow's op '", node.op, "' has no output '", output, "'"));
}

std::string output_in_function(const NodeDef& node, std::int64_t output) {
  const Outputs& outputs = outputs_of(node.op);
  if (outputs.size() == 1) return detail::join(outputs[0].name, ":", output);
  std::int64_t place = output;
  for (const Output& each : outputs) {
    const std::int64_t length = length_of(node, each);
    if (place < length) return detail::join(each.name, ":", place);
    place -= length;
  }
  throw InvalidArgumentError(detail::join("TensorFlow's op '", node.op, "' has no output ", output));
}

}  // namespace tapestry::io
