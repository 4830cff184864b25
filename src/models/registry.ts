// The architectures that svc serves, and which of them a model is of.

import * as z from 'zod';
import { ModelLoadError } from '../errors.ts';
import { checkModelJson, parseModelJson } from '../util/model-file.ts';
import type { ModelFiles } from '../util/model-files.ts';
import type { Architecture } from './architecture.ts';
import { afmoe } from './architectures/afmoe.ts';
import { apertus } from './architectures/apertus.ts';
import { arcee } from './architectures/arcee.ts';
import { bert, roberta } from './architectures/bert.ts';
import { bitnet } from './architectures/bitnet.ts';
import { chatGlm } from './architectures/chatglm.ts';
import { cohere, cohere2 } from './architectures/cohere.ts';
import { deepseekV2, deepseekV3 } from './architectures/deepseek.ts';
import { distilbert } from './architectures/distilbert.ts';
import { dots1 } from './architectures/dots1.ts';
import { ernie45, ernie45Moe } from './architectures/ernie4-5.ts';
import { exaoneMoe } from './architectures/exaone-moe.ts';
import { exaone4 } from './architectures/exaone4.ts';
import { falconH1 } from './architectures/falcon-h1.ts';
import { gemma } from './architectures/gemma.ts';
import { gemma2 } from './architectures/gemma2.ts';
import { gemma3 } from './architectures/gemma3.ts';
import { gemma3n } from './architectures/gemma3n.ts';
import { gemma4 } from './architectures/gemma4.ts';
import { glm, glm4 } from './architectures/glm.ts';
import { glm4Moe, solarOpen } from './architectures/glm4-moe.ts';
import { gptNeox } from './architectures/gpt-neox.ts';
import { gptOss } from './architectures/gpt-oss.ts';
import { gpt2 } from './architectures/gpt2.ts';
import { codeGen, gptJ } from './architectures/gptj.ts';
import { granite } from './architectures/granite.ts';
import { graniteMoe } from './architectures/granite-moe.ts';
import { graniteMoeSwa, graniteSwa } from './architectures/granite-swa.ts';
import { gte } from './architectures/gte.ts';
import { hunyuanDense, hunyuanMoe } from './architectures/hunyuan.ts';
import { idefics3 } from './architectures/idefics3.ts';
import { internLm2, internLm3 } from './architectures/internlm.ts';
import { internVl } from './architectures/internvl.ts';
import { lfm2, lfm2Moe } from './architectures/lfm2.ts';
import { lfm2Vl } from './architectures/lfm2-vl.ts';
import { llama } from './architectures/llama.ts';
import { llama4, llama4Whole } from './architectures/llama4.ts';
import { minimaxM2 } from './architectures/minimax-m2.ts';
import { mistral } from './architectures/mistral.ts';
import { ministral3, mistral3 } from './architectures/mistral3.ts';
import { mistral4 } from './architectures/mistral4.ts';
import { mixtral } from './architectures/mixtral.ts';
import { modernBert } from './architectures/modernbert.ts';
import { nemotron } from './architectures/nemotron.ts';
import { nemotronH } from './architectures/nemotron-h.ts';
import { nomicBert } from './architectures/nomic-bert.ts';
import { olmo2, olmo3, olmoe } from './architectures/olmo.ts';
import { olmo1 } from './architectures/olmo1.ts';
import { opt } from './architectures/opt.ts';
import { phi } from './architectures/phi.ts';
import { phi3 } from './architectures/phi3.ts';
import { phiMoe } from './architectures/phimoe.ts';
import { qwen2Vl, qwen3Vl, qwen3VlMoe, qwen25Vl } from './architectures/qwen-vl.ts';
import { qwen2 } from './architectures/qwen2.ts';
import { qwen2Moe } from './architectures/qwen2-moe.ts';
import { qwen3 } from './architectures/qwen3.ts';
import { qwen35, qwen35Moe } from './architectures/qwen3-5.ts';
import { qwen3Moe } from './architectures/qwen3-moe.ts';
import { qwen3Next } from './architectures/qwen3-next.ts';
import { seedOss } from './architectures/seed-oss.ts';
import { smollm3 } from './architectures/smollm3.ts';
import { stableLm } from './architectures/stablelm.ts';
import { starcoder2 } from './architectures/starcoder2.ts';
import type { ModelConfig } from './model-config.ts';
import { BY_FILES, type PoolingChoice } from './pooling/pooling-config.ts';
import { type NamedTask, withPooling } from './pooling/resolve-pooling.ts';
import { withQuantizationFile } from './quantization/quantization-file.ts';

