// The public API of svc: nothing else is promised to stay.

export type { LLMOptions } from './config/llm-options.ts';
export type { LoraModuleInput } from './config/lora-config.ts';
export * from './errors.ts';
export type { AdapterInput, AdaptersInput } from './llm/adapter-option.ts';
export type { BeamSearchOutput, BeamSearchSequence } from './llm/beam-search-output.ts';
export type {
  BeamSearchOptions,
  CallOptions,
  ChatOptions,
  EmbedOptions,
  GenerateOptions,
  ScoreOptions,
  StreamChatOptions,
  StreamOptions,
  ToolInput,
  ToolOptions,
} from './llm/call-options.ts';
export type {
  ChatMessageInput,
  ContentPart,
  ConversationsInput,
  ToolCallInput,
} from './llm/conversations.ts';
export { LLM } from './llm/llm.ts';
export type { EmbeddingRequestOutput, ScoringRequestOutput } from './llm/pooling-output.ts';
export type { PromptInput, PromptsInput } from './llm/prompts.ts';
export type {
  AnswerMessage,
  ChatCompletionDelta,
  ChatCompletionOutput,
  ChatRequestOutput,
  CompletionDelta,
  CompletionOutput,
  Logprob,
  RequestOutput,
  TokenLogprobs,
  ToolCall,
} from './llm/request-output.ts';
export type { SamplingParamsInput } from './llm/sampling-sets.ts';
export type { AnswerDelta, CallDelta } from './parsers/answer-fields.ts';
export type { FunctionTool } from './parsers/answer-parts.ts';
export type { BeamSearchInput } from './sampling/beam-search-params.ts';
export type { FinishReason } from './sampling/finish-reason.ts';
export type { SamplingInput } from './sampling/sampling-fields.ts';
