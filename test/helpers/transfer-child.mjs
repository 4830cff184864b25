// An instance in a process of its own, to be stopped and killed: listens, says where on stdout, tells its events there
// and obeys lines of JSON on stdin. Calls the addon itself, so that it starts at once.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [addon, layers, blocks, layerBlockBytes, driver, kernels, nccl] = process.argv.slice(2);
const { KvMemory, TransferEngine } = createRequire(import.meta.url)(addon);
const memory = new KvMemory(Number(layers), Number(blocks), Number(layerBlockBytes), driver, kernels);
const slotBytes = layers * layerBlockBytes;
const receiveBytes = slotBytes * blocks;
const tcp = { host: '127.0.0.1', port: 0 };
const options = {
  ...{ receiveBytes, deviceBytes: receiveBytes, tcp, shm: true, cudaIpc: 'possible' },
  ...(nccl ? { nccl: tcp, ncclLibrary: nccl } : {}),
};
const parts = [
  { token: memory.share(), layers: { first: 0, end: Number(layers) }, heads: { first: 0, end: 1 } },
];
const engine = new TransferEngine(parts, options, (events) => events.forEach(say));

const COMMANDS = {
  receive: ({ count, ticket = 1 }) =>
    engine.openReceive(
      BigInt(ticket),
      0,
      Float64Array.from({ length: count }, (_, i) => i * slotBytes),
    ),
  send: ({ kind, address, count }) => {
    engine.openSend(1, count);
    engine.grant(1, engine.connect(kind, address, 1), 1n, 0);
    memory.onKvStep(Int32Array.from([1, 0, count, ...Array(count).keys()]));
    for (let layer = 0; layer < layers; layer++) memory.onKvLayerSaved(layer);
  },
  exit: () => process.exit(0),
  return: () => process.stdin.destroy(),
};

const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const command = JSON.parse(line);
  COMMANDS[command.do](command);
  say({ type: 'done' });
});
say({ type: 'listening', ...engine.endpoints });

/** With the time by a clock that all processes of a host have. */
function say(message) {
  const told = { at: process.hrtime.bigint(), ...message };
  const text = JSON.stringify(told, (_, value) => (typeof value === 'bigint' ? Number(value) : value));
  process.stdout.write(`${text}\n`);
}
