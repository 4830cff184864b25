// Runs requests on an engine core to their ends, and gives everything that they get back.

import type { EngineCore } from '../../src/engine/engine-core.ts';
import type { Logprobs } from '../../src/sampling/logprobs.ts';
import type { NewRequest } from '../../src/scheduler/request.ts';

/** Everything that a request gets back, in an order that does not depend on how it was cut into steps. */
export interface Answer {
  readonly tokenIds: number[];
  readonly numbers: number[];
  readonly promptNumbers: number[];
}

/**
 * Runs `requests`, each added before the step that `arrivals` names, and given up before the one that `departures` names.
 * @param onCached gets how many tokens of a prompt the cache held, once for each output.
 */
export function generate(
  core: EngineCore,
  requests: readonly NewRequest[],
  arrivals: readonly number[] = [],
  onCached: (numTokens: number) => void = () => {},
  departures: readonly (number | null)[] = [],
): Map<number, Answer> {
  const answers = new Map(
    requests.map(({ id }): [number, Answer] => [id, { tokenIds: [], numbers: [], promptNumbers: [] }]),
  );
  let numLeft = requests.length;
  for (let step = 0; numLeft > 0 || core.hasUnfinished; step += 1) {
    for (const [index, one] of requests.entries()) {
      if (departures[index] === step) core.scheduler.abort(one.id);
      if ((arrivals[index] ?? 0) !== step) continue;
      core.scheduler.add(one);
      numLeft -= 1;
    }
    if (!core.hasUnfinished) continue;
    for (const output of (core.step() ?? []).flatMap((finished) => finished.outputs)) {
      const answer = answers.get(output.requestId)!;
      onCached(output.numCachedTokens);
      answer.tokenIds.push(...output.tokenIds);
      answer.numbers.push(...numbersOf(output.logprobs));
      answer.promptNumbers.push(...(output.promptLogprobs ?? []).flatMap(numbersOf));
    }
  }
  return answers;
}

function numbersOf(rows: Logprobs | null): number[] {
  if (rows === null) return [];
  const { numTop } = rows;
  return Array.from(rows.tokenIds, (tokenId, row) => [
    tokenId,
    rows.logprobs[row]!,
    rows.ranks[row]!,
    ...Array.from(rows.topIds).slice(row * numTop, (row + 1) * numTop),
    ...Array.from(rows.topLogprobs).slice(row * numTop, (row + 1) * numTop),
  ]).flat();
}
