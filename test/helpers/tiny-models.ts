// A tiny random model of each architecture that a test file asks for, removed after it.

import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { temporaryFolders } from './temporary-folder.ts';

/** Gives the folder of the model of an architecture, the same one each time. */
export function tinyModels(): (architecture: string) => string {
  const newFolder = temporaryFolders();
  const folders = new Map<string, string>();
  return (architecture) => {
    const folder = folders.get(architecture) ?? newFolder();
    if (!folders.has(architecture)) writeTinyModel(folder, { architecture, seed: 1 });
    folders.set(architecture, folder);
    return folder;
  };
}

/** A model of seven layers: two that see everything, and five that see `window` tokens in three groups, one of one layer and the others of two. */
export function writeWindowedModel(folder: string, window: number): void {
  const kinds = Array.from({ length: 7 }, (_, i) => (i % 3 === 2 ? 'full_attention' : 'sliding_attention'));
  const config = { num_hidden_layers: 7, sliding_window: window, layer_types: kinds };
  writeTinyModel(folder, { architecture: 'MistralForCausalLM', seed: 2, config });
}

/**
 * Gemma 4 of ten layers, every fifth of which sees everything. The others see 24 tokens and have heads of half the size, so that two of
 * them share a row of a block.
 */
export function writeHeadsModel(folder: string, more: Readonly<Record<string, unknown>> = {}): void {
  const kinds = Array.from({ length: 10 }, (_, i) => (i % 5 === 4 ? 'full_attention' : 'sliding_attention'));
  const ofLayers = { num_hidden_layers: 10, layer_types: kinds, sliding_window: 24 };
  const ofHeads = { head_dim: 8, global_head_dim: 16, hidden_size_per_layer_input: null };
  const config = { ...ofLayers, ...ofHeads, ...more };
  writeTinyModel(folder, { architecture: 'Gemma4ForCausalLM', seed: 3, config });
}
