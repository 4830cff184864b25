// Beam search against a search of all sequences by the model itself, with no engine in between.

import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { type BeamSearchInput, InvalidRequestError, LLM } from '../../src/index.ts';
import { loadModel } from '../../src/models/load-model.ts';
import { openModelSource } from '../../src/models/source/model-source.ts';
import { ReferenceOps } from '../../src/ops/reference/reference-ops.ts';
import { writeTinyModel } from '../fixtures/tiny-model.ts';
import { TINY_EOS_ID, TINY_VOCAB_SIZE } from '../fixtures/tiny-tokenizer.ts';
import { ModelSession } from '../models/model-session.ts';

const PROMPT = [0, 40, 41, 42, 99];
const LENGTH_PENALTY = 2;

let folder: string;
let llm: LLM;
beforeAll(() => {
  folder = mkdtempSync(join(os.tmpdir(), 'svc-beams-'));
  writeTinyModel(folder, { seed: 9 });
  llm = new LLM({ model: folder, maxLogprobs: -1 });
});
afterAll(async () => {
  await llm.close();
  rmSync(folder, { recursive: true });
});

interface Found {
  readonly tokens: readonly number[];
  readonly cumulative: number;
  readonly score: number;
}

/** All continuations of two tokens, and the end token alone, the best first. */
async function searchAll(): Promise<Found[]> {
  const ops = new ReferenceOps();
  const model = await loadModel(openModelSource(folder), ops, { dtype: 'auto', maxModelLen: 64 });
  const next = (ids: readonly number[]) => logSoftmax(new ModelSession(ops, model, 16).run(ids, 1));
  const found: Found[] = [];
  const add = (tokens: number[], cumulative: number) => {
    const length = PROMPT.length + tokens.length - (tokens.at(-1) === TINY_EOS_ID ? 1 : 0);
    found.push({ tokens, cumulative, score: cumulative / length ** LENGTH_PENALTY });
  };
  for (const [first, logprob] of next(PROMPT).entries()) {
    if (first === TINY_EOS_ID) add([first], logprob);
    else
      for (const [second, more] of next([...PROMPT, first]).entries()) add([first, second], logprob + more);
  }
  return found.sort((a, b) => b.score - a.score);
}

function logSoftmax(logits: Float32Array): number[] {
  const most = Math.max(...logits);
  const normaliser = most + Math.log(logits.reduce((sum, value) => sum + Math.exp(value - most), 0));
  return Array.from(logits, (value) => value - normaliser);
}

async function search(params: BeamSearchInput) {
  const [output] = await llm.beamSearch([PROMPT], params);
  return output!.sequences;
}