/** Those whose name says what they are for: all others generate. */
const ENCODERS: readonly Architecture[] = [bert, roberta, distilbert, modernBert, nomicBert, gte];

export const ARCHITECTURES: readonly Architecture[] = [
  llama,
  llama4,
  llama4Whole,
  mistral,
  mistral3,
  ministral3,
  mistral4,
  mixtral,
  qwen2,
  qwen2Moe,
  qwen3,
  qwen3Moe,
  qwen2Vl,
  qwen25Vl,
  qwen3Vl,
  qwen3VlMoe,
  qwen3Next,
  qwen35,
  qwen35Moe,
  lfm2,
  lfm2Moe,
  lfm2Vl,
  gptOss,
  deepseekV2,
  deepseekV3,
  bitnet,
  cohere,
  cohere2,
  gemma,
  gemma2,
  gemma3,
  gemma3n,
  gemma4,
  glm,
  glm4,
  glm4Moe,
  solarOpen,
  chatGlm,
  gpt2,
  opt,
  gptNeox,
  gptJ,
  codeGen,
  granite,
  graniteMoe,
  graniteSwa,
  graniteMoeSwa,
  afmoe,
  apertus,
  arcee,
  falconH1,
  hunyuanDense,
  hunyuanMoe,
  idefics3,
  internLm2,
  internLm3,
  internVl,
  minimaxM2,
  nemotron,
  nemotronH,
  olmo1,
  olmo2,
  olmo3,
  olmoe,
  ernie45,
  ernie45Moe,
  exaone4,
  exaoneMoe,
  seedOss,
  dots1,
  phi,
  phi3,
  phiMoe,
  smollm3,
  stableLm,
  starcoder2,
  ...ENCODERS,
];

export const ARCHITECTURE_NAMES = ARCHITECTURES.flatMap(({ architectures }) => architectures);
/** For messages: without what they are for, as `Llama` of `LlamaForCausalLM`. */
const ARCHITECTURE_FAMILIES = [
  ...new Set(ARCHITECTURE_NAMES.map((name) => name.replace(/(For[A-Z]\w*|LMHeadModel|Model)$/, ''))),
];

/** The name is looked at first: the fields of an unknown architecture may be anything. */
const named = z.object({ architectures: z.array(z.string()).nullish() });

/**
 * Reads config.json as the architecture that it names does, and what the model is for.
 * @param choice what it is to be served as, where its files leave that open.
 * @throws ModelLoadError naming the file, the field and what was expected; ConfigError where the choice contradicts them.
 */
export function readModelConfig(files: ModelFiles, choice: PoolingChoice = BY_FILES): ModelConfig {
  const text = files.read('config.json');
  if (text === null) {
    throw new ModelLoadError(
      `${files.path}/config.json is missing: a model folder holds config.json and *.safetensors; where it holds *.gguf files, name ` +
        'one of them',
    );
  }
  const { path } = text;
  const json = withQuantizationFile(parseModelJson(text, z.unknown()), files);
  const names = checkModelJson(path, json, named).architectures ?? [];
  const found = names.map(recognise).find((one) => one !== null);
  if (found) {
    const { architecture, namedTask } = found;
    const config = findArchitecture(architecture).readConfig({ path, architecture, json });
    return withPooling(config, { files, path, json, namedTask, choice });
  }
  const got = names.length > 0 ? names.join(', ') : 'none';
  throw new ModelLoadError(
    `${path}: architecture ${got} is not supported; supported are those of ${ARCHITECTURE_FAMILIES.join(', ')}`,
  );
}

/** What decoders are called that were made into something else than a generator of text. */
const CONVERTED: readonly (readonly [end: string, task: NamedTask])[] = [
  ['ForSequenceClassification', 'score'],
  ['TextModel', 'embed'],
  ['Model', 'embed'],
];

/** The architecture that `name` is of, and what its end says that it is for; null for one that is not known. */
function recognise(name: string): { readonly architecture: string; readonly namedTask: NamedTask } | null {
  const isKnown = (one: string): boolean => ARCHITECTURE_NAMES.includes(one);
  const [end, namedTask] = CONVERTED.find(([one]) => name.endsWith(one)) ?? ['', 'generate'];
  if (isKnown(name))
    return {
      architecture: name,
      namedTask: ENCODERS.includes(findArchitecture(name)) ? namedTask : 'generate',
    };
  const base = `${name.slice(0, name.length - end.length)}ForCausalLM`;
  return end !== '' && isKnown(base) ? { architecture: base, namedTask } : null;
}

/** @param name one of `ARCHITECTURE_NAMES`. */
export function findArchitecture(name: string): Architecture {
  return ARCHITECTURES.find(({ architectures }) => architectures.includes(name))!;
}
