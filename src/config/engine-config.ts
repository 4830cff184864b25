// What the engine must know to start: plain data, made from the options or from `new LLM({ ... })`.

import type { ContentFormat } from './content-formats.ts';
import type { CpuBind } from './cpu-bind.ts';
import type { CpuIsa } from './cpu-isa.ts';
import type { KvTransferConfig } from './kv-transfer-config.ts';
import type { LoraConfig } from './lora-config.ts';
import type { SpeculativeConfig } from './speculative-config.ts';
import type { StructuredOutputsConfig } from './structured-outputs-config.ts';

export type Device = 'auto' | 'cpu' | 'cuda' | 'reference';
type SchedulingPolicy = 'fcfs' | 'priority';
export type DTypeOption = 'auto' | 'float32' | 'bfloat16' | 'float16';

/** `auto` is the format that the model is computed in. */
export type KvCacheDType = 'auto' | 'bf16' | 'fp8' | 'int8';

/** What the weights of a plain checkpoint are turned into while they are read. */
export const QUANTIZATIONS = ['int8', 'int4', 'fp8'] as const;
export type Quantization = (typeof QUANTIZATIONS)[number];

export const LOAD_FORMATS = ['auto', 'safetensors', 'gguf', 'dummy'] as const;
export type LoadFormat = (typeof LOAD_FORMATS)[number];

export const RUNNERS = ['auto', 'generate', 'pooling'] as const;
export const CONVERSIONS = ['auto', 'none', 'embed', 'classify'] as const;

/** Formats in which models call functions, as vLLM names them; `none` leaves calls in the text. */
export const TOOL_CALL_PARSERS = [
  'hermes',
  'qwen3_coder',
  'qwen3_xml',
  'seed_oss',
  'minimax_m2',
  'llama3_json',
  'llama4_json',
  'pythonic',
  'llama4_pythonic',
  'olmo3',
  'lfm2',
  'mistral',
  'deepseek_v3',
  'deepseek_v31',
  'openai',
  'gemma4',
  'glm45',
  'glm47',
  'granite',
  'granite-20b-fc',
  'phi4_mini_json',
  'nemotron_json',
  'apertus',
  'none',
] as const;
export type ToolCallParserName = (typeof TOOL_CALL_PARSERS)[number];

/** Formats in which models write their thoughts; `none` leaves thoughts in the text. */
export const REASONING_PARSERS = [
  'deepseek_r1',
  'qwen3',
  'gemma4',
  'glm45',
  'granite',
  'mistral',
  'seed_oss',
  'minimax_m2',
  'openai_gptoss',
  'apertus',
  'none',
] as const;
export type ReasoningParserName = (typeof REASONING_PARSERS)[number];

/** Degrees that cut the eight groups of experts evenly. */
export const TENSOR_PARALLEL_SIZES = [1, 2, 4, 8] as const;
export type TensorParallelSize = (typeof TENSOR_PARALLEL_SIZES)[number];

/** How attention is computed; the answers are the same. */
export interface AttentionChoice {
  /** Null is the best for the device. */
  readonly backend: 'CPU_ATTN' | 'FLASH_ATTN' | 'FLASHINFER' | null;
  /** Whether FLASHINFER computes steps with prompts too. */
  readonly isForPrefill: boolean;
}

/** What one of several engines of a process gets of the machine beside its part of the threads. */
export interface EngineShare {
  readonly rank: number;
  /** Of the host's memory, for its weights and its KV cache. */
  readonly memoryBytes: number;
}