describe('LLM.beamSearch', () => {
  it('finds what a search of all sequences finds where the beam is as wide as the vocabulary', async () => {
    const sequences = await search({
      beam_width: TINY_VOCAB_SIZE,
      max_tokens: 2,
      length_penalty: LENGTH_PENALTY,
    });
    const expected = (await searchAll()).slice(0, 50);
    expect(sequences).toHaveLength(TINY_VOCAB_SIZE);
    for (const [index, { tokens, cumulative }] of expected.entries()) {
      expect(sequences[index]!.tokens.slice(PROMPT.length)).toEqual(tokens);
      expect(sequences[index]!.cum_logprob).toBeCloseTo(cumulative, 3);
    }
  });

  it('is greedy with one beam', async () => {
    const [greedy] = await llm.generate([PROMPT], { temperature: 0, max_tokens: 6, ignore_eos: true });
    const [only, ...others] = await search({ beam_width: 1, max_tokens: 6, ignore_eos: true });
    expect(only!.tokens).toEqual([...PROMPT, ...greedy!.outputs[0]!.token_ids]);
    expect(others).toEqual([]);
    expect(only!.finish_reason).toBe('length');
    expect(only!.logprobs).toHaveLength(6);
    const sum = only!.logprobs.reduce((total, one) => total + [...one.values()][0]!.logprob, 0);
    expect(only!.cum_logprob).toBeCloseTo(sum, 6);
  });

  it('gives sequences with their text, the better first, no two alike', async () => {
    const sequences = await search({ beam_width: 4, max_tokens: 5, ignore_eos: true });
    expect(new Set(sequences.map(({ tokens }) => tokens.join())).size).toBe(4);
    const scores = sequences.map(({ cum_logprob }) => cum_logprob);
    expect(scores).toEqual(scores.toSorted((a, b) => b - a));
    expect(sequences.every(({ text }) => text.length > 0)).toBe(true);
  });

  it('finds nothing with a token that the model is never to say', async () => {
    const params = { beam_width: 2, max_tokens: 4, ignore_eos: true };
    const [best] = await search(params);
    const suppressed = best!.tokens.slice(PROMPT.length);
    const other = new LLM({ model: folder, overrideGenerationConfig: { suppress_tokens: suppressed } });
    onTestFinished(() => other.close());
    const [output] = await other.beamSearch([PROMPT], params);
    const found = output!.sequences.map(({ tokens }) => tokens.slice(PROMPT.length));
    expect(found.map(({ length }) => length)).toEqual([4, 4]);
    expect(found.flat().filter((token) => suppressed.includes(token))).toEqual([]);
  });

  it('goes on with other tokens where the most probable one is an end token, and with that where it is ignored', async () => {
    const [greedy] = await search({ beam_width: 1, max_tokens: 3, ignore_eos: true });
    const eosTokenId = greedy!.tokens[PROMPT.length]!;
    const other = new LLM({ model: folder, overrideGenerationConfig: { eos_token_id: eosTokenId } });
    onTestFinished(() => other.close());
    const best = async (params: Partial<BeamSearchInput>) => {
      const [output] = await other.beamSearch([PROMPT], { beam_width: 1, max_tokens: 3, ...params });
      return output!.sequences[0]!;
    };
    const long = await best({ length_penalty: 20 });
    expect(long.tokens).toHaveLength(PROMPT.length + 3);
    expect(long.tokens).not.toContain(eosTokenId);
    expect(await best({ length_penalty: 0 })).toMatchObject({
      tokens: [...PROMPT, eosTokenId],
      finish_reason: 'stop',
    });
    expect((await best({ ignore_eos: true })).tokens).toEqual(greedy!.tokens);
  });

  it('ends where the context ends', async () => {
    const long = Array.from({ length: 20 }, (_, index) => 10 + index);
    const short = new LLM({ model: folder, maxModelLen: 24 });
    const [output] = await short.beamSearch([long], { beam_width: 2, max_tokens: 50, ignore_eos: true });
    expect(output!.sequences.map(({ tokens }) => tokens.length)).toEqual([24, 24]);
    await short.close();
  });

  it.each([
    [{ beam_width: 0, max_tokens: 2 }, 'beam_width'],
    [{ beam_width: 2, max_tokens: 0 }, 'max_tokens'],
    [{ beam_width: 2, max_tokens: 2, temperature: -1 }, 'temperature'],
  ])('refuses %j', async (params, param) => {
    await expect(search(params)).rejects.toThrow(InvalidRequestError);
    await expect(search(params)).rejects.toMatchObject({ param });
  });

  it('refuses a parameter that it does not know, and an option', async () => {
    const mistyped = Object.assign({ beam_width: 2, max_tokens: 2, lenght_penalty: 1 });
    await expect(search(mistyped)).rejects.toThrow(
      'there is no beam search parameter lenght_penalty; did you mean length_penalty?',
    );
    const option = Object.assign({ useProgressBar: true });
    await expect(llm.beamSearch([PROMPT], { beam_width: 2, max_tokens: 2 }, option)).rejects.toThrow(
      'beamSearch() has no option useProgressBar',
    );
  });

  it('gives sequences that JSON holds whole', async () => {
    const [best] = await search({ beam_width: 2, max_tokens: 3, ignore_eos: true });
    const sent = JSON.parse(JSON.stringify(best));
    expect(sent.logprobs).toEqual(best!.logprobs.map((one) => Object.fromEntries(one)));
  });

  it('refuses more beams than maxLogprobs allows', async () => {
    const other = new LLM({ model: folder });
    const attempt = other.beamSearch([PROMPT], { beam_width: 11, max_tokens: 2 });
    await expect(attempt).rejects.toThrow(/beam_width must be at most half of maxLogprobs \(20\), got 11/);
    await other.close();
  });
});
