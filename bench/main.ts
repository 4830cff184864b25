// npm run bench [section ...] [-- --save]: measures this machine's limits first, then prints each figure beside the limit
// that it is held against. With --save the tables go to bench/RESULTS.md.

import { parseArgs } from 'node:util';
import { constrainedSection } from './constrained.ts';
import { dataParallelSection } from './data-parallel.ts';
import { disaggregatedSection } from './disaggregated.ts';
import { embeddingSection } from './embeddings.ts';
import { engineSection, ggufEngineSection } from './engine.ts';
import { fairnessSection } from './fairness.ts';
import { churnSection, clientDisconnectSection, faultSection } from './faults.ts';
import { goldenSection } from './goldens.ts';
import { hangUpSection } from './hangups.ts';
import { imageSection } from './images.ts';
import { attentionSection } from './kernels/attention.ts';
import { productSection } from './kernels/kernels.ts';
import { samplingSection } from './kernels/sampling.ts';
import { statesSection } from './kernels/states.ts';
import { loadSection } from './load.ts';
import { loraSection } from './lora.ts';
import { machineSection, measureMachine } from './machine.ts';
import { pairsSection } from './pairs.ts';
import { prefillSection } from './prefill.ts';
import { proxySection } from './proxy.ts';
import { qualitySection } from './quality.ts';
import { rankFaultSection } from './rank-faults.ts';
import { rankSection } from './ranks.ts';
import { formatSection, type Section } from './report.ts';
import { responsivenessSection } from './responsiveness.ts';
import { saveResults } from './results.ts';
import { serveSection } from './serve.ts';
import { speculationSection } from './speculation.ts';
import { stagesSection } from './stages.ts';
import { stepSection } from './step.ts';
import { structuredOutputSection } from './structured-output.ts';
import { throughputSection } from './throughput.ts';
import { traceSection } from './trace.ts';
import { transferSection } from './transfer.ts';

const SECTIONS = {
  goldens: goldenSection,
  kernels: () => productSection('bf16'),
  'kernels-int8': () => productSection('int8'),
  'kernels-fp8': () => productSection('fp8'),
  'kernels-int4': () => productSection('int4'),
  'kernels-ternary': () => productSection('ternary'),
  attention: attentionSection,
  states: statesSection,
  sampling: samplingSection,
  engine: () => engineSection('bf16'),
  'engine-int8': () => engineSection('int8'),
  'engine-fp8': () => engineSection('fp8'),
  'engine-int4': () => engineSection('int4'),
  'engine-gguf': ggufEngineSection,
  prefill: prefillSection,
  embeddings: embeddingSection,
  images: imageSection,
  lora: loraSection,
  speculation: speculationSection,
  'structured-output': structuredOutputSection,
  constrained: constrainedSection,
  quality: qualitySection,
  ranks: rankSection,
  step: stepSection,
  load: loadSection,
  throughput: throughputSection,
  stages: stagesSection,
  'data-parallel': dataParallelSection,
  trace: traceSection,
  serve: serveSection,
  hangups: hangUpSection,
  responsiveness: responsivenessSection,
  fairness: fairnessSection,
  transfer: transferSection,
  disaggregated: disaggregatedSection,
  pairs: pairsSection,
  proxy: proxySection,
  faults: faultSection,
  'rank-faults': rankFaultSection,
  churn: churnSection,
  disconnects: clientDisconnectSection,
} as const;

type SectionName = keyof typeof SECTIONS;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { save: { type: 'boolean', default: false } },
});
const names = Object.keys(SECTIONS).filter((name): name is SectionName => name in SECTIONS);
const unknown = positionals.filter((name) => !names.some((known) => known === name));
if (unknown.length > 0) {
  console.error(`unknown section ${unknown.join(', ')}; there are ${names.join(', ')}`);
  process.exit(2);
}

const printed = [{ command: 'npm run bench -- <section>', text: show(machineSection(measureMachine())) }];
for (const name of names) {
  if (positionals.length > 0 && !positionals.includes(name)) continue;
  printed.push({ command: `npm run bench -- ${name}`, text: show(await SECTIONS[name]()) });
}
if (values.save) saveResults(printed);

function show(section: Section): string {
  const text = formatSection(section);
  console.log(text);
  return text;
}