export interface EngineConfig {
  /** Folder with config.json and *.safetensors. */
  readonly modelPath: string;
  /** Folder with the tokenizer and the chat template; null is that of the model. */
  readonly tokenizer: string | null;
  /** Of the model on the hub; null is its main branch. */
  readonly revision: string | null;
  /** Where models from the hub are kept; null is the hub's usual cache. */
  readonly downloadDir: string | null;
  readonly device: Device;
  /** `auto` computes in the checkpoint's own format (float16 in bfloat16). */
  readonly dtype: DTypeOption;
  /** Null keeps the weights in the format of `dtype`. */
  readonly quantization: Quantization | null;
  /** Folder that keeps packed weights for the next start; null keeps none. */
  readonly packedCache: string | null;
  /** Bytes of all entries of that folder together. */
  readonly packedCacheSize: number;
  /** What the weights are read from; `auto` is what is there, `dummy` makes them up. */
  readonly loadFormat: LoadFormat;
  /** Fields that win over those of config.json. */
  readonly hfOverrides: Readonly<Record<string, unknown>> | null;
  /** What the model is served as; `auto` is what its files say. */
  readonly runner: (typeof RUNNERS)[number];
  /** What a model that generates is turned into, where it is served as a pooling one. */
  readonly convert: (typeof CONVERSIONS)[number];
  /** Null is the model's own limit, `auto` as much of it as the KV memory has room for. */
  readonly maxModelLen: number | 'auto' | null;
  /** Tokens of one step, over all requests. */
  readonly maxNumBatchedTokens: number;
  /** Sequences that run at the same time. */
  readonly maxNumSeqs: number;
  /** Waiting sequences at most; a server refuses callers that exceed their share of the running and waiting ones. */
  readonly maxQueuedRequests: number;
  /** `fcfs`: callers and requests take turns; `priority`: requests with a lower number run first. */
  readonly schedulingPolicy: SchedulingPolicy;
  /** Tokens a KV block. */
  readonly blockSize: number;
  /** Keep the blocks of finished requests for others that begin alike. */
  readonly enablePrefixCaching: boolean;
  /** Format of keys and values: `fp8` and `int8` hold twice the tokens of bfloat16, and round them. */
  readonly kvCacheDtype: KvCacheDType;
  /** Exact size of the KV memory; null takes what `gpuMemoryUtilization` leaves. */
  readonly kvCacheMemoryBytes: number | null;
  /** Share of the machine's memory for weights and KV cache. */
  readonly gpuMemoryUtilization: number;
  /** Ranks that the model is cut over, each with threads and memory of its own. */
  readonly tensorParallelSize: TensorParallelSize;
  /** Stages that the layers are in, each with threads and memory of its own. */
  readonly pipelineParallelSize: number;
  /** Engines of the process: each has a copy of the model, and an equal part of threads and KV memory. */
  readonly dataParallelSize: number;
  /** Of the engine that gets this; null where it has all, or the engines are still to be told apart. */
  readonly share: EngineShare | null;
  /** Of all engines, ranks and stages together; null is one a physical core. */
  readonly numThreads: number | null;
  /** Null is `auto` for several ranks on several NUMA nodes, else `nobind`. */
  readonly cpuBind: CpuBind | null;
  /** Instruction set of the native kernels; null is the best that the processor has. */
  readonly cpuIsa: CpuIsa | null;
  readonly attention: AttentionChoice;
  /** Whether a GPU gets the ops of each step one by one, never as a CUDA graph. */
  readonly enforceEager: boolean;
  /** Seconds after which a step hangs; 0 is no limit, null what the device needs at most. */
  readonly executeModelTimeout: number | null;
  /** Seed of requests without one. */
  readonly seed: number;
  readonly skipTokenizerInit: boolean;
  /** File or text of the chat template; null takes the model's own. */
  readonly chatTemplate: string | null;
  readonly chatTemplateContentFormat: ContentFormat;
  /** How the model writes calls of functions; null is as its chat template shows. */
  readonly toolCallParser: ToolCallParserName | null;
  /** How the model writes its thoughts; null is as its chat template shows. */
  readonly reasoningParser: ReasoningParserName | null;
  /** `auto`: the model's generation_config.json; `svc`: no sampling defaults from the model; else a folder. */
  readonly generationConfig: string;
  /** Fields of generation_config.json that win over that file. */
  readonly overrideGenerationConfig: Readonly<Record<string, unknown>> | null;
  /** Most log-probabilities a token that a request may ask for; -1 is no limit. */
  readonly maxLogprobs: number;
  /** Images that one prompt may have, of models that see. */
  readonly maxImages: number;
  /** Fields that win over those of the model's files of images. */
  readonly mmProcessorKwargs: Readonly<Record<string, unknown>> | null;
  /** The only hosts that images are fetched from, as URLs have them; none are all that are public. */
  readonly allowedMediaDomains: readonly string[];
  /** How this instance exchanges KV blocks with others; null is not at all. */
  readonly kvTransfer: KvTransferConfig | null;
  /** How tokens are guessed ahead, which changes no answer; null is not at all. */
  readonly speculative: SpeculativeConfig | null;
  /** What counts for the JSON of all constraints. */
  readonly structuredOutputs: StructuredOutputsConfig;
  /** Adapters that are served beside the model; null is none, now or later. */
  readonly lora: LoraConfig | null;
}
